"""JSON messages between the fake platform and the loopback channel."""

from msgspec import Struct


class Update(Struct, frozen=True):
    """A message for the gateway. `id` counts over the whole platform, `n` inside the conversation."""

    id: int
    conversation: str
    n: int
    message_id: str
    sender: str
    text: str


class Updates(Struct, frozen=True):
    """New messages for the gateway."""

    updates: list[Update]


class SendBody(Struct, frozen=True):
    """A reply that the gateway sends."""

    conversation: str
    token: str
    text: str
    reply_to: str | None = None
    edits: str | None = None
    """The platform's id of the message that is changed; None: a new one."""


class SendAnswer(Struct, frozen=True):
    """The receipt of a reply."""

    id: str


class RefusedSend(Struct, frozen=True, omit_defaults=True):
    """A refusal to send, perhaps with the seconds to wait."""

    error: str
    retry_after: float | None = None
