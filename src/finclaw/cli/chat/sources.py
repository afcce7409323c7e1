"""Where an answer's figures come from, for answers that do not say so themselves."""

from datetime import UTC

from finclaw.cli.chat.words import Words
from finclaw.web.view import OutcomeView

_SAID = ("source:", "출처")


def sources(view: OutcomeView, words: Words) -> tuple[str, ...]:
    """One line for each source, with the age of its oldest figure."""
    reply = (view.reply or "").casefold()
    if any(word in reply for word in _SAID):
        return ()
    oldest = {fact.source: fact.as_of for fact in sorted(view.facts, key=lambda fact: fact.as_of, reverse=True)}
    return tuple(
        words.source.format(source=source, as_of=as_of.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC"))
        for source, as_of in sorted(oldest.items())
    )
