"""Resolution of a person's word to the one instrument that is meant, or a refusal that names the candidates.

The class of the refusal tells what is wrong. Its `suggestion` is for code to read: on the first line what was asked, on
each further line a candidate. The message says the same for the model. A name that is not certain is never priced.
"""

from collections.abc import Iterable

from finclaw.errors import ToolError
from finclaw.finance.instrument import Ambiguous, Instrument, InstrumentIndex, Unknown, unique_symbol
from finclaw.finance.market import Market

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
            more = f" or one of {len(candidates) - len(shown)} more" if len(candidates) > len(shown) else ""
            listed = f"{_list_candidates(index, shown)}{more}"
            raise AmbiguousName(
                f'"{_quote_query(query)}" may mean {listed}. Ask the user which one is meant.',
                suggestion=_lines(query, (_candidate(index, each) for each in shown)),
            )
        case Unknown(near):
            raise _unknown_name(index, query, near)


def _delisted_name(index: InstrumentIndex, query: str, gone: Instrument) -> ToolError:
    later = [each for each in (index.get(gone.successor),) if each is not None]
    advice = f" {_list_candidates(index, later)} took its place." if later else ""
    return DelistedName(
        f'"{gone.title}" [{gone.symbol}] is no longer traded.{advice} Say so and give no price of it.',
        suggestion=_lines(query, (_candidate(index, each) for each in later)),
    )


def _unknown_name(index: InstrumentIndex, query: str, near: tuple[Instrument, ...]) -> ToolError:
    names = index.split(query)
    if len(names) > 1:
        message = f'"{_quote_query(query)}" are several: {", ".join(names)}. Call once for each.'
        return SeveralNames(message, suggestion=_lines(query, names))
    likely = _list_candidates(index, near)
    advice = f"Did you mean {likely}? Ask the user." if near else "Ask the user for its symbol or full name."
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
