"""What a terminal shows of one question: its answer so far, what is being done, and how it ended."""

from typing import Final

from finclaw.cli.chat.desk import Desk, Ending, Question
from finclaw.cli.chat.screen import Screen
from finclaw.cli.chat.words import Words

_SECONDS_SHOWN_AFTER: Final = 3


def status_line(question: Question, desk: Desk, words: Words, waited: float) -> str:
    """What is being done, in a line that stands below the answer until something else is drawn."""
    if question.stopping:
        status = words.stopping
    elif not desk.connected:
        status = desk.lost_because or words.away
    elif question.trouble:
        status = words.not_taken_yet.format(reason=question.trouble)
    elif question.tool:
        status = words.looking_up.format(tool=question.tool)
    else:
        status = words.waiting
    return status + (f" ({int(waited)} s)" if waited > _SECONDS_SHOWN_AFTER else "")


def show_ending(screen: Screen, words: Words, ending: Ending, *, wanted: bool = True) -> None:
    """Draw how a question ended, below what of its answer was seen.

    Not `wanted`: the person has stopped it, so the end is no surprise. What was read of an answer that was stopped or
    broke off stays on the screen.
    """
    if ending.outcome == "stopped":
        screen.end_answer()
    elif ending.outcome in _BROKEN and screen.would_lose(ending.reply or ""):
        screen.end_answer()
        screen.line(words.unfinished)
    if ending.reply is not None:
        screen.answer(ending.reply, words.rewritten)
    screen.end_answer()
    if ending.outcome == "not taken":
        screen.line(words.refused.format(reason=ending.reason))
    elif ending.outcome not in ("answered", "command") and (wanted or ending.outcome != "stopped"):
        reason = f": {ending.reason}" if ending.reason else ""
        screen.line(words.ended_as.format(outcome=ending.outcome, reason=reason))
    if not wanted and ending.outcome != "stopped":
        screen.line(words.too_late)


_BROKEN: Final = ("failed", "expired", "dropped")
