"""The instrument that was asked about last, by session: what "and in won?" is about."""

from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from finclaw.kernel.context import Context
from finclaw.kernel.fact import Fact

_SESSIONS: Final = 10_000
"""Sessions whose last quote is remembered; the ones that were asked longest ago go first."""
_LOOK_BACK: Final = 20
"""Messages of a conversation in which the last quote is looked for after a restart."""


class LastQuoteRequest(Struct, frozen=True, kw_only=True):
    """The instrument whose price was told last, for `and in won?`. The price itself is for a tool to give again."""

    symbol: str
    as_of: datetime


class LastQuotes:
    """The instrument of each session whose price was told last, in memory."""

    def __init__(self) -> None:
        self._found: OrderedDict[str, LastQuoteRequest | None] = OrderedDict()

    def remember(self, session: str, facts: Sequence[Fact]) -> None:
        told = next((fact for fact in reversed(facts) if fact.field == "price"), None)
        if told is not None:
            self._keep(session, LastQuoteRequest(symbol=told.subject, as_of=told.as_of))

    def find(self, context: Context) -> LastQuoteRequest | None:
        """After a restart the end of the conversation is looked through, once."""
        session = context.session_key
        if session not in self._found:
            recent = reversed(context.transcript[-_LOOK_BACK:])
            facts = (fact for message in recent for result in message.tool_results for fact in reversed(result.facts))
            price = next((fact for fact in facts if fact.field == "price"), None)
            self._keep(session, None if price is None else LastQuoteRequest(symbol=price.subject, as_of=price.as_of))
        return self._found[session]

    def _keep(self, session: str, request: LastQuoteRequest | None) -> None:
        self._found[session] = request
        self._found.move_to_end(session)
        while len(self._found) > _SESSIONS:
            self._found.popitem(last=False)
