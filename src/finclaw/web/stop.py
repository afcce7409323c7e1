"""Requests to stop a message: who may, and the answer for one that cannot be stopped."""

from collections import deque
from typing import Final

from finclaw.gateway import Gateway
from finclaw.kernel.record import InboundRecord
from finclaw.web.errors import ApiError
from finclaw.web.principal import Principal, owns

_TRIES, _PAUSE = 20, 0.05
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
            if record.state == "ended" or self._is_stopping(record.inbound_id, reason):
                return _require_stopped(record)
            record = await self._gateway.wait(record.inbound_id, _PAUSE) or record
        raise ApiError(
            409,
            "not_now",
            "this cannot be stopped now: it has not begun, or its answer is on its way; look it up by id",
        )

    def _is_stopping(self, inbound_id: str, reason: str) -> bool:
        if inbound_id not in self._asked:
            if not self._gateway.stop_message(inbound_id, reason):
                return False
            self._asked.append(inbound_id)
        return True


def _require_stopped(record: InboundRecord) -> InboundRecord:
    outcome = record.outcome
    if outcome is not None and outcome.kind != "stopped":
        raise ApiError(409, "message_ended", f"nothing was stopped: this message has ended before, as {outcome.kind}")
    return record
