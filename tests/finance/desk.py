"""Finance tools with a market and a person to call them for."""

from collections.abc import Mapping
from typing import Any

from finclaw.demo.market import DemoMarket
from finclaw.finance.calendar import TableCalendar
from finclaw.finance.extension import finance_tools
from finclaw.kernel.envelope import Sender
from finclaw.kernel.fact import Fact
from finclaw.kernel.port import Clock, Tool, ToolOutput, ToolScope
from finclaw.tools.arguments import ArgumentCheck


def scope(sender: str = "u", session: str = "s") -> ToolScope:
    return ToolScope(session=session, turn_id="t", call_id="c", sender=Sender(sender))


class Desk:
    def __init__(self, clock: Clock) -> None:
        self.tools: dict[str, Tool] = {
            tool.spec.name: tool for tool in finance_tools(DemoMarket(clock), TableCalendar())
        }

    async def use(self, name: str, args: Mapping[str, Any], who: ToolScope | None = None) -> ToolOutput:
        tool = self.tools[name]
        return await tool.run(ArgumentCheck().check(tool.spec, args).args, who or scope())

    async def facts(self, name: str, **args: Any) -> dict[str, Fact]:
        return {fact.field: fact for fact in (await self.use(name, args)).facts}
