"""The chat without a terminal: a line in, its answer out, until the input ends."""

import sys
from collections.abc import Iterable

from finclaw.cli.chat.commands import KnownCommands, is_leaving
from finclaw.cli.chat.event_queue import EventQueue, Item, Told
from finclaw.cli.chat.questions import Ending, PendingQuestions, Question
from finclaw.cli.chat.texts import texts_for
from finclaw.cli.terminal_text import clean
from finclaw.errors import ChannelError, ConfigError
from finclaw.kernel.clock import SystemClock

PATIENCE = 60.0
"""Seconds for which a script waits for a gateway that went away."""

_GOOD = ("answered", "command", "skipped", "joined")


def run_script(lines: Iterable[bytes], questions: PendingQuestions, events: EventQueue, commands: KnownCommands) -> int:
    """The exit code: 1 if any line was not answered."""
    code = 0
    for line in lines:
        text = _text(line)
        if is_leaving(text):
            break
        if refusal := commands.refuse_unknown(text, texts_for(text)):
            print(f"finclaw: {refusal}", file=sys.stderr)
            code = 1
        elif text.strip() and not _answer(text, questions, events):
            code = 1
    while (item := events.get(0)) is not None:
        _take(item, questions)
    return code


def _answer(text: str, questions: PendingQuestions, events: EventQueue) -> bool:
    ending = _wait(questions.ask(text), questions, events)
    if ending.reply is not None:
        print(clean(ending.reply), flush=True)
    if ending.outcome not in ("answered", "command"):
        reason = f": {clean(ending.reason)}" if ending.reason else ""
        print(f"finclaw: the message ended as {ending.outcome}{reason}", file=sys.stderr)
    return ending.outcome in _GOOD


def _wait(question: Question, questions: PendingQuestions, events: EventQueue) -> Ending:
    now = SystemClock().monotonic
    connected_at = now()
    while question.ending is None:
        item = events.get(0.5)
        if item is None:
            questions.tick()
        else:
            _take(item, questions)
        if questions.connected:
            connected_at = now()
        elif now() - connected_at > PATIENCE:
            raise ChannelError(
                "the gateway went away; if it had taken the message, it answers when it runs again: finclaw serve"
            )
    return question.ending


def _take(item: Item, questions: PendingQuestions) -> None:
    """Standard output is for answers; what nobody asked for goes beside it."""
    told = questions.take(item)
    if isinstance(told, Told):
        print(clean(told.text), file=sys.stderr, flush=True)


def _text(line: bytes) -> str:
    try:
        return line.decode("utf-8").rstrip()
    except UnicodeDecodeError as error:
        raise ConfigError("standard input is not UTF-8 text; convert it first, for example with iconv") from error
