import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, cast

import pytest
from msgspec import structs

from finclaw.demo.market import DemoMarket
from finclaw.finance.calendar import TableCalendar
from finclaw.finance.extension import Finance
from finclaw.kernel.envelope import Inbound, Outbound
from finclaw.kernel.event import Observer
from finclaw.kernel.extension import Extension, ExtensionApi, Finding
from finclaw.kernel.fact import Fact
from finclaw.kernel.middleware import Layer, compose
from finclaw.kernel.port import Clock, Command
from finclaw.kernel.scope import DeliveryContext, TurnResult
from finclaw.testing import FakeClock
from finclaw.tools.registry import ToolRegistry

ENGLISH = "(Demo market: simulated prices, not real quotes.)"
KOREAN = "(데모 시장: 실제 시세가 아닌 모의 가격입니다.)"
NOW = datetime(2026, 11, 16, tzinfo=UTC)
DEMO_FACT = Fact(subject="AAPL", field="price", value=Decimal("228.40"), as_of=NOW, source="demo market")


@dataclass
class Recorder:
    """An extension API that remembers what was registered."""

    tools: ToolRegistry = field(default_factory=ToolRegistry)
    sections: dict[str, str] = field(default_factory=dict[str, str])
    layers: list[Layer[DeliveryContext, Outbound]] = field(default_factory=list[Layer[DeliveryContext, Outbound]])
    logger: logging.Logger = logging.getLogger("finclaw.finance")
    clock: FakeClock = field(default_factory=lambda: FakeClock(NOW))

    @property
    def doctor(self) -> "Recorder":
        return self

    @property
    def pipeline(self) -> "Recorder":
        return self

    @property
    def commands(self) -> "Commands":
        return Commands()

    @property
    def prompt(self) -> "Recorder":
        return self

    @property
    def events(self) -> "Recorder":
        return self

    def register(self, kind: str, fn: Callable[[Any], Awaitable[Any]], *, priority: int = 0) -> None:
        assert kind == "delivery"
        self.layers.append(Layer("finance", fn, priority))

    def section(self, title: str, text: str, *, priority: int = 0, required: bool = False) -> None:
        assert required, "the rules about figures are never left out"
        self.sections[title] = text

    def check(self, name: str, fn: Callable[[], Finding]) -> None:
        assert fn().result == "ok"

    def observe(self, observer: Observer) -> Callable[[], None]:
        raise AssertionError("finance observes nothing")

    def on_close(self, close: Callable[[], Awaitable[None]]) -> None:
        raise AssertionError("finance holds nothing open")


class Commands:
    def register(self, command: Command) -> None:
        raise AssertionError("finance has no commands yet")


def registered(clock: Clock) -> Recorder:
    extension: Extension = Finance(lambda _: DemoMarket(clock), TableCalendar())
    api = Recorder()
    extension.register(cast("ExtensionApi", api))  # all that finance uses of it
    return api


async def delivered(clock: Clock, reply: Outbound, facts: tuple[Fact, ...] | None, asked: str = "price?") -> Outbound:
    async def core(ctx: DeliveryContext) -> Outbound:
        return ctx.outbound

    ring = compose("delivery", registered(clock).layers, core, Outbound)
    return await ring(
        DeliveryContext(
            ids={"agent": "a", "session": "s", "inbound_id": "i", "turn_id": "t"},
            emit=lambda event: None,
            inbound=Inbound(text=asked),
            outbound=reply,
            turn=None if facts is None else TurnResult(status="completed", text=reply.text, facts=facts),
        )
    )


def test_it_registers_a_tool_and_tells_the_model_the_rules(clock: Clock):
    api = registered(clock)
    assert [spec.name for spec in api.tools.specs()] == [
        "alert__add",
        "alert__list",
        "alert__remove",
        "fx__convert",
        "market__calendar",
        "market__compare",
        "market__history",
        "market__hours",
        "market__quote",
        "portfolio__show",
    ]
    assert {(tool.group, tool.transactional) for tool in api.tools.list()} == {("finance", False)}
    assert "demo market" in api.sections["Market data"]
    assert "must come from a tool" in api.sections["Market data"]


@pytest.mark.parametrize(
    ("reply", "line"),
    [
        ("Apple is at $228.40.", ENGLISH),
        ("애플 현재가는 $228.40입니다.", KOREAN),
        ("Samsung Electronics (삼성전자) is at ₩71,600 today.", ENGLISH),
    ],
)
async def test_a_demo_price_is_called_one_in_the_replys_language(clock: Clock, reply: str, line: str):
    out = await delivered(clock, Outbound(text=reply), (DEMO_FACT,))
    assert out == Outbound(text=f"{reply}\n\n{line}", perishable=True)


async def test_a_reply_without_words_takes_the_questions_language(clock: Clock):
    out = await delivered(clock, Outbound(text="228.40"), (DEMO_FACT,), asked="애플 얼마야?")
    assert out.text.endswith(KOREAN)


@pytest.mark.parametrize("line", [ENGLISH, KOREAN])
async def test_it_is_said_once(clock: Clock, line: str):
    reply = Outbound(text=f"Apple is at $228.40.\n\n{line}")
    out = await delivered(clock, reply, (DEMO_FACT,))
    assert out == structs.replace(reply, perishable=True)
    assert await delivered(clock, out, (DEMO_FACT,)) == out


@pytest.mark.parametrize("facts", [None, (), (structs.replace(DEMO_FACT, source="https://example.org"),)])
async def test_other_replies_are_left_alone(clock: Clock, facts: tuple[Fact, ...] | None):
    reply = Outbound(text="Hello.")
    assert await delivered(clock, reply, facts) == reply


async def test_the_gateways_own_words_are_left_alone(clock: Clock):
    notice = Outbound(text="The turn was stopped.", kind="notice")
    assert await delivered(clock, notice, (DEMO_FACT,)) == notice
