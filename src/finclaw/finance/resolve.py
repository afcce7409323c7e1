"""Resolution of a person's word to the one instrument that is meant, or a refusal that names the candidates.

The class of the refusal tells what is wrong. Its `suggestion` is for code to read: on the first line what was asked, on
each further line a candidate. The message says the same for the model. A name that is not certain is never priced.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from msgspec.structs import replace

from finclaw.errors import ToolError
from finclaw.finance.instrument import Ambiguous, Instrument, InstrumentIndex, Unknown, unique_symbol
from finclaw.finance.market import Market
from finclaw.kernel.envelope import ActionButton
from finclaw.kernel.person import Person
from finclaw.kernel.port import CommandReply
from finclaw.text import Language

_MOST_CANDIDATES = 8
"""A list that a person can choose from. Half of a conglomerate's companies are enough to see what is asked."""


class AmbiguousName(ToolError):
    """Several instruments go by that name. A candidate is `symbol | name | Korean name`."""


class UnknownName(ToolError):
    """Nothing goes by that name. Candidates, if any, look alike; they are written as above."""


class DelistedName(ToolError):
    """What goes by that name is no longer traded. The candidate, if any, took its place."""


class SeveralNames(ToolError):
    """One name was wanted and several were given. The candidates are the single names."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple((self.suggestion or "").splitlines()[1:])


def resolve(market: Market, query: str) -> Instrument:
    """The one instrument that is meant. Raises AmbiguousName, UnknownName, DelistedName or SeveralNames."""
    index = market.instruments
    match index.find(query):
        case Instrument(status="delisted") as gone:
            raise _delisted_name(index, query, gone)
        case Instrument() as found:
            return found
        case Ambiguous(candidates):
            shown = candidates[:_MOST_CANDIDATES]
            listed = _list_candidates(index, shown)
            if left := len(candidates) - len(shown):
                listed = f"{listed} or one of {left} more"
            raise AmbiguousName(
                f'"{_quote_query(query)}" may mean {listed}. Ask the user which one is meant.',
                suggestion=_lines(query, (_candidate(index, each) for each in shown)),
            )
        case Unknown(near):
            raise _unknown_name(index, query, near)


def _delisted_name(index: InstrumentIndex, query: str, gone: Instrument) -> ToolError:
    later: list[Instrument] = []
    advice = ""
    if successor := index.get(gone.successor):
        later = [successor]
        advice = f" {_list_candidates(index, later)} took its place."
    return DelistedName(
        f'"{gone.title}" [{gone.symbol}] is no longer traded.{advice} Say so and give no price of it.',
        suggestion=_lines(query, (_candidate(index, each) for each in later)),
    )


def _unknown_name(index: InstrumentIndex, query: str, near: tuple[Instrument, ...]) -> ToolError:
    names = index.split(query)
    if len(names) > 1:
        message = f'"{_quote_query(query)}" are several: {", ".join(names)}. Call once for each.'
        return SeveralNames(message, suggestion=_lines(query, names))
    advice = "Ask the user for its symbol or full name."
    if near:
        advice = f"Did you mean {_list_candidates(index, near)}? Ask the user."
    message = f'No instrument is called "{_quote_query(query)}". {advice}'
    return UnknownName(message, suggestion=_lines(query, (_candidate(index, each) for each in near)))


def _quote_query(query: str) -> str:
    return query.strip().replace('"', "'")


def _list_candidates(index: InstrumentIndex, candidates: Iterable[Instrument]) -> str:
    return " or ".join(f'"{each.title}" [{unique_symbol(index, each)}]' for each in candidates)


def _candidate(index: InstrumentIndex, instrument: Instrument) -> str:
    return f"{unique_symbol(index, instrument)} | {instrument.name_en} | {instrument.name_ko}"


def _lines(query: str, candidates: Iterable[str]) -> str:
    return "\n".join((" ".join(query.split()), *candidates))


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
        return list(dict.fromkeys([resolve(market, await settle(each, speaker)) for each in several.names]))


def ask_which(error: ToolError, name: str, language: Language, command_for: Callable[[str], str]) -> CommandReply:
    """The refusal of a name with what may be meant; `command_for` gives the line that asks for a candidate instead."""
    if not isinstance(error, AmbiguousName | UnknownName | DelistedName):
        return CommandReply(str(error))
    buttons: list[ActionButton] = []
    for line in (error.suggestion or "").splitlines()[1:]:
        symbol, name_en, name_ko = line.split(" | ")
        shown = {"en": name_en, "ko": name_ko}[language]
        buttons.append(ActionButton(label=f"{shown} ({symbol})"[:_LONGEST_LABEL], command=command_for(symbol)))
    if len(name) > _LONGEST_NAME:
        name = f"{name[: _LONGEST_NAME - 1]}…"
    if isinstance(error, AmbiguousName):
        text = _AMBIGUOUS[language]
    elif isinstance(error, UnknownName):
        text = f"{_UNKNOWN[language]} {_SIMILAR[language] if buttons else _SPELL_OUT[language]}"
    elif buttons:
        text = f"{_DELISTED[language]} {_REPLACED[language]}"
    else:
        text = _DELISTED[language]
    return CommandReply(text.format(name), actions=tuple(buttons))
