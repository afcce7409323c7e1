"""Stage 5, context: who is asking, where, and with which settings.

What can go stale is filled in when the turn begins.
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from finclaw.kernel.context import Context, QueueAdmission
from finclaw.kernel.envelope import Capabilities, Inbound, Sender
from finclaw.kernel.message import Message
from finclaw.kernel.person import Person
from finclaw.kernel.port import Channel, Clock
from finclaw.kernel.record import Accepted, Claim
from finclaw.kernel.scope import MessageContext
from finclaw.kernel.store_port import BlobStore
from finclaw.kernel.turn_options import TurnOptions
from finclaw.pipeline.attachments import AttachmentFetcher
from finclaw.pipeline.normalize import NormalMessage
from finclaw.pipeline.persons import PersonDirectory


class Contexts:
    """The stage that builds the context of a message."""

    def __init__(
        self,
        agent: str,
        channels: Mapping[str, Channel],
        store: BlobStore,
        clock: Clock,
        persons: PersonDirectory | None = None,
    ) -> None:
        self._agent = agent
        self._channels = channels
        self._files = AttachmentFetcher(store, channels, clock)
        self._persons = persons or PersonDirectory()

    def find_person(self, inbound: Inbound) -> Person:
        return self._persons.find(inbound)

    async def fetch_files(self, run: MessageContext, message: NormalMessage) -> NormalMessage:
        """The message with its files. Of somebody who was not admitted, none is fetched."""
        if not message.inbound.attachments:
            return message
        run.inbound = await self._files.fetch(run.ids["inbound_id"], message.inbound)
        return replace(message, inbound=run.inbound)

    def build(self, accepted: Accepted, message: NormalMessage, sender: Sender) -> Context:
        """From the message as the pipeline got it: a message layer may have changed it since it was accepted."""
        channel = self._channels.get(accepted.inbound.channel)
        limits = message.inbound.limits
        return Context(
            inbound=message.inbound,
            accepted=accepted.inbound,
            inbound_id=accepted.id,
            body=message.inbound.text,
            command_text=message.content,
            sender=sender,
            person=self._persons.find(message.inbound),
            session_key=accepted.session,
            agent=self._agent,
            capabilities=Capabilities() if channel is None else channel.capabilities,
            mentions=message.mentions,
            urls=message.urls,
            accepted_at=accepted.accepted_at,
            wishes=(limits and limits.wishes) or message.inbound.wishes or TurnOptions(),
        )


def complete_context(
    context: Context, claim: Claim, transcript: Sequence[Message], wishes: TurnOptions, admission: QueueAdmission
) -> Context:
    """The context as it is now that its turn has come."""
    return replace(
        context,
        transcript=transcript,
        session_started_at=claim.session_started_at,
        wishes=wishes,
        admission=admission,
    )
