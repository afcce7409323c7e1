"""The watchlist extension: `/watch`, three tools for the list, and the screener over it.

What answers the command is loaded with the first one (`cold_cpu`).
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from finclaw.finance.commands.extension import FinanceCommand
from finclaw.finance.market import Market
from finclaw.finance.market_data.port import MarketData
from finclaw.finance.name_question import Settle
from finclaw.finance.watchlist.screen import screen_tool
from finclaw.finance.watchlist.store import MIGRATIONS, Watchlists
from finclaw.finance.watchlist.tools import WatchDesk, watch_tools
from finclaw.kernel.erasure import Erasure
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.person import Person
from finclaw.kernel.port import CommandArgument, CommandReply, CommandScope

if TYPE_CHECKING:
    from finclaw.finance.watchlist.answers import WatchAnswers


class Watching:
    name = "watching"

    def __init__(
        self,
        market: Callable[[], Market],
        data: Callable[[], MarketData],
        person: Callable[[str], Person],
        settle: Settle,
        prefix: str = "/",
        exists: Callable[[], bool] = lambda: True,
    ) -> None:
        """`market` is there when this is registered, `data` is opened with the first use; `person` is found by id.

        `exists` says whether anybody has ever watched anything.
        """
        self._market = market
        self._data = data
        self._person = person
        self._settle = settle
        self._prefix = prefix
        self._exists = exists
        self._made: WatchAnswers | None = None

    def register(self, api: ExtensionApi) -> None:
        self._lists = Watchlists(api.database(MIGRATIONS), api.clock, self._exists)
        self._desk = WatchDesk(market=self._market(), data=self._data, lists=self._lists, person=self._person)
        for each in (*watch_tools(self._desk), screen_tool(self._desk)):
            api.tools.register(each)
        prefix = self._prefix
        api.commands.register(
            FinanceCommand(
                name="watch",
                names={"ko": "관심"},
                aliases=("관심종목",),
                description="Your watchlist: shown, added to, removed from / 관심 종목 보기, 추가, 삭제",
                usage=f"{prefix}watch [add|remove AAPL] ({prefix}관심 추가 삼성전자)",
                arguments=(
                    CommandArgument("VERB", "add, remove or list / 추가, 삭제, 목록", required=False),
                    CommandArgument(
                        "SYMBOL",
                        "symbols or names: AAPL, Apple, BTC / 종목 코드나 이름: 삼성전자, AAPL, BTC",
                        required=False,
                    ),
                ),
                answer=self._answer,
            )
        )
        api.on_forget(self.forget_person)

    def peek_symbols(self, person: Person) -> tuple[str, ...] | None:
        """The person's list without waiting, for the context of a turn; None where it has to be read."""
        return self._lists.peek_symbols(person)

    async def symbols(self, person: Person) -> tuple[str, ...]:
        return await self._lists.symbols(person)

    async def forget_person(self, erasure: Erasure) -> None:
        if erasure.person is not None:
            for name in erasure.names:
                await self._lists.forget(name)

    async def _answer(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        from finclaw.finance.watchlist.answers import WatchAnswers  # noqa: PLC0415  `cold_cpu`: words of answers

        self._made = self._made or WatchAnswers(self._desk, self._settle, self._prefix)
        return await self._made.answer(args, scope)
