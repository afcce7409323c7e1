"""Says how full the window is: when its status changes, and once for each threshold that is crossed."""

from finclaw.agent.window import Status, Thresholds, WindowState
from finclaw.kernel.event import ContextStatusChanged, ContextThresholdCrossed, Emit
from finclaw.kernel.scope import Ids


class Announcer:
    """Says what was crossed, once. It lives longer than a turn: a new turn is no new crossing."""

    def __init__(self) -> None:
        self._status: Status = "safe"
        self._above: set[float] = set()

    def tell(self, state: WindowState, table: Thresholds, emit: Emit, ids: Ids) -> None:
        ratio = round(state.usage_ratio, 4)
        if state.status != self._status:
            self._status = state.status
            emit(ContextStatusChanged(status=state.status, ratio=ratio, **ids))
        for threshold in (table.notify, table.stop):
            if state.usage_ratio < threshold:
                self._above.discard(threshold)
            elif threshold not in self._above:
                self._above.add(threshold)
                emit(ContextThresholdCrossed(ratio=ratio, threshold=threshold, **ids))
