"""A link to the running gateway: its live stream comes in by one thread, messages go out by another.

It uses nothing but the standard library, since a chat has to start fast. The stream is resumed after the last event
seen. Before every request the gateway proves itself again: after a crash another program may have its port.
"""

import http.client
import socket
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any
from urllib.parse import urlencode

import msgspec

from finclaw.cli.chat.commands import KnownCommands
from finclaw.cli.chat.event_queue import (
    CaughtUp,
    Connected,
    EventQueue,
    Lost,
    News,
    NotStopped,
    Refused,
    Seen,
    Taken,
    UnsolicitedMessage,
)
from finclaw.cli.chat.gateway_link import latest_message_id
from finclaw.cli.chat.unread import ReadMarker
from finclaw.cli.client import GatewayClient, find_gateway
from finclaw.config.schema import Settings
from finclaw.errors import ChannelError, ConfigError, FinclawError
from finclaw.web.principal import MessageBody
from finclaw.web.token import read_token
from finclaw.web.view import AcceptedView, MessageView, StatusView, UnsolicitedView

SILENCE = 45.0
"""Seconds without a word, not even a keep-alive, after which the stream is given up."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
_NOWHERE = "0"
"""A place no gateway knows. It is answered with a reset, which tells us a place to go on from."""
_AGAIN = (408, 425, 429)


class GatewayRefused(ChannelError):
    """A refusal by the gateway; `final`: sending it again will not help."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.final = 400 <= status < 500 and status not in _AGAIN


class ChatClient(GatewayClient):
    """A client of the messages and the stream of a gateway that has proved itself."""

    def post(self, body: MessageBody) -> AcceptedView:
        return self.call("POST", "/api/v1/messages", AcceptedView, msgspec.json.encode(body))

    def message(self, inbound_id: str) -> MessageView:
        return self.call("GET", f"/api/v1/messages/{inbound_id}", MessageView)

    def stop(self, inbound_id: str) -> None:
        self.fetch("POST", f"/api/v1/messages/{inbound_id}/stop")

    def list_unsolicited(self, conversation: str, after: str | None) -> UnsolicitedView:
        place = {} if after is None else {"after": after}
        return self.call(
            "GET", "/api/v1/messages?" + urlencode({"conversation": conversation, **place}), UnsolicitedView
        )

    @contextmanager
    def stream(self, conversation: str, after: str) -> Generator[tuple[Iterable[bytes], Callable[[], None]]]:
        """Yield the lines of the live stream, and a way to end it from another thread."""
        connection = http.client.HTTPConnection(self.address.host, self.address.port, timeout=SILENCE)
        try:
            path = "/api/v1/stream?" + urlencode({"conversation": conversation, "after": after})
            connection.request("GET", path, headers={"Authorization": f"Bearer {self._token.reveal()}"})
            response = connection.getresponse()
            if response.status != 200:
                raise self._refusal(response.status, response.read())
            yield response, lambda: _hang_up(connection)
        finally:
            connection.close()

    def _refusal(self, status: int, content: bytes) -> FinclawError:
        return GatewayRefused(str(super()._refusal(status, content)), status)


def find_client(state: Path) -> ChatClient | None:
    """Raises ConfigError when our token cannot be used."""
    found = find_gateway(state)
    token = None if found is None else read_token(state)
    return None if found is None or token is None else ChatClient(found.address, token)


