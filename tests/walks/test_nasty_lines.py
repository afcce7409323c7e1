"""Chains of models and keys over real lines, and servers at their worst: one answer, said once, and a next one."""

import asyncio
import json
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.providers.model_server import serving
from tests.providers.protocols import WIRES, Call, Json, Said, Wire
from tests.walks.house import TRUSTING, Gateway, Parts, until
from tests.walks.tools import Desk

import finclaw
from finclaw.agent.budget.settings import BudgetSettings
from finclaw.agent.settings import AgentSettings
from finclaw.kernel.event import ModelFellBack, ModelRetried, TextStreamed
from finclaw.providers.settings import ModelSettings, ProviderSettings
from finclaw.redaction import Secret
from finclaw.testing import FakeClock, MemoryChannel, ScriptedProvider
from finclaw.tools.settings import ToolsSettings

Wished = Callable[[web.Request, Wire, Json], Awaitable[web.StreamResponse]]
LOOK = Call("call_1", "look", '{"text": "목록"}')
LOGIN = "<!doctype html><title>Sign in</title><form>password</form>"


def page(text: str = LOGIN, status: int = 200, kind: str = "text/html", **headers: str) -> Wished:
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    async def answer(request: web.Request, wire: Wire, body: Json) -> web.StreamResponse:
        return web.Response(text=text, status=status, content_type=kind, headers=named)

    return answer


def says(text: str = "", *calls: Call, cut: bool = False, pieces: int | None = None) -> Wished:
    """The first so many `pieces` of an answer, which then ends, or is cut."""

    async def answer(request: web.Request, wire: Wire, body: Json) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for event in wire.parts(Said(text, calls)).events[:pieces]:
            await response.write(event)
        if cut and request.transport is not None:
            request.transport.close()
        return response

    return answer


def refuses(status: int, **headers: str) -> Wished:
    return page(json.dumps({"error": {"type": "some_error"}}), status, "application/json", **headers)


@dataclass
class Servers:
    """One address for every model: each says what it was told to, and the last of it for good."""

    wire: Wire
    clock: FakeClock
    lines: dict[str, deque[Wished]] = field(default_factory=lambda: defaultdict[str, deque[Wished]](deque))
    asked: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    bodies: list[Json] = field(default_factory=list[Json])
    times: list[float] = field(default_factory=list[float])

    def will(self, model: str, *lines: Wished) -> None:
        self.lines[model] = deque(lines)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        key = request.headers.get("x-api-key") or request.headers["authorization"].removeprefix("Bearer ")
        self.asked.append((body["model"], key))
        self.bodies.append(body)
        self.times.append(self.clock.monotonic())
        lines = self.lines[f"{body['model']} {key}"] or self.lines[body["model"]]
        line = lines.popleft() if len(lines) > 1 else lines[0]
        return await line(request, self.wire, body)

    def names(self, since: int = 0) -> list[str]:
        return [model for model, _ in self.asked[since:]]


@dataclass
class Scene:
    wire: Wire
    clock: FakeClock
    state: Path
    desk: Desk = field(default_factory=Desk)

    @asynccontextmanager
    async def open(
        self, *fallbacks: str, keys: tuple[str, ...] = ("k1",), budget: BudgetSettings | None = None, **model: Any
    ) -> AsyncGenerator[tuple[Gateway, Servers]]:
        servers, channel = Servers(self.wire, self.clock), MemoryChannel(self.clock)
        async with serving(servers.answer) as url:
            base = url if self.wire.name == "anthropic" else f"{url}/v1"
            limits: dict[str, Any] = {
                "window": 100_000,
                "max_output": 1_000,
                "input_price": Decimal(1),
                "output_price": Decimal(10),
            }
            settings = finclaw.Settings(
                state=self.state,
                agent=AgentSettings(model="box/one", fallbacks=tuple(f"box/{name}" for name in fallbacks)),
                providers={
                    "box": ProviderSettings(
                        kind=self.wire.name, base_url=base, keys={name: Secret(name) for name in keys}
                    )
                },
                models={
                    **{f"box/{name}": ModelSettings(**limits) for name in ("one", "two")},
                    "box/small": ModelSettings(**{**limits, **model}),
                },
                tools=ToolsSettings(rules=TRUSTING),
                budget=budget or BudgetSettings(),
            )
            parts = Parts(tools=[self.desk.tool("look")])
            async with finclaw.build(
                settings, channels=[channel], extensions=[parts], clock=self.clock, threaded=False
            ) as app:
                gateway = Gateway(app, channel, ScriptedProvider(clock=self.clock))
                app.events.observe(gateway.events.append)
                yield gateway, servers


