"""The chat without a terminal: a line in, its answer out, until the input ends."""

import sys
from collections.abc import Iterable

from finclaw.cli.chat.clean import clean
from finclaw.cli.chat.commands import KnownCommands, is_leaving
from finclaw.cli.chat.desk import Desk, Ending, Question
from finclaw.cli.chat.feed import Feed, Item, Told
from finclaw.cli.chat.words import words_for
from finclaw.errors import ChannelError, ConfigError
from finclaw.kernel.clock import SystemClock

PATIENCE = 60.0
"""Seconds for which a script waits for a gateway that went away."""

_GOOD = ("answered", "command", "skipped", "joined")


def run_script(lines: Iterable[bytes], desk: Desk, feed: Feed, commands: KnownCommands) -> int:
    """The exit code: 1 if any line was not answered."""
    code = 0
    for line in lines:
        text = _text(line)
        if is_leaving(text):
            break
        if refusal := commands.refuse_unknown(text, words_for(text)):
            print(f"finclaw: {refusal}", file=sys.stderr)
            code = 1
        elif text.strip() and not _answer(text, desk, feed):
            code = 1
    while (item := feed.get(0)) is not None:
        _take(item, desk)
    return code


def _answer(text: str, desk: Desk, feed: Feed) -> bool:
    ending = _wait(desk.ask(text), desk, feed)
    if ending.reply is not None:
        print(clean(ending.reply), flush=True)
    if ending.outcome not in ("answered", "command"):
        reason = f": {clean(ending.reason)}" if ending.reason else ""
        print(f"finclaw: the message ended as {ending.outcome}{reason}", file=sys.stderr)
    return ending.outcome in _GOOD


def _wait(question: Question, desk: Desk, feed: Feed) -> Ending:
    now = SystemClock().monotonic
    connected_at = now()
    while question.ending is None:
        item = feed.get(0.5)
        if item is None:
            desk.tick()
        else:
            _take(item, desk)
        if desk.connected:
            connected_at = now()
        elif now() - connected_at > PATIENCE:
            raise ChannelError(
                "the gateway went away; if it had taken the message, it answers when it runs again: finclaw serve"
            )
    return question.ending


def _take(item: Item, desk: Desk) -> None:
    """Standard output is for answers; what nobody asked for goes beside it."""
    told = desk.take(item)
    if isinstance(told, Told):
        print(clean(told.text), file=sys.stderr, flush=True)


def _text(line: bytes) -> str:
    try:
        return line.decode("utf-8").rstrip()
    except UnicodeDecodeError as error:
        raise ConfigError("standard input is not UTF-8 text; convert it first, for example with iconv") from error
