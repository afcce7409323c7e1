"""Failures of market data, by what can be done about them.

Only `DataNotFound` is final: our own records lack the instrument. All others are about one source, and the next one of
the chain is asked. The message is for people and the model; code reads the class.
"""

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from datetime import datetime

from finclaw.errors import ToolError


class DataError(ToolError):
    """A request that gave no figure. `source` is who was asked; empty where nobody was."""

    code = "no_data"
    kind = "failed"  # in one or two words, for the list of sources that were passed over

    def __init__(self, message: str, *, source: str = "", retry_at: datetime | None = None) -> None:
        super().__init__(message)
        self.source = source
        self.retry_at = retry_at

    def name_source(self, source: str) -> None:
        """Name the source of an error that was raised without one, as its readers do: `gave no price`, `'s bars …`."""
        if not self.source:
            self.source = source
            self.args = (f"{source} {self}".replace(f"{source} 's ", f"{source}'s ", 1),)


class DataNotFound(DataError):
    """Our own records lack the instrument. A source's 404 for one that we know is `DataUnsupported`."""

    code = "not_found"
    kind = "not found"


class DataUnsupported(DataError):
    code = "unsupported"
    kind = "does not have it"


class DataEmpty(DataError):
    code = "empty"
    kind = "has nothing for it"


class DataStale(DataError):
    """What the source has is of an earlier session than the one that ended or runs now."""

    code = "stale"
    kind = "is behind"


class DataRateLimited(DataError):
    """The source wants fewer requests, or our own budget for it is used up. `retry_at` says until when."""

    code = "rate_limited"
    kind = "was asked too often"


class DataAuthExpired(DataError):
    code = "auth_expired"
    kind = "refused access"


class DataMalformed(DataError):
    """An answer that is not what the source documents: an HTML page, an error note, a renamed field, no number."""

    code = "malformed"
    kind = "answered what cannot be read"


class DataImplausible(DataError):
    code = "implausible"
    kind = "gave a figure that cannot be right"


class DataTransport(DataError):
    code = "transport"
    kind = "did not answer"


class AllSourcesFailed(DataError):
    """Every source of a chain was asked, or rests. `causes` says why, one for each, in their order."""

    code = "unavailable"

    def __init__(self, wanted: str, causes: tuple[DataError, ...]) -> None:
        told = "; ".join(f"{each.source or 'nobody'} {each.kind}" for each in causes) or "no source is switched on"
        super().__init__(f"There is no {wanted} to be had now: {told}. Say so and give no figure.")
        self.causes = causes
        self.suggestion = told
        self.is_implausible = any(isinstance(each, DataImplausible) for each in causes)
        waits = [each.retry_at for each in causes if each.retry_at is not None]
        self.retry_at = min(waits) if waits and len(waits) == len(causes) else None


def name_failures(causes: Iterable[DataError]) -> tuple[str, ...]:
    return tuple(f"{each.source} {each.kind}" for each in causes)


@contextmanager
def refuse_unreadable() -> Generator[None]:
    """Raise DataMalformed for a figure that cannot be calculated with, such as 1e99, so that others are still used."""
    try:
        yield
    except (ArithmeticError, ValueError, LookupError, RecursionError) as error:
        raise DataMalformed(f"gave a figure that cannot be read ({type(error).__name__})") from error
