"""Requests to stop a message: who may, and the answer for one that cannot be stopped."""

from collections import deque
from typing import Final

from finclaw.gateway import Gateway, StopRequest
from finclaw.kernel.record import InboundRecord
from finclaw.web.errors import ApiError
from finclaw.web.principal import Principal, owns

_TRIES = 20
_PAUSE = 0.05
"""A message that was taken a moment ago has not reached the stage from which on it can be stopped."""
_REMEMBERED: Final = 1_000


def may_stop(principal: Principal, record: InboundRecord) -> bool:
    """Whoever asked, and who runs the gateway: a holder of `sessions` may end a turn by a reset anyway."""
    return owns(principal, record) or "sessions" in principal.scopes


class Stops:
    """The stops that were requested. A second request is no error: the message is being stopped already."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._asked: deque[str] = deque(maxlen=_REMEMBERED)

    async def stop(self, record: InboundRecord, reason: str) -> InboundRecord:
        """The record as it is now, perhaps not ended yet. Raises ApiError when there is nothing to stop."""
        for _ in range(_TRIES):
            if record.state == "ended" or await self._is_stopping(record, reason):
                return _require_stopped(record)
            record = await self._gateway.wait(record.inbound_id, _PAUSE) or record
        raise ApiError(
            409,
            "not_now",
            "this cannot be stopped now: it has not begun, or its answer is on its way; look it up by id",
        )

    async def _is_stopping(self, record: InboundRecord, reason: str) -> bool:
        """When this is true the stop is on disk: not even a crash brings the turn back."""
        if record.inbound_id not in self._asked:
            request = StopRequest(session=record.session, reason=reason, only=record.inbound_id, told=False)
            if (await self._gateway.stop_session(request)).is_empty:
                return False
            self._asked.append(record.inbound_id)
        return True


def _require_stopped(record: InboundRecord) -> InboundRecord:
    outcome = record.outcome
    if outcome is not None and outcome.kind != "stopped":
        raise ApiError(409, "message_ended", f"nothing was stopped: this message has ended before, as {outcome.kind}")
    return record
