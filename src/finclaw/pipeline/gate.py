"""Stage 2, gate: is it for us, and from whom?

Who wrote is what the channel authenticated; what they are here, we know.
"""

from collections.abc import Mapping
from typing import NamedTuple

from finclaw.kernel.envelope import Inbound, Sender
from finclaw.pipeline.journal import skip
from finclaw.pipeline.normalize import NormalMessage
from finclaw.tools.approval.people import People


class Heard(NamedTuple):
    """Who is heard on a channel: these people everywhere, and everybody in these conversations."""

    senders: frozenset[str]
    conversations: frozenset[str]

    def admits(self, inbound: Inbound) -> bool:
        return inbound.sender.id in self.senders or inbound.conversation in self.conversations


class Gate:
    """The stage that admits a message and identifies its sender."""

    def __init__(
        self, *, require_mention: bool, people: People | None = None, heard: Mapping[str, Heard] | None = None
    ) -> None:
        """`heard`: the allow lists of the channels that have some."""
        self._heard = heard or {}
        self._require_mention = require_mention
        self._people = people

    def admit(self, message: NormalMessage) -> Sender:
        reason = self.find_objection(message.inbound)
        if reason is not None:
            raise skip(reason)
        return self.identify_sender(message.inbound)

    def find_objection(self, inbound: Inbound) -> str | None:
        """Why a message is not for us; None: it is."""
        heard = self._heard.get(inbound.channel)
        if heard is not None and not heard.admits(inbound) and not inbound.is_internal:
            return f"the sender is not on the allow lists of channel {inbound.channel}"
        addressed = inbound.mentions_us or inbound.kind == "action" or inbound.is_internal
        if inbound.chat_type != "direct" and self._require_mention and not addressed:
            return "not mentioned in a shared conversation"
        return None

    def identify_sender(self, inbound: Inbound) -> Sender:
        """The sender with the roles that the settings give them."""
        if self._people is None or _is_own_task(inbound):
            return inbound.sender
        return self._people.sender(inbound)


def _is_own_task(inbound: Inbound) -> bool:
    """A task that one of our own turns gave: its sender is the one whom we admitted then."""
    return inbound.limits is not None and inbound.limits.approval is None and inbound.limits.pool != "cron"
