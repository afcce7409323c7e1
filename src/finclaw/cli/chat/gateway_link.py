"""The link from the chat to a gateway: the one that runs, else one of our own in this process."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Protocol

from finclaw.cli.chat.commands import KnownCommands
from finclaw.cli.chat.event_queue import EventQueue
from finclaw.cli.chat.unread import ReadMarker
from finclaw.cli.client import read_address, retry_while_busy
from finclaw.config.schema import Settings
from finclaw.errors import ChannelError, FinclawError, StateBusy
from finclaw.kernel.record import TurnRecord
from finclaw.sessions.session_key import session_key
from finclaw.web.principal import OWNER, MessageBody, inbound

PATIENCE = 3.0
"""Seconds to wait for a state that is busy: most likely a gateway is starting, or a `finclaw ask` is at it."""


class GatewayLink(Protocol):
    """A connection to a gateway. Nothing here waits: what comes of it is put into the event queue."""

    url: str | None
    """None if the gateway is this process."""
    market: str

    @property
    def commands(self) -> KnownCommands: ...

    def say(self, body: MessageBody) -> None:
        """Send until it is taken or refused for good, always under the same message id; in the order of calls."""
        ...

    def look(self, inbound_id: str | None, back: int = 0) -> None:
        """Look up one message, or (None) the latest of the conversation that was answered, or one further back."""
        ...

    def stop(self, inbound_id: str) -> None:
        """Stop the answer to a message, which puts its end or NotStopped into the queue."""
        ...

    def close(self) -> None:
        """Let go of the gateway. One in this process is stopped, which may take seconds while it answers."""
        ...


def connect(
    settings: Settings,
    marker: ReadMarker,
    conversation: str,
    market: str | None,
    events: EventQueue,
    with_keys: Callable[[], Settings],
    patience: float = PATIENCE,
    *,
    shared: bool = False,
) -> GatewayLink:
    """Raises FinclawError: the markets differ, the state is held by somebody who does not answer, …

    Only a gateway of our own needs the keys that the settings name. `shared`: it lets other commands in.
    """

    def reach() -> GatewayLink:
        if running := _link_to_running(settings, marker, conversation, market, events):
            return running
        from finclaw.cli.chat.local import LocalLink  # noqa: PLC0415  start-up: a whole gateway

        return LocalLink(with_keys(), marker, conversation, events, shared=shared)

    try:
        return retry_while_busy(reach, patience)
    except StateBusy as error:
        raise StateBusy(
            f"another finclaw holds {settings.state}, and no gateway answers there: it starts, or is busy with a "
            "`finclaw ask`; try again in a moment, run `finclaw serve` so that several can ask, or use another "
            "directory"
        ) from error


def latest_message_id(turns: Iterable[TurnRecord], settings: Settings, conversation: str, back: int = 0) -> str | None:
    """The message that was answered last in the conversation, by its id; with `back` one so many before it."""
    key = own_session(settings, conversation)
    ours = sorted((turn for turn in turns if turn.session == key), key=lambda turn: turn.started_at)
    return ours[-1 - back].inbound_id if back < len(ours) else None


def own_session(settings: Settings, conversation: str) -> str:
    """By its key: others may have a conversation of that name, too."""
    return session_key(settings.agent.name, inbound(OWNER, empty_message(conversation)))


def empty_message(conversation: str) -> MessageBody:
    """A message that is not sent, to name a conversation by."""
    return MessageBody(message_id="0", text="", conversation=conversation)


def _link_to_running(
    settings: Settings, marker: ReadMarker, conversation: str, market: str | None, events: EventQueue
) -> GatewayLink | None:
    if read_address(settings.state) is None:
        return None
    from finclaw.cli.chat.remote import RemoteLink, find_client  # noqa: PLC0415  start-up: an HTTP client

    client = find_client(settings.state)
    if client is None:
        return None
    status = client.status()
    if market is not None and status.market != market:
        raise FinclawError(f"the gateway at {client.address.url} uses the {status.market} market; leave out --{market}")
    if marker.after is None:
        with suppress(ChannelError):  # of an older release, or gone: then it begins with the stream
            marker.move(client.list_unsolicited(conversation, None).after, ())
    return RemoteLink(settings, marker, conversation, events, client.address.url, status)
