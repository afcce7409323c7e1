"""A Bot API server on 127.0.0.1, for bots that may be killed beside it.

Updates are handed out as Telegram does: to a poll, whose offset acknowledges what is below it, or to a webhook, one
after the other until each is answered with 200. `disturb` and `fault` decide what goes wrong with the next calls.
"""

import asyncio
import json
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Literal, Self, cast

import aiohttp
from aiohttp import web
from tests.support.telegram.methods import Methods
from tests.support.telegram.rules import ApiRefusal, check_webhook, too_many
from tests.support.telegram.world import Json, Shown, World

TOKEN: Final = "700000001:AAfakefakefakefakefakefakefakefakefA"
BATCH: Final = 100
RETRY_WEBHOOK: Final = 0.5
"""Seconds before an update is given to a webhook again that did not take it."""

BotFaultKind = Literal["busy", "broken", "cut", "slow", "late", "gateway", "unparsable"]
"""`busy`: 429. `broken`: 500. `cut`: done, but the connection breaks. `slow`: done late. `late`: done, answered late.
`gateway`: 502 of somebody in between, in HTML. `unparsable`: 400, can't parse entities."""


@dataclass(frozen=True, slots=True)
class BotFault:
    kind: BotFaultKind
    seconds: float = 0.0
    """How late, or the `retry_after` of a 429."""


