"""What it costs to make a conversation of ten thousand messages short. `python -m benchmarks.compaction`

Nothing was counted before, the tokens are those of the real estimator, and only what the summariser itself would take
is left out. Each conversation is also measured at half its length: twice as long should take about twice the time.
"""

import asyncio
import gc
import statistics
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Final, get_args

from benchmarks.meter import cpu_seconds
from finclaw.agent.window.compaction.compact import Compactor
from finclaw.agent.window.compaction.options import Options, Strategy
from finclaw.agent.window.compaction.summary import Summaries, Summarise, transcript
from finclaw.agent.window.tokens import Estimator
from finclaw.errors import Overloaded
from finclaw.kernel.message import Block, Message, Role, Source, Text, ToolCall, ToolResult

MESSAGES: Final = 10_000
RUNS: Final = 7
GOAL: Final = 100.0
"""Milliseconds of CPU, beside the summariser."""
WINDOW: Final = 200_000
LARGE: Final = 4_000_000
"""All of it could be summarised at once: the first of three steps before the oldest just go."""
TARGET: Final = 50_000
AT: Final = datetime(2026, 1, 5, tzinfo=UTC)

ENGLISH: Final = (
    "Sell 12 shares of AAPL at $191.50 if it gets there before 2026-02-01, as we said. What would that cost? "
)
KOREAN: Final = (
    "삼성전자 10주를 72,500원에 매수하면 수수료는 얼마인가요? 지난번 주문 ORD-4711은 1월 3일에 체결되었습니다. "
)
RESULT: Final = '{"symbol": "005930", "price": "72500", "currency": "KRW", "volume": 13204511, "name": "삼성전자"}\n'


def said(place: int, role: Role, *blocks: Block) -> Message:
    if role == "assistant":
        return Message(f"m{place}", role, blocks, Source("assistant"), AT, {"model": "house/one", "stop": "end"})
    return Message(f"m{place}", role, blocks, Source("user" if role == "user" else "system"), AT)


def words(text: str, messages: int) -> Sequence[Message]:
    return [
        said(place, "user" if place % 2 == 0 else "assistant", Text(f"{place}: {text}")) for place in range(messages)
    ]


def worked(messages: int, result: str = RESULT * 3, args: dict[str, Any] | None = None) -> Sequence[Message]:
    """A question, a call, its result and an answer, again and again, now in one language and now in the other."""
    return [*chain.from_iterable(exchange(place, result, args) for place in range(0, messages, 4))]


def exchange(place: int, result: str, args: dict[str, Any] | None) -> Sequence[Message]:
    text = KOREAN if place % 8 else ENGLISH
    call = f"call_{place}"
    return (
        said(place, "user", Text(f"{place}: {text}")),
        said(place + 1, "assistant", ToolCall(call, "market__quote", args or {"symbols": ["005930"], "days": place})),
        said(place + 2, "tool", ToolResult(call, "market__quote", f"{place}\n{result}")),
        said(place + 3, "assistant", Text(f"{place}: {text}")),
    )


def nested(depth: int) -> dict[str, Any]:
    return {"any": [nested(depth - 1)], "of": depth} if depth else {}


EVERYDAY: Final[dict[str, Callable[[int], Sequence[Message]]]] = {
    "english": lambda size: words(ENGLISH * 2, size),
    "korean": lambda size: words(KOREAN * 2, size),
    "mixed, with tools": worked,
}
ODD: Final[dict[str, Callable[[int], Sequence[Message]]]] = {
    "tiny messages": lambda size: words("ok, thank you", size),
    "200 results of 100 KB": lambda size: worked(800 * size // MESSAGES, RESULT * 900),
    "one result larger than the window": lambda size: worked(4, RESULT * size * 2),
    "arguments nested 60 deep": lambda size: worked(size, args=nested(30)),
    "emoji alone": lambda size: words("📈🙂👍🏽" * 30, size),
    "hangul alone": lambda size: words("삼성전자주식을오늘매수하고싶습니다" * 12, size),
}


async def answers(messages: Sequence[Message], limit: int) -> str:
    return "They spoke of AAPL and 005930, and of the order ORD-4711."


async def fails(messages: Sequence[Message], limit: int) -> str:
    raise Overloaded("busy")


async def compacted(messages: Sequence[Message], strategy: Strategy, summarise: Summarise) -> float:
    """Milliseconds. What does not fit afterwards was not measured, but a failure."""
    estimator = Estimator()
    count, count_text = estimator.tokens_of, estimator.tokens_in
    window = LARGE if summarise is fails else WINDOW
    compact = Compactor(Summaries(summarise, count, count_text, window), count, count_text, lambda: AT)
    options = Options(target_tokens=TARGET, strategy=strategy)
    gc.collect()
    before = cpu_seconds()
    done = await compact(messages, options, lambda before, after: None)
    took = (cpu_seconds() - before) * 1e3
    assert done.fits
    return took


def median(messages: Sequence[Message], strategy: Strategy, summarise: Summarise = answers) -> float:
    return statistics.median(asyncio.run(compacted(messages, strategy, summarise)) for _ in range(RUNS))


def row(name: str, make: Callable[[int], Sequence[Message]]) -> str:
    whole, half = make(MESSAGES), make(MESSAGES // 2)
    figures = {strategy: median(whole, strategy) for strategy in get_args(Strategy)}
    figures["falling back"] = median(whole, "summarize", fails)
    growth = figures["hybrid"] / median(half, "hybrid")
    told = ", ".join(f"{strategy} {took:.0f}" for strategy, took in figures.items())
    return f"  {name}: {told}; hybrid takes {growth:.1f} times what half as much takes"


def transcribed(messages: Sequence[Message]) -> float:
    before = cpu_seconds()
    transcript(messages)
    return (cpu_seconds() - before) * 1e3


if __name__ == "__main__":
    print(f"{MESSAGES:,} messages down to {TARGET:,} tokens, in ms of CPU (goal: below {GOAL:g})")
    for name, make in (EVERYDAY | ODD).items():
        print(row(name, make), flush=True)
    print("the same as a text for the summariser")
    for name, make in (EVERYDAY | ODD).items():
        print(f"  {name}: {statistics.median(transcribed(make(MESSAGES)) for _ in range(RUNS)):.0f}", flush=True)