def in_both_protocols(test: Callable[[Scene], Awaitable[None]]) -> Callable[..., None]:
    @pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
    @wraps(test)
    def run(wire: Wire, tmp_path: Path) -> None:
        clock = FakeClock()

        async def scene() -> None:
            await test(Scene(wire, clock, tmp_path))

        clock.run(scene())

    del run.__wrapped__  # type: ignore[attr-defined]  # else pytest would look for the scene among its fixtures
    return run


def fell_back(gateway: Gateway) -> list[str]:
    return [event.instead for event in gateway.events if isinstance(event, ModelFellBack)]


def streamed(gateway: Gateway) -> str:
    return "".join(event.text for event in gateway.events if isinstance(event, TextStreamed))


# ── no stream ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("RT-06")
@in_both_protocols
async def test_a_proxy_wants_a_login(scene: Scene) -> None:
    async with scene.open("two") as (gateway, servers):
        servers.will("one", page())
        servers.will("two", says("From two."))
        assert ((await gateway.ask("hello")).reply or "").startswith("From two.")
        assert servers.names() == ["one"] * 3 + ["two"]
        await gateway.ask("hello")
        assert servers.names(4) == ["two"], "it is left alone for a while"
        servers.will("one", says("From one."))
        await scene.clock.sleep(31)
        assert ((await gateway.ask("hello")).reply or "").startswith("From one."), "somebody has signed in"


@in_both_protocols
async def test_a_proxy_wants_a_login_for_a_moment(scene: Scene) -> None:
    async with scene.open() as (gateway, servers):
        servers.will("one", page(), says("Here."))
        assert (await gateway.ask("hello")).reply == "Here."


@in_both_protocols
async def test_an_answer_in_one_piece_is_paid_for_once(scene: Scene) -> None:
    whole = {"type": "message", "content": [{"type": "text", "text": "x"}], "choices": [{"message": {"content": "x"}}]}
    async with scene.open("two") as (gateway, servers):
        servers.will("one", page(json.dumps(whole), kind="application/json"))
        servers.will("two", says("From two."))
        for _ in range(3):
            assert ((await gateway.ask("hello")).reply or "").startswith("From two.")
        assert servers.names() == ["one", "two", "two", "two"]


@in_both_protocols
async def test_nothing_at_all_with_the_status_of_a_success(scene: Scene) -> None:
    async with scene.open("two") as (gateway, servers):
        servers.will("one", page("", kind="text/event-stream"))
        servers.will("two", says("From two."))
        assert ((await gateway.ask("hello")).reply or "").startswith("From two.")
        assert fell_back(gateway) == ["box/two"]


@in_both_protocols
async def test_a_refused_key_with_the_status_of_a_success(scene: Scene) -> None:
    said = json.dumps({"type": "error", "error": {"type": "authentication_error"}})
    async with scene.open(keys=("k1", "k2")) as (gateway, servers):
        servers.will("one k1", page(said, kind="application/json"))
        servers.will("one k2", says("Here."))
        assert (await gateway.ask("hello")).reply == "Here."
        assert [key for _, key in servers.asked] == ["k1", "k2"]


# ── cut ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("DX-47")
@in_both_protocols
async def test_cut_after_a_whole_call_for_good(scene: Scene) -> None:
    async with scene.open("two") as (gateway, servers):
        servers.will("one", says("찾습니다. ", LOOK, cut=True, pieces=-2))
        servers.will("two", says("", LOOK), says("끝."))
        outcome = await gateway.ask("go")
        assert "끝." in (outcome.reply or "")
        assert scene.desk.runs == [("look", "목록")], "once, and by the one that said so to the end"
        assert streamed(gateway).count("끝.") == 1


