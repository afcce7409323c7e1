"""Stage 2: is it for us? Identity is what the channel authenticated; the gate only reads it."""

from finclaw.kernel.envelope import Sender
from finclaw.pipeline.journal import skip
from finclaw.pipeline.normalize import NormalMessage


class Gate:
    def __init__(self, *, require_mention: bool) -> None:
        self._require_mention = require_mention

    def admit(self, message: NormalMessage) -> Sender:
        inbound = message.inbound
        if inbound.chat_type != "direct" and self._require_mention and not inbound.mentions_us:
            raise skip("not mentioned in a shared conversation")
        return inbound.sender
