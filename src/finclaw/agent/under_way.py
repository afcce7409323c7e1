"""A model call while it runs: settled exactly once, at its end or before, with what was heard of the answer by then."""

from finclaw.agent.meter import Settle
from finclaw.agent.paid import Paid, paid_for
from finclaw.agent.stream import Heard
from finclaw.kernel.chunk import Model, Usage
from finclaw.kernel.port import Clock


class CallUnderWay:
    """`paid` gets its line, if it has cost anything."""

    def __init__(self, model: Model, settle: Settle, clock: Clock, paid: list[Paid]) -> None:
        self._model = model
        self._settle = settle
        self._clock = clock
        self._paid = paid
        self._settled = False
        self.heard = Heard()
        self.whole = False
        """The answer has come to its end."""

    def settle(self) -> None:
        if self._settled:
            return
        self._settled = True
        heard = self.heard
        usage = self._settle(heard.usage, begun=heard.begun, said=heard.said, whole=self.whole)
        if usage != Usage():
            self._paid.append(paid_for(self._model, usage, self._clock.now()))