@in_both_protocols
async def test_cut_in_the_second_step_and_a_fallback_for_that_step_only(scene: Scene) -> None:
    async with scene.open("two") as (gateway, servers):
        servers.will("one", says("찾습니다. ", LOOK), says("반쯤 ", cut=True, pieces=-2), refuses(500), says("다시."))
        servers.will("two", says("never asked"))
        outcome = await gateway.ask("go")
        assert outcome.reply == "반쯤 다시."
        assert streamed(gateway) == "찾습니다. 반쯤 다시."
        assert servers.names() == ["one"] * 4


# ── when to come back ───────────────────────────────────────────────────────────────────────────────────────

ABSURD = [
    "Thu, 01 Jan 1970 00:00:00 GMT",
    f"Mon, 06 Jan {'9' * 20} 09:00:00 GMT",
    f"Mon, 06 Jan 2025 09:00:00 +{'9' * 20}",
    "Mon, 06 Jan 2025",
    "-1",
]


@in_both_protocols
async def test_a_time_that_is_past_or_none(scene: Scene) -> None:
    async with scene.open() as (gateway, servers):
        for told in ABSURD:
            servers.will("one", refuses(429, retry_after=told), says("Here."))
            before = scene.clock.monotonic()
            assert (await gateway.ask("hello")).reply == "Here.", told
            assert scene.clock.monotonic() - before < 3


@pytest.mark.spec("RT-06")
@in_both_protocols
async def test_a_time_that_never_comes(scene: Scene) -> None:
    async with scene.open("two") as (gateway, servers):
        servers.will("one", refuses(429, retry_after="1e300"), says("From one."))
        servers.will("two", says("From two."))
        assert ((await gateway.ask("hello")).reply or "").startswith("From two.")
        await scene.clock.sleep(3_000)
        assert ((await gateway.ask("hello")).reply or "").startswith("From two.")
        await scene.clock.sleep(700)
        assert ((await gateway.ask("hello")).reply or "").startswith("From one."), "an hour is enough"


@in_both_protocols
async def test_a_wait_that_is_asked_for_is_kept_to_the_second(scene: Scene) -> None:
    async with scene.open() as (gateway, servers):
        servers.will("one", refuses(503, retry_after="42"), says("Here."))
        assert (await gateway.ask("hello")).reply == "Here."
        first, second = servers.times
        assert 42 <= second - first < 43


# ── keys ────────────────────────────────────────────────────────────────────────────────────────────────────


@in_both_protocols
async def test_every_key_is_refused_and_the_next_message_works_as_soon_as_one_is_mended(scene: Scene) -> None:
    async with scene.open(keys=("k1", "k2", "k3")) as (gateway, servers):
        for key, status in (("k1", 401), ("k2", 403), ("k3", 402)):
            servers.will(f"one {key}", refuses(status))
        assert (await gateway.ask("hello")).kind == "failed"
        assert [key for _, key in servers.asked] == ["k1", "k2", "k3"]
        servers.will("one k2", says("Here."))
        assert (await gateway.ask("hello")).reply == "Here."
        assert [key for _, key in servers.asked[3:]] == ["k1", "k2"], "all cool, so all are asked"
        assert (await gateway.ask("hello")).reply == "Here."
        assert [key for _, key in servers.asked[5:]] == ["k2"]


@in_both_protocols
async def test_one_key_is_limited_the_other_refused_and_then_the_fallback(scene: Scene) -> None:
    async with scene.open("two", keys=("k1", "k2")) as (gateway, servers):
        servers.will("one k1", refuses(429, retry_after="600"))
        servers.will("one k2", refuses(401))
        servers.will("two k1", says("From two."))
        assert ((await gateway.ask("hello")).reply or "").startswith("From two.")
        assert servers.asked == [("one", "k1"), ("one", "k2"), ("two", "k1")]
        retried = [event for event in gateway.events if isinstance(event, ModelRetried)]
        assert [(event.credential, event.wait_s) for event in retried] == [("k2", 0.0)]


