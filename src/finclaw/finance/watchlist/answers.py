"""Answers of `/watch`: the list with its quotes, what was added and what was taken off."""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from finclaw.errors import ToolError
from finclaw.finance.instrument import Instrument
from finclaw.finance.name_question import Settle, ask_which, find_instruments
from finclaw.finance.quote import load_quotes
from finclaw.finance.watchlist.store import MOST_WATCHED, TooManyWatched
from finclaw.finance.watchlist.tools import WatchDesk
from finclaw.finance.words import describe_missing, list_quotes, title_of
from finclaw.kernel.person import zone_of
from finclaw.kernel.port import CommandReply, CommandScope
from finclaw.text import Language

WatchVerb = Literal["list", "add", "remove"]

_VERBS: Final[dict[str, WatchVerb]] = {
    **dict.fromkeys(("list", "show", "목록", "보기"), "list"),
    **dict.fromkeys(("add", "추가", "등록"), "add"),
    **dict.fromkeys(("remove", "delete", "rm", "삭제", "제거", "해제"), "remove"),
}
_ALL: Final = frozenset(("all", "전체", "모두", "전부"))
_EMPTY: Final[dict[Language, str]] = {
    "en": "Your watchlist is empty. Add something: {0}watch add AAPL",
    "ko": "관심 종목이 없습니다. 이렇게 추가하세요: {0}관심 추가 삼성전자",
}
_WHICH: Final[dict[Language, str]] = {
    "en": "Which one? For example: {0}watch {1} AAPL",
    "ko": "어느 종목인가요? 예: {0}관심 {1} 삼성전자",
}
_FULL: Final[dict[Language, str]] = {
    "en": "A watchlist holds {0} instruments, so nothing was added. Remove one first: {1}watch remove AAPL",
    "ko": "관심 종목은 {0}개까지 담을 수 있어 추가하지 않았습니다. 먼저 하나를 빼 주세요: {1}관심 삭제 삼성전자",
}
_COUNT: Final[dict[Language, str]] = {
    "en": "You watch {0} now; {1}watch shows their prices.",
    "ko": "지금 관심 종목은 {0}개입니다. 시세 보기: {1}관심",
}
_EMPTIED: Final[dict[Language, str]] = {"en": "It is empty now.", "ko": "이제 목록이 비었습니다."}
_VERB_KO: Final[dict[WatchVerb, str]] = {"list": "목록", "add": "추가", "remove": "삭제"}


class WatchRequest(NamedTuple):
    """A line behind `/watch`, read. A bare name adds it."""

    verb: WatchVerb
    words: str = ""


def read_watch(args: Sequence[str]) -> WatchRequest:
    """The verb stands before the names, as in English, or behind them, as in Korean."""
    words = list(args)
    for place in (0, -1):
        verb = _VERBS.get(words[place].casefold()) if words else None
        if verb is not None:
            words.pop(place)
            return WatchRequest(verb, " ".join(words))
    return WatchRequest("add", " ".join(words)) if words else WatchRequest("list")


class WatchAnswers:
    """Answers to `/watch`. In a group only the caller sees them, where the platform can do that."""

    def __init__(self, desk: WatchDesk, settle: Settle, prefix: str) -> None:
        self._desk = desk
        self._settle = settle
        self._prefix = prefix

    async def answer(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        language, wanted = scope.language, read_watch(args)
        if wanted.verb == "list":
            return await self._list(scope, language)
        if not wanted.words:
            verb = _VERB_KO[wanted.verb] if language == "ko" else wanted.verb
            return CommandReply(_WHICH[language].format(self._prefix, verb), ephemeral=_is_shared(scope))
        if wanted.verb == "remove" and wanted.words.casefold() in _ALL:
            return await self._remove(None, scope, language)
        try:
            instruments = await find_instruments(self._desk.market, self._settle, wanted.words, scope.person, language)
        except ToolError as error:
            line = f"{self._prefix}watch {wanted.verb}"
            return ask_which(error, wanted.words, language, lambda symbol: f"{line} {symbol}")
        change = self._add if wanted.verb == "add" else self._remove
        return await change(instruments, scope, language)

    async def _list(self, scope: CommandScope, language: Language) -> CommandReply:
        symbols = await self._desk.lists.symbols(scope.person)
        if not symbols:
            return CommandReply(_EMPTY[language].format(self._prefix), ephemeral=_is_shared(scope))
        watched = await load_quotes(self._desk.market, self._desk.data(), symbols)
        heading = f"**관심 종목 {watched.count}개**" if language == "ko" else f"**Your watchlist: {watched.count}**"
        quotes = list_quotes(watched.quotes, zone_of(scope.person), language)
        missing = "\n".join(describe_missing(watched, language))
        text = "\n\n".join(filter(None, (heading, quotes, missing)))
        return CommandReply(text, kind="reply", facts=watched.facts(), ephemeral=_is_shared(scope))

    async def _add(
        self, instruments: Sequence[Instrument] | None, scope: CommandScope, language: Language
    ) -> CommandReply:
        instruments = instruments or ()
        try:
            new = await self._desk.lists.add(scope.person, [each.symbol for each in instruments])
        except TooManyWatched:
            full = _FULL[language].format(MOST_WATCHED, self._prefix)
            return CommandReply(full, ephemeral=_is_shared(scope))
        added = [title_of(each, language) for each in instruments if each.symbol in new]
        known = [title_of(each, language) for each in instruments if each.symbol not in new]
        if language == "ko":
            lines = [f"관심 종목에 추가: {', '.join(added)}" if added else "", _name_titles("이미 있음", known)]
        else:
            lines = [
                f"Added to your watchlist: {', '.join(added)}" if added else "",
                _name_titles("Already there", known),
            ]
        return await self._confirm(lines, scope, language)

    async def _remove(
        self, instruments: Sequence[Instrument] | None, scope: CommandScope, language: Language
    ) -> CommandReply:
        wanted = None if instruments is None else [each.symbol for each in instruments]
        gone = await self._desk.lists.remove(scope.person, wanted)
        removed = [self._title(symbol, language) for symbol in gone]
        absent = [title_of(each, language) for each in instruments or () if each.symbol not in gone]
        if language == "ko":
            lines = [_name_titles("관심 종목에서 삭제", removed), _name_titles("목록에 없음", absent)]
        else:
            lines = [_name_titles("Removed from your watchlist", removed), _name_titles("Was not there", absent)]
        return await self._confirm(lines, scope, language)

    async def _confirm(self, lines: Sequence[str], scope: CommandScope, language: Language) -> CommandReply:
        count = len(await self._desk.lists.symbols(scope.person))
        last = _COUNT[language].format(count, self._prefix) if count else _EMPTIED[language]
        return CommandReply("\n".join([*filter(None, lines), last]), ephemeral=_is_shared(scope))

    def _title(self, symbol: str, language: Language) -> str:
        found = self._desk.market.instruments.get(symbol)
        return symbol if found is None else title_of(found, language)


def _name_titles(what: str, titles: Sequence[str]) -> str:
    return f"{what}: {', '.join(titles)}" if titles else ""


def _is_shared(scope: CommandScope) -> bool:
    return scope.inbound.chat_type != "direct"
