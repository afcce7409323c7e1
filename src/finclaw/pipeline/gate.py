"""Stage 2, gate: is it for us, and from whom?

Who wrote is what the channel authenticated; what they are here, we know.
"""

from finclaw.kernel.envelope import Inbound, Sender
from finclaw.pipeline.journal import skip
from finclaw.pipeline.normalize import NormalMessage
from finclaw.tools.approval.people import People


class Gate:
    """The stage that admits a message and identifies its sender."""

    def __init__(self, *, require_mention: bool, people: People | None = None) -> None:
        self._require_mention = require_mention
        self._people = people

    def admit(self, message: NormalMessage) -> Sender:
        inbound = message.inbound
        addressed = inbound.chat_type == "direct" or inbound.mentions_us or inbound.kind == "action"
        if self._require_mention and not addressed:
            raise skip("not mentioned in a shared conversation")
        return self.identify_sender(inbound)

    def identify_sender(self, inbound: Inbound) -> Sender:
        """The sender with the roles that the settings give them."""
        if self._people is None or _is_own_task(inbound):
            return inbound.sender
        return self._people.sender(inbound)


def _is_own_task(inbound: Inbound) -> bool:
    """A task that one of our own turns gave: its sender is the one whom we admitted then."""
    return inbound.limits is not None and inbound.limits.approval is None
