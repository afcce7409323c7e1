"""Nouns of the visibility check: the draft of what a person is about to see, and what a check finds in it."""

from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from finclaw.kernel.fact import Fact
from finclaw.kernel.message import Message
from finclaw.text import Language

DraftKind = Literal["block", "final", "command", "notice", "preview"]
"""`block`: a part of an answer that is still being written, delivered by itself. `final`: the answer, or the rest of
it: whatever is added to an answer once is added here. `command`: the reply to a command. `notice`: the gateway's or an
extension's own words. `preview`: the beginning of an answer, shown while it is being written and replaced by it."""


class Draft(Struct, frozen=True):
    """A text that a person is about to see, and what it can be checked against."""

    text: str
    kind: DraftKind = "final"
    language: Language = "en"
    question: str = ""
    """What the person wrote."""
    facts: Sequence[Fact] = ()
    """Figures that the tools of this turn gave."""
    context: Sequence[Message] = ()
    """The conversation so far, as the model knows it."""


class DraftFinding(Struct, frozen=True):
    """A place in a draft that must not be seen, and why.

    `replacement` takes its place, and nothing else changes. None: the sentences that it is part of are left out.
    """

    start: int
    end: int
    reason: str
    replacement: str | None = None


VisibilityCheck = Callable[[Draft], Sequence[DraftFinding]]