class BotApi:
    """A Bot API server with one bot."""

    def __init__(
        self, *, token: str = TOKEN, username: str = "finclaw_bot", privacy: bool = False, has_limits: bool = True
    ) -> None:
        self.token = token
        self.world = World(username, privacy=privacy)
        self.methods = Methods(self.world, lambda: asyncio.get_running_loop().time(), has_limits=has_limits)
        self.calls: Counter[str] = Counter()
        self.log: list[tuple[str, Json]] = []
        """Every call with its parameters, but for polls."""
        self.errors: list[str] = []
        """What was refused, and why."""
        self.fault: Callable[[str, Json], BotFault | None] = lambda _method, _given: None
        """Asked for each send and edit once the disturbances are used up."""
        self.webhook: Json = {"url": "", "has_custom_certificate": False, "pending_update_count": 0}
        self.proxy = ""
        """Where the operator's proxy passes calls of the webhook on to, such as `http://127.0.0.1:8443`."""
        self.newest_first = False
        """Hand updates out in the wrong order: within what one poll gets, or to the webhook."""
        self._secret = ""
        self._updates: dict[int, Json] = {}
        self._known: dict[int, Json] = {}
        self._next_update = 1
        self._poll: asyncio.Event | None = None
        self._disturbances: deque[tuple[str, BotFault]] = deque()
        self._changed = asyncio.Event()
        self._runner: web.AppRunner | None = None
        self._pusher: asyncio.Task[None] | None = None
        self._url = ""

    # ── its life ────────────────────────────────────────────────────────────────────────────────────────────────

    async def start(self, port: int = 0) -> None:
        app = web.Application(client_max_size=60_000_000)
        app.router.add_route("*", "/bot{token}/{method}", self._on_call)
        app.router.add_get("/file/bot{token}/files/{file}", self._on_file)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", port).start()
        host, port = self._runner.addresses[0][:2]
        self._url = f"http://{host}:{port}"

    async def stop(self) -> None:
        if self._pusher is not None:
            self._pusher.cancel()
            await asyncio.gather(self._pusher, return_exceptions=True)
        if self._poll is not None:
            self._poll.set()
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
            raise RuntimeError("the server has no address before it is started")
        return self._url

    # ── what a test does with it ────────────────────────────────────────────────────────────────────────────────

    def push(self, *bodies: Json) -> int:
        """Give the bot what people did, as `world` describes it; the id of the last update."""
        for body in bodies:
            update = {"update_id": self._next_update, **body}
            self._updates[self._next_update] = self._known[self._next_update] = update
            self._next_update += 1
        self._pulse()
        return self._next_update - 1

    def write(self, chat: int, text: str, **fields: Any) -> int:
        """A person writes; the number of the message in its chat."""
        body = self.world.write(chat, text, **fields)
        self.push(body)
        return int(body["message"]["message_id"])

    def repeat(self, update: int) -> None:
        """Telegram gives an update again under another id, as if it did not know."""
        self.push({key: value for key, value in self._known[update].items() if key != "update_id"})

    def disturb(self, kind: BotFaultKind, *, times: int = 1, seconds: float = 0.0, method: str = "sendM") -> None:
        """The next calls whose method begins so go wrong."""
        self._disturbances.extend([(method, BotFault(kind, seconds))] * times)

    def shown_in(self, chat: int) -> list[Shown]:
        return [each for each in self.world.shown if each.chat == chat]

    @property
    def unacknowledged(self) -> int:
        return len(self._updates)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something the server saw makes the condition true."""
        while not condition():
            await self._changed.wait()

    async def until_shown(self, chat: int, count: int) -> list[Shown]:
        await self.until(lambda: len(self.shown_in(chat)) >= count)
        return self.shown_in(chat)

    def acknowledge(self, update: Json) -> None:
        """Called once for each update that the bot has; a subclass may keep a history."""

    # ── calls ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def _on_call(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        if request.match_info["token"] != self.token:
            return _answer_error(ApiRefusal(401, "Unauthorized"))
        given = await read_parameters(request)
        self.calls[method] += 1
        try:
            if method == "getUpdates":
                return _answer(await self._hand_out(given))
            self.log.append((method, given))
            return await self._run(request, method, given)
        except ApiRefusal as refusal:
            self.errors.append(f"{method}: {refusal.description}")
            return _answer_error(refusal)
        finally:
            self._pulse()

    async def _run(self, request: web.Request, method: str, given: Json) -> web.StreamResponse:
        fault = self._find_fault(method, given)
        if fault is not None and (early := _refuse_early(fault)) is not None:
            return early
        if fault is not None and fault.kind == "slow":
            await asyncio.sleep(fault.seconds)
        result: object = self._run_webhook(method, given)
        if result is None:
            if method not in self.methods.table:
                raise ApiRefusal(404, "Not Found: method not found")
            result = self.methods.table[method](given)
            self.after_call(method, given, result)
        self._pulse()
        if fault is not None and fault.kind == "late":
            await asyncio.sleep(fault.seconds)
        if fault is not None and fault.kind == "cut" and request.transport is not None:
            request.transport.abort()
        return _answer(result)

    def after_call(self, method: str, given: Json, result: object) -> None:
        """Called once for each call that was done; a subclass may keep a history."""

    def _find_fault(self, method: str, given: Json) -> BotFault | None:
        for place, (begins, fault) in enumerate(self._disturbances):
            if method.startswith(begins):
                del self._disturbances[place]
                return fault
        return self.fault(method, given) if method.startswith(("sendM", "sendP", "sendD", "edit")) else None

    async def _on_file(self, request: web.Request) -> web.Response:
        data = self.world.files.get(request.match_info["file"])
        if request.match_info["token"] != self.token or data is None:
            return web.Response(status=404)
        return web.Response(body=data)

    # ── updates ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def _hand_out(self, given: Json) -> list[Json]:
        if self.webhook["url"]:
            why = "can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"
            raise ApiRefusal(409, f"Conflict: {why}")
        if self._poll is not None:
            self._poll.set()
        mine = self._poll = asyncio.Event()
        offset = int(given.get("offset") or 0)
        self._acknowledge([each for each in self._updates if each < offset])
        try:
            ends = asyncio.get_running_loop().time() + float(given.get("timeout") or 0)
            while not self._updates and not mine.is_set():
                left = ends - asyncio.get_running_loop().time()
                if left <= 0:
                    return []
                with suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await self._changed.wait()
        finally:
            if self._poll is mine:
                self._poll = None
        if mine.is_set():
            why = "terminated by other getUpdates request; make sure that only one bot instance is running"
            raise ApiRefusal(409, f"Conflict: {why}")
        self._drop_unwanted(set(given.get("allowed_updates", ())))
        batch = list(self._updates.values())[:BATCH]
        return batch[::-1] if self.newest_first else batch

    def _drop_unwanted(self, allowed: set[str]) -> None:
        """Of kinds that the bot did not ask for nothing is kept."""
        if allowed:
            self._updates = {update: body for update, body in self._updates.items() if allowed & set(body)}

    def _acknowledge(self, updates: Iterable[int]) -> None:
        for update in updates:
            self.acknowledge(self._updates.pop(update))
        self._pulse()

    def _run_webhook(self, method: str, given: Json) -> object:
        """None: it is another method."""
        if method == "getWebhookInfo":
            return {**self.webhook, "pending_update_count": len(self._updates)}
        if method == "deleteWebhook" or (method == "setWebhook" and not given.get("url")):
            self.webhook["url"] = ""
            return True
        if method == "setWebhook":
            check_webhook(given["url"], given.get("secret_token", ""))
            self.webhook["url"], self._secret = given["url"], given.get("secret_token", "")
            if self._pusher is None:
                self._pusher = asyncio.create_task(self._push_to_webhook())
            return True
        return None

    async def _push_to_webhook(self) -> None:
        async with aiohttp.ClientSession() as session:
            while True:
                await self.until(lambda: bool(self._updates and self.webhook["url"] and self.proxy))
                update = self._updates[max(self._updates) if self.newest_first else min(self._updates)]
                headers = {"X-Telegram-Bot-Api-Secret-Token": self._secret}
                try:
                    async with session.post(self.proxy, json=update, headers=headers) as answer:
                        status = answer.status
                except aiohttp.ClientError:
                    status = 0
                if status == 200:
                    self._acknowledge([update["update_id"]])
                else:
                    self.webhook["last_error_message"] = f"Wrong response from the webhook: {status}"
                    await asyncio.sleep(RETRY_WEBHOOK)

    def _pulse(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


async def read_parameters(request: web.Request) -> Json:
    """The parameters, however the library sent them: in the address, as a form or as JSON; files as name and bytes."""
    given: Json = {key: _read_value(value) for key, value in request.query.items()}
    if request.content_type == "application/json":
        return given | cast("Json", await request.json())
    files: Json = {}
    for key, value in (await request.post()).items():
        if isinstance(value, web.FileField):
            files[key] = (value.filename, value.file.read())
        else:
            given[key] = _read_value(str(value)) if key not in ("text", "caption") else str(value)
    for key, value in given.items():
        if isinstance(value, str) and value.startswith("attach://"):
            given[key] = files.pop(value.removeprefix("attach://"))
    return given | files


def _read_value(value: str) -> Any:
    """What is no text is sent as JSON."""
    try:
        found: Any = json.loads(value)
    except ValueError:
        return value
    return value if isinstance(found, str | float | None) else found


def _refuse_early(fault: BotFault) -> web.Response | None:
    match fault.kind:
        case "busy":
            return _answer_error(too_many(max(1, int(fault.seconds))))
        case "broken":
            return _answer_error(ApiRefusal(500, "Internal Server Error"))
        case "gateway":
            return web.Response(status=502, text="<html>Bad Gateway</html>", content_type="text/html")
        case "unparsable":
            why = 'can\'t parse entities: Unsupported start tag "x" at byte offset 0'
            return _answer_error(ApiRefusal(400, f"Bad Request: {why}"))
        case "cut" | "slow" | "late":
            return None


def _answer(result: object) -> web.Response:
    return web.json_response({"ok": True, "result": result})


def _answer_error(refusal: ApiRefusal) -> web.Response:
    body: dict[str, Any] = {"ok": False, "error_code": refusal.status, "description": refusal.description}
    parameters: Mapping[str, int] | None = refusal.parameters
    if parameters:
        body["parameters"] = dict(parameters)
    return web.json_response(body, status=refusal.status)
