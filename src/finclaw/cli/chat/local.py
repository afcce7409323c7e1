"""A link to a gateway of our own, which runs in this process, in a thread that belongs to its event loop."""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from finclaw.app import App
from finclaw.channels.mailbox import MailboxChannel
from finclaw.cli.chat.commands import KnownCommands
from finclaw.cli.chat.event_queue import (
    CaughtUp,
    Connected,
    EventQueue,
    News,
    NotStopped,
    Refused,
    Seen,
    Taken,
    UnsolicitedMessage,
)
from finclaw.cli.chat.gateway_link import empty_message, latest_message_id
from finclaw.cli.chat.unread import ReadMarker
from finclaw.cli.client import announce_gateway
from finclaw.composition.gateway import build
from finclaw.config.schema import Settings
from finclaw.errors import ConfigError, FinclawError, SessionError, StoreFailed
from finclaw.web.api import Stops
from finclaw.web.errors import ApiError
from finclaw.web.live import LiveStream
from finclaw.web.principal import CHANNEL, OWNER, MessageBody, inbound
from finclaw.web.token import TokenOnDisk, obtain_token
from finclaw.web.view import message_view

_AGAIN = 2.0


class LocalLink:
    """A connection to a gateway that runs in this process, in a thread of its own."""

    url: str | None = None

    def __init__(
        self, settings: Settings, marker: ReadMarker, conversation: str, events: EventQueue, *, shared: bool = False
    ) -> None:
        """Return when the gateway has started; raise what kept it from starting. `shared`: other commands find it."""
        self._shared = shared
        self.market: str = settings.market
        self._settings = settings
        self._marker = marker
        self._conversation = conversation
        self._events = events
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._saying = asyncio.Lock()
        """Held until a message is taken: a later one does not pass it."""
        self._receipt = asyncio.Lock()
        """Held while a message is accepted: its events wait for the receipt, which tells whose they are."""
        self._app: Future[App] = Future()
        self._thread = threading.Thread(target=self._run, name="chat gateway", daemon=True)
        self._thread.start()
        self._app.result()

    def say(self, body: MessageBody) -> None:
        self._start(self._say(body))

    @property
    def commands(self) -> KnownCommands:
        return KnownCommands(self._settings.command_prefix, self._app.result().known_commands())

    def look(self, inbound_id: str | None, back: int = 0) -> None:
        self._start(self._look(inbound_id, back))

    def stop(self, inbound_id: str) -> None:
        self._start(self._stop_message(inbound_id))

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _start(self, task: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(task, self._loop)

    # ── in the gateway's thread ─────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            try:
                runner.run(self._serve())
            except BaseException as error:  # noqa: BLE001  whoever waits for the start must hear what became of it
                if not self._app.done():
                    self._app.set_exception(error)

    async def _serve(self) -> None:
        # The owner's own mailbox, as if it came by the API: the conversation is the same with and without a gateway.
        live = LiveStream()
        async with build(self._settings, channels=(MailboxChannel(CHANNEL),), observers=(live.observe,)) as app:
            await self._catch_up(app)
            following = asyncio.create_task(self._follow(live))
            self._events.put(Connected())
            self._app.set_result(app)
            await self._serve_others(app, live)
            following.cancel()

    async def _serve_others(self, app: App, live: LiveStream) -> None:
        """Until the end: let `ask`, `status`, `turns` and other chats in, as `finclaw serve` does, on any free port."""
        if not self._shared:
            await self._stop.wait()
            return
        from finclaw.web.server import listen, serve_web  # noqa: PLC0415  start-up: the person can type by now

        try:
            obtain_token(self._settings.state)
            sock = listen(replace(self._settings.web, port=0))
        except (OSError, ConfigError):  # the chat itself needs neither
            await self._stop.wait()
            return
        token = TokenOnDisk(self._settings.state)
        async with serve_web(app, self._settings.web, token, live=live, sock=sock) as server:
            with announce_gateway(self._settings.state, server.url):
                await self._stop.wait()

    async def _follow(self, live: LiveStream) -> None:
        async for event in live.follow(OWNER.name, self._conversation, live.beginning):
            async with self._receipt:
                self._events.put(News(event.type, event.data))

    async def _catch_up(self, app: App) -> None:
        unasked = await app.unasked(inbound(OWNER, empty_message(self._conversation)), self._marker.after)
        for view in map(message_view, unasked.items):
            self._events.put(UnsolicitedMessage(view.inbound_id, view.reply or "", view.is_markdown))
        self._events.put(CaughtUp(unasked.after, frozenset(each.inbound_id for each in unasked.items)))

    async def _say(self, body: MessageBody) -> None:
        async with self._saying:
            while True:
                try:
                    async with self._receipt:
                        accepted = await self._app.result().accept(inbound(OWNER, body))
                        return self._events.put(Taken(body.message_id, accepted.id, accepted.duplicate))
                except StoreFailed as error:
                    self._events.put(Refused(body.message_id, str(error), final=False))
                    await asyncio.sleep(_AGAIN)
                except FinclawError as error:
                    return self._events.put(Refused(body.message_id, str(error), final=True))

    async def _look(self, inbound_id: str | None, back: int = 0) -> None:
        app = self._app.result()
        try:
            inbound_id = inbound_id or latest_message_id(await app.turns(500), self._settings, self._conversation, back)
            record = await app.wait(inbound_id, 0) if inbound_id else None
        except SessionError:
            record = None
        self._events.put(Seen(message_view(record) if record else None))

    async def _stop_message(self, inbound_id: str) -> None:
        app = self._app.result()
        record = await app.wait(inbound_id, 0)
        try:
            if record is not None:
                await Stops(app).stop(record, "stopped by the person")
        except ApiError as error:
            await self._look(inbound_id)  # most likely it has just ended, which says more
            self._events.put(NotStopped(inbound_id, str(error)))
