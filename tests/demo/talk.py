"""Talks to the offline assistant with the real finance tools, and says in one line what it did."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from finclaw.builtins.calculator import calculator_tool
from finclaw.builtins.now import now_tool
from finclaw.demo.assistant.provider import decide
from finclaw.demo.assistant.sayings import SAYINGS
from finclaw.demo.market import DemoMarket
from finclaw.errors import ToolError
from finclaw.finance.calendar import TableCalendar
from finclaw.finance.extension import finance_tools
from finclaw.kernel.chunk import Model, ModelRequest, ToolSpec
from finclaw.kernel.envelope import Sender
from finclaw.kernel.fact import Fact
from finclaw.kernel.message import Block, Message, Role, Source, Text, ToolCall, ToolFailure, ToolResult
from finclaw.kernel.port import Tool, ToolScope
from finclaw.tools.arguments import ArgumentCheck

NOW = datetime(2026, 11, 16, 5, 32, 41, tzinfo=UTC)
"""A Monday: Seoul trades, New York sleeps."""
MODEL = Model("offline", "demo")
SCOPE = ToolScope(session="s", turn_id="t", call_id="c", sender=Sender("u"))
MOST_STEPS = 4
_LEFT = "I did not understand “|부분을 이해하지 못해"


class FixedClock:
    def __init__(self, moment: datetime = NOW) -> None:
        self.moment = moment

    def now(self) -> datetime:
        return self.moment

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing here waits")


@dataclass(frozen=True)
class Said:
    """One whole turn: the reply, and how it came about."""

    text: str
    reply: str
    calls: tuple[ToolCall, ...]
    results: tuple[ToolResult, ...]

    @property
    def facts(self) -> tuple[Fact, ...]:
        return tuple(fact for result in self.results for fact in result.facts)

    @property
    def did(self) -> str:
        """As in `quote AAPL; say advice`."""
        results = {result.call_id: result for result in self.results}
        found = [_did(call, results[call.id]) for call in self.calls]
        sayings = [f"say {name}" for name, texts in SAYINGS.items() if set(texts.values()) & set(_parts(self.reply))]
        left = ["say left"] if re.search(_LEFT, self.reply) else []
        return "; ".join(filter(None, [*found, *sayings, *left]))


@dataclass
class Talk:
    """A conversation that remembers itself, as a session does."""

    moment: datetime = NOW
    messages: list[Message] = field(default_factory=list[Message])

    def __post_init__(self) -> None:
        self.clock = FixedClock(self.moment)
        others = (calculator_tool(self.clock), now_tool(self.clock))
        self.tools: dict[str, Tool] = {
            tool.spec.name: tool for tool in (*finance_tools(DemoMarket(self.clock), TableCalendar()), *others)
        }
        self._check = ArgumentCheck()

    def add(self, role: Role, *blocks: Block) -> None:
        self.messages.append(Message(f"m{len(self.messages)}", role, blocks, Source("user"), NOW))

    def request(self, tools: Sequence[ToolSpec] | None = None) -> ModelRequest:
        specs = tuple(tool.spec for tool in self.tools.values()) if tools is None else tuple(tools)
        return ModelRequest(model=MODEL, system="", messages=tuple(self.messages), tools=specs)

    async def say(self, text: str) -> Said:
        self.add("user", Text(text))
        calls: list[ToolCall] = []
        results: list[ToolResult] = []
        for _ in range(MOST_STEPS):
            decision = decide(self.request())
            assert decision == decide(self.request()), "the same request, another decision"
            if isinstance(decision, str):
                self.add("assistant", Text(decision))
                return Said(text, decision, tuple(calls), tuple(results))
            found = [await self.run(call) for call in decision]
            self.add("assistant", *decision)
            self.add("tool", *found)
            calls += decision
            results += found
        raise AssertionError(f"{text!r} goes on for ever")

    async def run(self, call: ToolCall) -> ToolResult:
        tool = self.tools[call.name]
        try:
            output = await tool.run(self._check.check(tool.spec, call.args).args, SCOPE)
        except ToolError as error:
            failure = ToolFailure(type(error).__name__, str(error), error.suggestion)
            return ToolResult(call.id, call.name, str(error), status="error", error=failure)
        return ToolResult(call.id, call.name, output.content, facts=output.facts)


def _parts(reply: str) -> list[str]:
    """Paragraphs, and runs of them, for some sayings have a blank line inside."""
    paragraphs = reply.split("\n\n")
    size = len(paragraphs)
    return ["\n\n".join(paragraphs[first:last]) for first in range(size) for last in range(first + 1, size + 1)]


def _did(call: ToolCall, result: ToolResult) -> str:  # noqa: PLR0911, C901 - one line for each tool
    if result.error is not None:
        return _failed(result)
    args: dict[str, Any] = call.args
    subjects = ",".join(sorted({fact.subject.partition("#")[0] for fact in result.facts if fact.field != "rate"}))
    match call.name:
        case "market__quote":
            return f"quote {subjects}" + (f" in {args['in_currency']}" if "in_currency" in args else "")
        case "market__history":
            return f"history {subjects} {args.get('on') or args['period']}"
        case "market__compare":
            return f"compare {subjects} {args['period']}"
        case "calc__evaluate":
            return f"calc {result.facts[0].value.normalize():f}"
        case "time__now":
            return "clock"
        case "market__hours" | "market__calendar":
            return f"{call.name.partition('__')[2]} {subjects}"
        case "fx__convert":
            return f"convert {args['amount']} {args['from']} {args['to']}"
        case "portfolio__show":
            return f"portfolio {args['in_currency']}"
        case "alert__add":
            return f"alert {subjects} {args.get('side', '?')} {args['price']}"
        case _:
            return f"{call.name.partition('__')[2]} alerts {subjects}".strip()


def _failed(result: ToolResult) -> str:
    assert result.error is not None
    _, *candidates = (result.error.suggestion or "").split("\n")
    symbols = ",".join(line.split(" | ")[0] for line in candidates)
    match result.error.name:
        case "AmbiguousName":
            return f"which {symbols}"
        case "UnknownName":
            return f"near {symbols}" if symbols else "nothing"
        case "SeveralNames":
            return ""
        case name:
            return name
