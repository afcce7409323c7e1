"""Resolution of a person's word to the one instrument that is meant, or a refusal that names the candidates.

The class of the refusal tells what is wrong. Its `suggestion` is for code to read: on the first line what was asked, on
each further line a candidate. The message says the same for the model. A name that is not certain is never priced.
"""

from collections.abc import Iterable

from finclaw.errors import ToolError
from finclaw.finance.instrument import Ambiguous, Instrument, Unknown
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
    match market.instruments.find(query):
        case Instrument(status="delisted") as gone:
            raise _delisted_name(query, gone, market.instruments.get(gone.successor))
        case Instrument() as found:
            return found
        case Ambiguous(candidates):
            shown = candidates[:_MOST_CANDIDATES]
            more = f" or one of {len(candidates) - len(shown)} more" if len(candidates) > len(shown) else ""
            raise AmbiguousName(
                f'"{_quote_query(query)}" may mean {_list_candidates(shown)}{more}. Ask the user which one is meant.',
                suggestion=_lines(query, map(_candidate, shown)),
            )
        case Unknown(near):
            raise _unknown_name(query, market.instruments.split(query), near)


def _delisted_name(query: str, gone: Instrument, successor: Instrument | None) -> ToolError:
    later = f" {_list_candidates((successor,))} took its place." if successor else ""
    return DelistedName(
        f'"{gone.title}" [{gone.symbol}] is no longer traded.{later} Say so and give no price of it.',
        suggestion=_lines(query, map(_candidate, (successor,) if successor else ())),
    )


def _unknown_name(query: str, names: tuple[str, ...], near: tuple[Instrument, ...]) -> ToolError:
    if len(names) > 1:
        message = f'"{_quote_query(query)}" are several: {", ".join(names)}. Call once for each.'
        return SeveralNames(message, suggestion=_lines(query, names))
    advice = (
        f"Did you mean {_list_candidates(near)}? Ask the user." if near else "Ask the user for its symbol or full name."
    )
    message = f'No instrument is called "{_quote_query(query)}". {advice}'
    return UnknownName(message, suggestion=_lines(query, map(_candidate, near)))


def _quote_query(query: str) -> str:
    return query.strip().replace('"', "'")


def _list_candidates(candidates: Iterable[Instrument]) -> str:
    return " or ".join(f'"{each.title}" [{each.symbol}]' for each in candidates)


def _candidate(instrument: Instrument) -> str:
    return f"{instrument.symbol} | {instrument.name_en} | {instrument.name_ko}"


def _lines(query: str, candidates: Iterable[str]) -> str:
    return "\n".join((" ".join(query.split()), *candidates))
