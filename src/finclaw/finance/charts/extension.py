"""The charts extension: `/chart` and `market__chart`. What draws is imported with the first chart (`cold_cpu`)."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Final, Literal

from msgspec import Meta, Struct

from finclaw.finance.commands import FinanceCommand
from finclaw.finance.history import ChartPeriod
from finclaw.finance.market import Market
from finclaw.finance.market_data.port import MarketData
from finclaw.finance.quote import SymbolName
from finclaw.finance.resolve import Settle
from finclaw.kernel.envelope import Capabilities
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.person import Person
from finclaw.kernel.port import CommandArgument, CommandReply, CommandScope, Tool, ToolOutput, ToolScope
from finclaw.text import Language
from finclaw.tools.define import tool

if TYPE_CHECKING:
    from finclaw.finance.charts.answer import ChartAnswers

_DESCRIPTION: Final = (
    "Draws a price chart of one instrument: it goes out with your answer as a picture, or as a line of characters. "
    "Gives you the figures in it."
)


class ChartArguments(Struct, frozen=True, forbid_unknown_fields=True):
    symbol: SymbolName
    period: Annotated[ChartPeriod, Meta(description="It ends now.")] = "6M"
    style: Literal["line", "candle"] = "line"
    language: Annotated[Language, Meta(description="Of the words in the picture.")] = "en"


class Charts:
    name = "charts"

    def __init__(
        self,
        market: Callable[[], tuple[Market, MarketData]],
        person: Callable[[str], Person],
        channel: Callable[[str], Capabilities],
        settle: Settle,
        prefix: str = "/",
    ) -> None:
        """`market` is asked with the first chart; `person` and `channel` are looked up by id and by name."""
        self._market = market
        self._person = person
        self._channel = channel
        self._settle = settle
        self._prefix = prefix
        self._made: ChartAnswers | None = None

    def register(self, api: ExtensionApi) -> None:
        usage = f"{self._prefix}chart SYMBOL [PERIOD] [line|candle]"
        api.commands.register(
            FinanceCommand(
                name="chart",
                names={"ko": "차트"},
                description="Draws a price chart / 시세 차트",
                usage=usage,
                arguments=(
                    CommandArgument("SYMBOL", "symbol or name: AAPL, Apple / 종목 코드나 이름: 삼성전자, AAPL"),
                    CommandArgument("PERIOD", "1D 5D 1M 3M 6M 1Y 5Y YTD / 1일, 1개월, 1년, 올해 등", required=False),
                    CommandArgument("STYLE", "line or candle / 선 또는 캔들", required=False),
                ),
                answer=self._answer_command,
            )
        )
        api.tools.register(self._make_tool())

    def _make_tool(self) -> Tool:
        @tool("market__chart", _DESCRIPTION, group="finance", timeout=60.0)
        async def chart(args: ChartArguments, scope: ToolScope) -> ToolOutput:
            from finclaw.finance.charts.answer import ChartRequest  # noqa: PLC0415  `cold_cpu`: what draws

            wanted = ChartRequest(args.symbol, args.period, args.style)
            person = self._person(scope.person)
            return await self._answers().answer_tool(wanted, args.language, person, self._channel(scope.channel))

        return chart

    async def _answer_command(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        return await self._answers().answer_command(args, scope, self._channel(scope.inbound.channel))

    def _answers(self) -> "ChartAnswers":
        from finclaw.finance.charts.answer import ChartAnswers  # noqa: PLC0415  `cold_cpu`: what draws

        self._made = self._made or ChartAnswers(*self._market(), self._settle, self._prefix)
        return self._made
