"""Tools that a walk can watch: what they were given, and how often they ran."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from decimal import Decimal

from msgspec import Struct

from finclaw.kernel.fact import Fact
from finclaw.kernel.port import Tool, ToolOutput, ToolScope
from finclaw.tools.define import tool


class Note(Struct):
    text: str = ""


PRICE = Fact(
    subject="AAPL",
    field="price",
    value=Decimal("190.5"),
    currency="USD",
    as_of=datetime(2026, 11, 16, tzinfo=UTC),
    source="feed",
)
Body = Callable[[str, ToolScope], Awaitable[str]]


class Desk:
    """Makes tools and notes every run, in the order in which they began."""

    def __init__(self) -> None:
        self.runs: list[tuple[str, str]] = []
        self.scopes: list[ToolScope] = []
        self.cancelled: list[str] = []

    def tool(
        self,
        name: str,
        body: Body | None = None,
        *,
        transactional: bool = False,
        parallel_safe: bool = True,
        timeout: float = 30.0,
        group: str = "finance",
    ) -> Tool:
        @tool(
            name,
            f"Does {name}.",
            group=group,
            transactional=transactional,
            parallel_safe=parallel_safe,
            timeout=timeout,
        )
        async def run(args: Note, scope: ToolScope) -> ToolOutput:
            self.runs.append((name, args.text))
            self.scopes.append(scope)
            try:
                return ToolOutput(await body(args.text, scope) if body else f"{name}: {args.text}")
            except asyncio.CancelledError:
                self.cancelled.append(name)
                raise

        return run


async def hang(text: str, scope: ToolScope) -> str:
    await asyncio.Event().wait()
    return ""


def price_tool(*facts: Fact) -> Tool:
    @tool("price", "Tells a price.", group="finance")
    async def price(scope: ToolScope) -> ToolOutput:
        return ToolOutput("AAPL: 190.5 USD", facts)

    return price
