"""A fake chat service on 127.0.0.1, with the faults of real ones.

It lives in the test's process and outlives every gateway that is killed beside it. `GET /updates?offset=N&wait=s`
is a long poll: the offset acknowledges what is below it, everything else is given again. `POST /send` shows a
reply, and `disturb` decides what goes wrong with the next ones. All that people can see goes into the history.
"""

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self

import msgspec
from aiohttp import web
from tests.support.history import Acked, History, ReplySeen, SentIn
from tests.support.wire import RefusedSend, SendAnswer, SendBody, Update, Updates

FaultKind = Literal["slow", "late", "busy", "broken", "cut", "refused"]
"""`slow`: shown late. `late`: shown, but answered late. `busy`: 429. `broken`: 500. `refused`: 400.
`cut`: shown, but the connection breaks."""

BATCH = 100


@dataclass(frozen=True, slots=True)
class SendFault:
    kind: FaultKind
    seconds: float | None = None
    """How late, or the `retry_after` of a 429."""


class FakePlatform:
    """A fake chat service: conversations, updates for the gateway, and faults when sending."""

    def __init__(self, history: History | None = None, *, idempotent: bool = False) -> None:
        self.history = history or History()
        self.idempotent = idempotent
        self.fault: Callable[[SendBody], SendFault | None] = lambda _: None
        """Asked for each send once the disturbances are used up; a chaos run puts its dice here."""
        self.polls = 0
        self._updates: list[Update] = []
        self._acked = 0
        self._counts: Counter[str] = Counter()
        self._shown: defaultdict[str, list[ReplySeen]] = defaultdict(list)
        self._times: Counter[str] = Counter()
        self._ids: dict[str, str] = {}
        self._disturbances: deque[SendFault] = deque()
        self._changed = asyncio.Event()
        self._runner: web.AppRunner | None = None
        self._url = ""

    # ── its life ────────────────────────────────────────────────────────────────────────────────────────────

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/updates", self._on_updates)
        app.router.add_post("/send", self._on_send)
        # A poll that still waits when the test is over has nobody left to answer.
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self._url = f"http://{host}:{port}"

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def url(self) -> str:
        if not self._url:
            raise RuntimeError("the platform has no address before it is started")
        return self._url

    # ── people, and what they see ───────────────────────────────────────────────────────────────────────────

    def write(self, conversation: str, text: str, *, sender: str = "ada") -> str:
        """A person writes; returns the message id."""
        self._counts[conversation] += 1
        n = self._counts[conversation]
        update = Update(len(self._updates) + 1, conversation, n, f"{conversation}-{n}", sender, text)
        self._updates.append(update)
        self.history.write(SentIn(conversation, n, update.message_id))
        self._pulse()
        return update.message_id

    def repeat(self, message_id: str, *, times: int = 1) -> None:
        """The platform delivers a message again, as if it did not know that it had."""
        (first, *_) = (update for update in self._updates if update.message_id == message_id)
        for _ in range(times):
            self._updates.append(msgspec.structs.replace(first, id=len(self._updates) + 1))
        self._pulse()

    def disturb(self, kind: FaultKind, *, times: int = 1, seconds: float | None = None) -> None:
        self._disturbances.extend([SendFault(kind, seconds)] * times)

    @property
    def unacknowledged(self) -> int:
        return len(self._updates) - self._acked

    def replies_in(self, conversation: str) -> list[ReplySeen]:
        """What a person could read there, in order."""
        return list(self._shown[conversation])

    shown = replies_in  # its first name, which tests of extensions may use

    def times_shown(self, token: str) -> int:
        return self._times[token]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something the platform saw makes the condition true."""
        while not condition():
            await self._changed.wait()

    # ── the gateway's side ──────────────────────────────────────────────────────────────────────────────────

    async def _on_updates(self, request: web.Request) -> web.Response:
        self.polls += 1
        self._acknowledge(int(request.query.get("offset", "0")))
        try:
            async with asyncio.timeout(float(request.query.get("wait", "0"))):
                await self.until(lambda: self.unacknowledged > 0)
        except TimeoutError:
            pass
        return _json(Updates(self._updates[self._acked : self._acked + BATCH]))

    def _acknowledge(self, offset: int) -> None:
        while self._acked < min(offset - 1, len(self._updates)):
            self.history.write(Acked(self._updates[self._acked].message_id))
            self._acked += 1
        self._pulse()

    async def _on_send(self, request: web.Request) -> web.Response:
        body = msgspec.json.decode(await request.read(), type=SendBody)
        fault = self._disturbances.popleft() if self._disturbances else self.fault(body)
        if fault is not None:
            if fault.kind == "slow":
                await asyncio.sleep(fault.seconds or 0)
            elif (refusal := _refusal(fault)) is not None:
                return refusal
        if body.edits is not None and body.edits not in self._ids.values():
            return _json(RefusedSend("there is no such message"), 400)
        platform_id = self._show(body) if body.edits is None else self._change(body, body.edits)
        if fault is not None and fault.kind == "late":
            await asyncio.sleep(fault.seconds or 0)
        if fault is not None and fault.kind == "cut" and request.transport is not None:
            request.transport.abort()
        return _json(SendAnswer(platform_id))

    def _show(self, body: SendBody) -> str:
        if self.idempotent and body.token in self._ids:
            return self._ids[body.token]
        self._times[body.token] += 1
        reply = ReplySeen(body.conversation, body.reply_to, body.token, body.text, self._times[body.token])
        self._shown[body.conversation].append(reply)
        self.history.write(reply)
        self._ids[body.token] = f"p{self._times.total()}"
        self._pulse()
        return self._ids[body.token]

    def _change(self, body: SendBody, platform_id: str) -> str:
        """Show other words in the place of a message. They are seen once, however often they are put there."""
        if body.token not in self._ids:
            self._times[body.token] += 1
            self.history.write(ReplySeen(body.conversation, body.reply_to, body.token, body.text))
            self._ids[body.token] = platform_id
        shown = self._shown[body.conversation]
        tokens = {token for token, place in self._ids.items() if place == platform_id}
        for place, reply in enumerate(shown):
            if reply.token in tokens:
                shown[place] = msgspec.structs.replace(reply, token=body.token, text=body.text)
        self._pulse()
        return platform_id

    def _pulse(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def _refusal(fault: SendFault) -> web.Response | None:
    match fault.kind:
        case "busy":
            return _json(RefusedSend("too many messages", fault.seconds), 429)
        case "broken":
            return _json(RefusedSend("something broke"), 500)
        case "refused":
            return _json(RefusedSend("never"), 400)
        case "slow" | "late" | "cut":
            return None


def _json(body: msgspec.Struct, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), status=status, content_type="application/json")
