"""The display of one question: its answer so far, what is being done, how it ended, and its sources."""

from datetime import UTC
from typing import Final

from finclaw.cli.chat.questions import Ending, PendingQuestions, Question
from finclaw.cli.chat.screen import Screen
from finclaw.cli.chat.texts import Texts
from finclaw.web.view import OutcomeView

_SECONDS_SHOWN_AFTER: Final = 3


def status_line(question: Question, questions: PendingQuestions, texts: Texts, waited: float) -> str:
    """What is being done, in a line that stands below the answer until something else is drawn."""
    if question.stopping:
        status = texts.stopping
    elif not questions.connected:
        status = questions.lost_because or texts.away
    elif question.trouble:
        status = texts.not_taken_yet.format(reason=question.trouble)
    elif question.tool:
        status = texts.looking_up.format(tool=question.tool)
    else:
        status = texts.waiting
    return status + (f" ({int(waited)} s)" if waited > _SECONDS_SHOWN_AFTER else "")


def show_ending(screen: Screen, texts: Texts, ending: Ending, *, wanted: bool = True) -> None:
    """Draw how a question ended, below what of its answer was seen.

    Not `wanted`: the person has stopped it, so the end is no surprise. What was read of an answer that was stopped or
    broke off stays on the screen.
    """
    if ending.outcome == "stopped":
        screen.end_answer()
    elif ending.outcome in _BROKEN and screen.would_lose(ending.reply or ""):
        screen.end_answer()
        screen.line(texts.unfinished)
    if ending.reply is not None:
        screen.answer(ending.reply, texts.rewritten)
    screen.end_answer()
    if ending.outcome == "not taken":
        screen.line(texts.refused.format(reason=ending.reason))
    elif ending.outcome not in ("answered", "command") and (wanted or ending.outcome != "stopped"):
        reason = f": {ending.reason}" if ending.reason else ""
        screen.line(texts.ended_as.format(outcome=ending.outcome, reason=reason))
    if not wanted and ending.outcome != "stopped":
        screen.line(texts.too_late)


_BROKEN: Final = ("failed", "expired", "dropped")


_SAID = ("source:", "출처")


def sources(view: OutcomeView, texts: Texts) -> tuple[str, ...]:
    """One line for each source, with the age of its oldest figure."""
    reply = (view.reply or "").casefold()
    if any(word in reply for word in _SAID):
        return ()
    oldest = {fact.source: fact.as_of for fact in sorted(view.facts, key=lambda fact: fact.as_of, reverse=True)}
    return tuple(
        texts.source.format(source=source, as_of=as_of.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC"))
        for source, as_of in sorted(oldest.items())
    )
