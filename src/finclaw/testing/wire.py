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
    updates: list[Update]


class SendBody(Struct, frozen=True):
    conversation: str
    token: str
    text: str
    reply_to: str | None = None


class SendAnswer(Struct, frozen=True):
    id: str


class RefusedSend(Struct, frozen=True, omit_defaults=True):
    error: str
    retry_after: float | None = None
