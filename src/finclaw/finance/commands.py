"""The commands `/price`, `/fx`, `/market` and `/news`. Their answers are imported with the first one (`cold_cpu`)."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct

from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.port import CommandArgument, CommandReply, CommandScope
from finclaw.text import Language

if TYPE_CHECKING:
    from finclaw.finance.answers import CommandMarket, MarketAnswers

_INSTRUMENT: Final = "symbol or name: AAPL, Apple, BTC / 종목 코드나 이름: 삼성전자, AAPL, BTC"


class FinanceCommand(Struct, frozen=True, kw_only=True):
    name: str
    description: str
    usage: str
    answer: Callable[[Sequence[str], CommandScope], Awaitable[CommandReply]]
    aliases: tuple[str, ...] = ()
    names: Mapping[Language, str] = {}
    arguments: tuple[CommandArgument, ...] = ()
    category: Literal["general", "finance", "admin", "debug"] = "finance"
    roles: tuple[str, ...] = ()
    cooldown: float = 0.0
    when: Literal["now", "in_lane"] = "now"
    words: tuple[str, ...] = ()

    async def run(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        return await self.answer(args, scope)


class MarketCommands:
    name = "market_commands"

    def __init__(self, desk: Callable[[], "CommandMarket"], prefix: str = "/") -> None:
        """`desk` is asked with the first command: the market is opened by then."""
        self._desk = desk
        self._prefix = prefix
        self._made: MarketAnswers | None = None

    def register(self, api: ExtensionApi) -> None:
        for command in self._commands():
            api.commands.register(command)

    def _commands(self) -> Iterator[FinanceCommand]:
        prefix = self._prefix
        yield FinanceCommand(
            name="price",
            aliases=("quote",),
            names={"ko": "시세"},
            description="The current price of an instrument / 종목의 현재 시세",
            usage=f"{prefix}price AAPL ({prefix}시세 삼성전자)",
            arguments=(CommandArgument("SYMBOL", _INSTRUMENT),),
            answer=lambda args, scope: self._answers().answer_price(args, scope),
        )
        yield FinanceCommand(
            name="fx",
            names={"ko": "환율"},
            description="Exchange rates, or an amount in another currency / 환율과 환산",
            usage=f"{prefix}fx [100 USD KRW] ({prefix}환율 100달러)",
            arguments=(
                CommandArgument(
                    "AMOUNT", "an amount and one or two currencies / 금액과 통화 하나나 둘", required=False
                ),
            ),
            answer=lambda args, scope: self._answers().answer_fx(args, scope),
        )
        yield FinanceCommand(
            name="market",
            names={"ko": "시장"},
            description="Which markets are open, and the main indices / 개장 여부와 주요 지수",
            usage=f"{prefix}market [KRX] ({prefix}시장 미국)",
            arguments=(
                CommandArgument(
                    "MARKET", "KRX, NYSE, US, or an instrument / 한국, 미국, KRX, NYSE 또는 종목", required=False
                ),
            ),
            answer=lambda args, scope: self._answers().answer_market(args, scope),
        )
        yield FinanceCommand(
            name="news",
            names={"ko": "뉴스"},
            description="The newest headlines about an instrument / 종목의 최근 뉴스 제목",
            usage=f"{prefix}news [AAPL] ({prefix}뉴스 삼성전자)",
            arguments=(CommandArgument("SYMBOL", _INSTRUMENT, required=False),),
            answer=lambda args, scope: self._answers().answer_news(args, scope),
        )

    def _answers(self) -> "MarketAnswers":
        from finclaw.finance.answers import MarketAnswers  # noqa: PLC0415  `cold_cpu`: words of answers

        self._made = self._made or MarketAnswers(self._desk())
        return self._made
