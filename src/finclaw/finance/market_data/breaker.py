"""A circuit breaker for each source: one that fails again and again, or refuses us, is left alone for a while."""

from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from finclaw.finance.market_data.errors import DataAuthExpired, DataError, DataRateLimited, DataTransport
from finclaw.finance.market_data.source_info import SourceInfo

_FAILURES: Final = 3
_LONGEST: Final = timedelta(minutes=15)
_PROBE: Final = timedelta(seconds=30)
"""How long one request has to show that the source is back, while others still leave it alone."""


class _State(Struct):
    failures: int = 0
    until: datetime | None = None
    last: DataError | None = None


class SourceBreaker:
    """What is known of the sources' health. It forgets with the process: a restart may try anew."""

    def __init__(self) -> None:
        self._states: dict[str, _State] = {}

    def check(self, source: SourceInfo, now: datetime) -> None:
        """Raises the error for which the source rests. The first request after that is a probe."""
        state = self._states.get(source.id)
        if state is None or state.until is None or state.last is None:
            return
        if now < state.until:
            raise type(state.last)(str(state.last), source=source.name, retry_at=state.until)
        state.until = now + _PROBE

    def record_success(self, source: SourceInfo) -> None:
        self._states.pop(source.id, None)

    def record_failure(self, source: SourceInfo, error: DataError, now: datetime) -> None:
        """Only what is about the source as a whole counts: not a symbol that it lacks, nor one unreadable answer."""
        if not isinstance(error, DataTransport | DataRateLimited | DataAuthExpired):
            return
        state = self._states.setdefault(source.id, _State())
        state.failures += 1
        state.last = error
        if isinstance(error, DataTransport):
            if state.failures >= _FAILURES:
                state.until = now + min(timedelta(seconds=30) * 2 ** (state.failures - _FAILURES), _LONGEST)
            return
        state.until = error.retry_at or now + timedelta(seconds=source.rest)
