"""Conversations with the offline assistant and the real finance tools, and in one line what it did."""

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from finclaw.builtins.calculator import calculator_tool
from finclaw.builtins.now import now_tool
from finclaw.demo.assistant.answer import PHRASES
from finclaw.demo.assistant.provider import decide
from finclaw.demo.market import DemoMarket
from finclaw.demo.market_data import DemoMarketData
from finclaw.errors import ToolError
from finclaw.finance.calendar import TableCalendar
from finclaw.finance.charts.answer import ChartAnswers, ChartRequest
from finclaw.finance.charts.extension import ChartArguments
from finclaw.finance.documents import document_tools
from finclaw.finance.extension import finance_tools
from finclaw.finance.watchlist import MIGRATIONS, WatchDesk, Watchlists, watch_tools
from finclaw.kernel.chunk import Model, ModelRequest, ToolSpec
from finclaw.kernel.envelope import Capabilities, Sender
from finclaw.kernel.fact import Fact
from finclaw.kernel.message import Block, Message, Role, Source, Text, ToolCall, ToolFailure, ToolResult
from finclaw.kernel.person import Person
from finclaw.kernel.port import Tool, ToolOutput, ToolScope
from finclaw.storage.sqlite.extension import ExtensionDatabase
from finclaw.tools.arguments import ArgumentCheck
from finclaw.tools.define import tool

NOW = datetime(2026, 11, 16, 5, 32, 41, tzinfo=UTC)
"""A Monday: Seoul trades, New York sleeps."""
MODEL = Model("offline", "demo")
SCOPE = ToolScope(session="s", turn_id="t", call_id="c", sender=Sender("u"), person="u")
SYSTEM = "Prices come from the demo market."
MOST_STEPS = 4


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
    """One turn: the reply, and how it came about."""

    text: str
    reply: str
    calls: tuple[ToolCall, ...]
    results: tuple[ToolResult, ...]

    @property
    def facts(self) -> tuple[Fact, ...]:
        return tuple(fact for result in self.results for fact in result.facts)

    @property
    def did(self) -> str:
        """As in `quote AAPL; quote TSLA`; `say` and the phrase without a call; `short` for the short reply."""
        results = {result.call_id: result for result in self.results}
        if any(text in self.reply for text in PHRASES["not understood"].values()):
            return "short"
        return "; ".join(filter(None, [_did(call, results[call.id]) for call in self.calls])) or _say(self.reply)


def _say(reply: str) -> str:
    spoken = reply.split("\n\n(", maxsplit=1)[0]
    for name, texts in PHRASES.items():
        for text in texts.values():
            if found := re.fullmatch(re.escape(text).replace(r"\{\}", "(.*)"), spoken):
                return f"lacking {found[1]}" if name == "lacking" else f"say {name}"
    raise AssertionError(f"{reply!r} is no phrase")


@dataclass
class Talk:
    """A conversation that remembers itself, as a session does."""

    moment: datetime = NOW
    messages: list[Message] = field(default_factory=list[Message])

    def __post_init__(self) -> None:
        clock = FixedClock(self.moment)
        market = DemoMarket(clock)
        data = DemoMarketData(market)
        database = ExtensionDatabase(Path(tempfile.mkdtemp()), "watchlist", MIGRATIONS, threaded=False)
        desk = WatchDesk(market=market, data=lambda: data, lists=Watchlists(database, clock), person=_person)
        self.tools: dict[str, Tool] = {
            each.spec.name: each
            for each in (
                *finance_tools(market, TableCalendar()),
                *document_tools(market, lambda: data),
                *watch_tools(desk),
                _chart_tool(ChartAnswers(market, data, _settle, "/")),
                calculator_tool(clock),
                now_tool(clock),
            )
        }
        self._check = ArgumentCheck()

    def add(self, role: Role, *blocks: Block) -> None:
        self.messages.append(Message(f"m{len(self.messages)}", role, blocks, Source("user"), NOW))

    def request(self, tools: Sequence[ToolSpec] | None = None) -> ModelRequest:
        specs = tuple(each.spec for each in self.tools.values()) if tools is None else tuple(tools)
        return ModelRequest(model=MODEL, system=SYSTEM, messages=tuple(self.messages), tools=specs)

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
        used = self.tools[call.name]
        try:
            output = await used.run(self._check.check(used.spec, call.args).args, SCOPE)
        except ToolError as error:
            failure = ToolFailure(type(error).__name__, str(error), error.suggestion)
            return ToolResult(call.id, call.name, str(error), status="error", error=failure)
        return ToolResult(call.id, call.name, output.content, facts=output.facts)


def _person(name: str) -> Person:
    return Person(id=name)


async def _settle(name: str, person: Person) -> str:
    return name


def _chart_tool(answers: ChartAnswers) -> Tool:
    @tool("market__chart", "Draws a chart.")
    async def chart(args: ChartArguments, scope: ToolScope) -> ToolOutput:
        wanted = ChartRequest(args.symbol, args.period, args.style)
        return await answers.answer_tool(wanted, args.language, Person(id="u"), Capabilities())

    return chart


def _did(call: ToolCall, result: ToolResult) -> str:  # noqa: PLR0911 - one line for each tool
    if result.error is not None:
        return _failed(result)
    args: dict[str, Any] = call.args
    subjects = ",".join(sorted({fact.subject for fact in result.facts if fact.field != "rate"}))
    name = call.name.partition("__")[2]
    match call.name:
        case "market__quote":
            return f"quote {subjects}" + (f" in {args['in_currency']}" if "in_currency" in args else "")
        case "market__history" | "market__compare" | "market__chart":
            return f"{name} {subjects} {args.get('on') or args['period']}"
        case "calc__evaluate":
            return f"calc {result.facts[0].value.normalize():f}"
        case "market__hours" | "market__calendar" | "market__news":
            more = args.get("on") or args.get("holiday") or args.get("limit")
            return " ".join(filter(None, (name, subjects, str(more or ""))))
        case "fx__convert":
            return f"convert {args['amount']} {args['from']} {args['to']}"
        case "portfolio__show":
            return f"portfolio {args['in_currency']}"
        case "time__now":
            return "clock"
        case _:
            return " ".join((name, *args.get("symbols", ())))


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
