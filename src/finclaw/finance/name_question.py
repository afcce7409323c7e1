"""Names in a command's line: the instruments that are meant, or a question with the candidates as buttons."""

from collections.abc import Awaitable, Callable
from typing import Final

from msgspec.structs import replace

from finclaw.errors import ToolError
from finclaw.finance.instrument import Instrument
from finclaw.finance.market import Market
from finclaw.finance.resolve import AmbiguousName, DelistedName, SeveralNames, UnknownName, resolve
from finclaw.kernel.envelope import ActionButton
from finclaw.kernel.person import Person
from finclaw.kernel.port import CommandReply
from finclaw.text import Language

Settle = Callable[[str, Person], Awaitable[str]]
"""Puts the instrument in place of a name that this person has settled before; other names stay."""

_LONGEST_LABEL: Final = 60
_LONGEST_NAME: Final = 40
_AMBIGUOUS: Final[dict[Language, str]] = {
    "en": "Several go by “{0}”. Which one do you mean?",
    "ko": "“{0}”에 해당하는 종목이 여럿입니다. 어느 종목을 말씀하시나요?",
}
_UNKNOWN: Final[dict[Language, str]] = {
    "en": "I know nothing called “{0}”.",
    "ko": "“{0}”에 해당하는 종목을 찾지 못했습니다.",
}
_SIMILAR: Final[dict[Language, str]] = {"en": "Did you mean one of these?", "ko": "혹시 다음 중 하나인가요?"}
_SPELL_OUT: Final[dict[Language, str]] = {
    "en": "Please give its symbol or full name, such as AAPL or Samsung Electronics.",
    "ko": "종목 코드나 정확한 이름을 알려 주세요. 예: AAPL, 삼성전자",
}
_DELISTED: Final[dict[Language, str]] = {
    "en": "“{0}” is no longer traded, so there is no price of it.",
    "ko": "“{0}” 종목은 더 이상 거래되지 않아 시세가 없습니다.",
}
_REPLACED: Final[dict[Language, str]] = {"en": "This took its place:", "ko": "대신 거래되는 종목입니다."}


async def find_instruments(
    market: Market, settle: Settle, words: str, person: Person, language: Language
) -> list[Instrument]:
    """Those that a line names, one or several, each once. Raises ToolError for a name that is not certain."""
    speaker = replace(person, language=person.language or language)
    try:
        return [resolve(market, await settle(words, speaker))]
    except SeveralNames as several:
        names = (several.suggestion or "").splitlines()[1:]
        return list(dict.fromkeys([resolve(market, await settle(each, speaker)) for each in names]))


def ask_which(error: ToolError, name: str, language: Language, command_for: Callable[[str], str]) -> CommandReply:
    """The refusal of a name with what may be meant; `command_for` gives the line that asks for a candidate instead."""
    if not isinstance(error, AmbiguousName | UnknownName | DelistedName):
        return CommandReply(str(error))
    buttons = tuple(
        ActionButton(
            label=f"{name_ko if language == 'ko' else name_en} ({symbol})"[:_LONGEST_LABEL],
            command=command_for(symbol),
        )
        for symbol, name_en, name_ko in (line.split(" | ") for line in (error.suggestion or "").splitlines()[1:])
    )
    shown = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
    if isinstance(error, AmbiguousName):
        return CommandReply(_AMBIGUOUS[language].format(shown), actions=buttons)
    if isinstance(error, DelistedName):
        more = _REPLACED[language] if buttons else ""
        return CommandReply(" ".join(filter(None, (_DELISTED[language].format(shown), more))), actions=buttons)
    more = _SIMILAR[language] if buttons else _SPELL_OUT[language]
    return CommandReply(f"{_UNKNOWN[language].format(shown)} {more}", actions=buttons)