class RemoteLink:
    """A connection to the running gateway."""

    def __init__(
        self,
        settings: Settings,
        marker: ReadMarker,
        conversation: str,
        events: EventQueue,
        url: str,
        status: StatusView,
    ) -> None:
        self.url: str | None = url
        self.market = status.market
        self.commands = KnownCommands(settings.command_prefix, status.commands)
        self._settings = settings
        self._marker = marker
        self._conversation = conversation
        self._events = events
        self._requests: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._receipt = threading.Lock()
        """Held while a message is sent: its events wait for the receipt, which tells whose they are."""
        self._begun = threading.Event()
        self._closed = threading.Event()
        self._hang_up: Callable[[], None] = _do_nothing
        for work in (self._follow, self._run_requests):
            threading.Thread(target=work, name=f"chat {work.__name__}", daemon=True).start()

    def say(self, body: MessageBody) -> None:
        self._requests.put(lambda: self._deliver(body))

    def look(self, inbound_id: str | None, back: int = 0) -> None:
        self._requests.put(lambda: self._look_up(inbound_id, back))

    def stop(self, inbound_id: str) -> None:
        self._requests.put(lambda: self._stop(inbound_id))

    def close(self) -> None:
        self._closed.set()
        self._begun.set()
        self._requests.put(_do_nothing)
        self._hang_up()

    # ── in ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _follow(self) -> None:
        after, pause = _NOWHERE, _FIRST_PAUSE
        while not self._closed.is_set():
            reason = ""
            try:
                if client := find_client(self._settings.state):
                    with client.stream(self._conversation, after) as (lines, self._hang_up):
                        self._events.put(Connected())
                        pause = _FIRST_PAUSE
                        for place, news in parse_events(lines):
                            if news.type in ("error", "shutdown"):  # a replaced token, or a restart: connect again
                                break
                            if news.type == "reset":
                                self._catch_up(client)
                            if after == _NOWHERE:
                                self._begun.set()  # the first reset is where we come in, not news
                                self._events.put(News("store", news.data.get("store", {"why": ""})))
                            else:
                                with self._receipt:
                                    self._events.put(news)
                            after = place
            except ConfigError as error:
                reason = str(error)
            except (OSError, http.client.HTTPException, msgspec.DecodeError, ValueError, AttributeError, ChannelError):
                pass  # http.client has many ways to say that the line broke, more so when it is hung up on
            self._events.put(Lost(reason))
            self._closed.wait(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE)

    def _catch_up(self, client: ChatClient) -> None:
        """Put unsolicited messages of the time without a connection before what the stream tells next."""
        with suppress(GatewayRefused):  # one of an older release
            unasked = client.list_unsolicited(self._conversation, self._marker.after)
            for view in unasked.items:
                self._events.put(UnsolicitedMessage(view.inbound_id, view.reply or "", view.is_markdown))
            self._events.put(CaughtUp(unasked.after, frozenset(view.inbound_id for view in unasked.items)))

    # ── out ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _run_requests(self) -> None:
        self._begun.wait()  # a message that went out earlier could be answered before we listen
        while not self._closed.is_set():
            self._requests.get()()

    def _deliver(self, body: MessageBody) -> None:
        pause = _FIRST_PAUSE
        while not self._closed.is_set():
            try:
                if client := find_client(self._settings.state):
                    with self._receipt:
                        taken = client.post(body)
                        return self._events.put(Taken(body.message_id, taken.inbound_id, taken.duplicate))
            except GatewayRefused as error:
                self._events.put(Refused(body.message_id, str(error), error.final))
                if error.final:
                    return None
            except (ChannelError, ConfigError):
                pass  # the follower says that the gateway is away; whether it took the message, sending again will tell
            self._closed.wait(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE)
        return None

    def _look_up(self, inbound_id: str | None, back: int = 0) -> None:
        view: MessageView | None = None
        with suppress(ChannelError, ConfigError):  # the look-up is repeated while it is needed
            if client := find_client(self._settings.state):
                if inbound_id is None:
                    inbound_id = latest_message_id(client.turns(500), self._settings, self._conversation, back)
                view = client.message(inbound_id) if inbound_id else None
        self._events.put(Seen(view))

    def _stop(self, inbound_id: str) -> None:
        with suppress(ChannelError, ConfigError):  # gone: when the stream is back, it is asked again
            try:
                if client := find_client(self._settings.state):
                    client.stop(inbound_id)
            except GatewayRefused as error:
                self._look_up(inbound_id)  # most likely it has just ended, which says more
                self._events.put(NotStopped(inbound_id, str(error)))


def parse_events(lines: Iterable[bytes]) -> Generator[tuple[str, News]]:
    """Each event of a stream of server-sent events, with its id."""
    fields: dict[bytes, bytes] = {}
    for line in lines:
        name, _, value = line.rstrip(b"\r\n").partition(b": ")
        if name:
            fields[name] = value
        elif b"data" in fields:
            data: dict[str, Any] = msgspec.json.decode(fields[b"data"], type=dict[str, Any])
            yield fields.get(b"id", b"0").decode(), News(fields.get(b"event", b"").decode(), data)
            fields = {}
        else:
            fields = {}


def _hang_up(connection: http.client.HTTPConnection) -> None:
    """Closing alone would leave a reader in another thread waiting."""
    with suppress(OSError, AttributeError):  # the line may have broken already, and its socket be gone
        connection.sock.shutdown(socket.SHUT_RDWR)


def _do_nothing() -> None:
    pass
