"""A model call while it runs: settled exactly once, at its end or before, with what was heard of the answer by then."""

from finclaw.agent.call_ledger import CallLedger, OpenCall
from finclaw.agent.meter import Settle
from finclaw.agent.paid import Paid, paid_for
from finclaw.agent.stream import Heard
from finclaw.kernel.chunk import Model, Usage
from finclaw.kernel.port import Clock


class CallUnderWay:
    """`paid` gets its line, if it has cost anything; so does the turn's ledger."""

    def __init__(self, model: Model, settle: Settle, clock: Clock, paid: list[Paid], ledger: CallLedger) -> None:
        self._model = model
        self._settle = settle
        self._clock = clock
        self._paid = paid
        self._ledger = ledger
        self._settled = False
        self.open: OpenCall | None = None
        """Set when its reservation is on disk: from then on the request may have left."""
        self.heard = Heard()
        self.whole = False
        """The answer has come to its end."""

    def settle(self, *, cut_off: bool = False) -> None:
        """`cut_off`: it is we who left, so nobody said that it costs nothing; what was sent is paid for."""
        if self._settled:
            return
        self._settled = True
        heard, cut_off = self.heard, cut_off and self.open is not None and not self.whole
        usage = self._settle(heard.usage, begun=heard.begun or cut_off, said=heard.said, whole=self.whole)
        paid = None
        if usage != Usage():
            paid = paid_for(self._model, usage, self._clock.now(), cut_off=cut_off)
            self._paid.append(paid)
        if self.open is not None:
            self._ledger.end(self.open, paid)