# ── a smaller window ────────────────────────────────────────────────────────────────────────────────────────


@in_both_protocols
async def test_a_long_talk_and_a_fallback_that_reads_little(scene: Scene) -> None:
    """Not even we knew that it was too long: what the chosen model counted was nonsense."""

    async def reads_little(request: web.Request, wire: Wire, body: Json) -> web.StreamResponse:
        long = len(json.dumps(body, ensure_ascii=False)) > 24_000
        return await (refuses(413) if long else says("짧게."))(request, wire, body)

    async with scene.open("small", window=8_192) as (gateway, servers):
        servers.will("one", says("그렇군요. " * 200))
        for number in range(12):
            assert (await gateway.ask(f"{number} " + "삼성전자 주가는 어떻습니까? " * 120)).kind == "answered"
        servers.will("one", refuses(500))
        servers.will("small", reads_little)
        before = len(servers.bodies)
        outcome = await gateway.ask("그래서?")
        assert (outcome.reply or "").startswith("짧게.")
        assert servers.names(before).count("one") == 3, "it is left alone while the talk is made shorter"
        assert 2 <= servers.names(before).count("small") <= 12, "the question twice, and a summary in pieces"


# ── money ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("DX-47")
@in_both_protocols
async def test_the_limit_is_reached_between_two_tries(scene: Scene) -> None:
    """Each try that broke off is paid for, told or not; at the limit no further one is made."""
    limit = Decimal("0.025")
    async with scene.open(budget=BudgetSettings(turn_usd=limit)) as (gateway, servers):
        servers.will("one", says("한 마디 " * 300, cut=True, pieces=-2))
        outcome = await gateway.ask("hello")
        assert outcome.kind == "failed"
        assert len(servers.asked) in (1, 2), "three tries would have been too much"
        assert Decimal("0.005") < outcome.cost <= limit
        assert streamed(gateway) == "한 마디 " * 300 * len(servers.asked)
        (line,) = await gateway.app.costs(1, "user")
        assert line.cost == outcome.cost


# ── stopped ─────────────────────────────────────────────────────────────────────────────────────────────────


@in_both_protocols
async def test_stopped_in_a_pause(scene: Scene) -> None:
    async with scene.open("two") as (gateway, servers):
        servers.will("one", refuses(503, retry_after="50"), says("never asked"))
        accepted = await gateway.channel.write("hello")
        while not servers.asked:
            await scene.clock.sleep(0.05)
        await scene.clock.sleep(5)
        assert gateway.app.stop_message(accepted.id)
        assert (await gateway.outcome(accepted)).kind == "stopped"
        assert scene.clock.monotonic() < 10
        await scene.clock.sleep(100)
        assert servers.names() == ["one"]
        servers.will("one", says("Here."))
        assert (await gateway.ask("and now?")).reply == "Here."


@in_both_protocols
async def test_stopped_in_the_midst_of_what_the_fallback_says(scene: Scene) -> None:
    held = asyncio.Event()

    async def slow(request: web.Request, wire: Wire, body: Json) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        parts = wire.parts(Said("반쯤 말했"))
        for event in (*parts.opening, *parts.text):
            await response.write(event)
        await held.wait()
        return response

    async with scene.open("two", budget=BudgetSettings(month_usd=Decimal(1))) as (gateway, servers):
        servers.will("one", refuses(401))
        servers.will("two", slow)
        accepted = await gateway.channel.write("hello")
        while "반쯤" not in streamed(gateway):
            await scene.clock.sleep(0.05)
        assert gateway.app.stop_message(accepted.id)
        outcome = await gateway.outcome(accepted)
        held.set()
        assert outcome.kind == "stopped"
        assert outcome.cost > 0, "what was said is paid for"
        servers.will("two", says("Here."))
        assert ((await gateway.ask("and now?")).reply or "").startswith("Here.")
        assert streamed(gateway).startswith("반쯤 말했Here."), "nothing came after the stop"
        await until(lambda: True)
