"""`finclaw ask`: one question, one answer. Through the running gateway if there is one, else right here."""

import logging
import sys
from argparse import ArgumentParser, Namespace
from functools import partial
from typing import Final

from finclaw.builtins.approval_words import is_yes
from finclaw.cli.arguments import add_state_options
from finclaw.cli.chat.asker import INTERRUPTED, Asker, leave_at_once
from finclaw.cli.chat.event_queue import EventQueue
from finclaw.cli.chat.gateway_link import connect, own_session
from finclaw.cli.chat.progress import show_ending
from finclaw.cli.chat.questions import Ending, PendingQuestions
from finclaw.cli.chat.screen import Screen
from finclaw.cli.chat.texts import texts_for
from finclaw.cli.chat.unread import ReadMarker, Unread
from finclaw.cli.options import settings_from, settings_to_look
from finclaw.cli.terminal_text import clean, json_line
from finclaw.config.schema import Settings
from finclaw.diagnostics.log import start_logging
from finclaw.errors import ChannelError, ConfigError
from finclaw.tools.guard.redact import redact_for_display
from finclaw.web.view import MessageView, OutcomeView

PATIENCE = 10.0
"""Seconds to wait for a state that is busy: a gateway is starting, or another `finclaw ask` is at it."""

FOLLOW: Final = 60.0
"""Seconds to wait for what comes of an approval."""
QUIET_SUCCESS: Final = ("answered", "command", "skipped", "joined")


def arguments(parser: ArgumentParser) -> None:
    add_state_options(parser)
    parser.add_argument("text", nargs="*", metavar="TEXT", help="the question; - or nothing reads standard input")
    parser.add_argument("--json", action="store_true", help="print the whole outcome as one JSON object")
    parser.add_argument("--session", default="main", metavar="KEY", help="the conversation to continue")
    parser.add_argument(
        "--model", metavar="NAME", help="the model or alias that answers this one question; no other is asked instead"
    )
    parser.add_argument("--demo", dest="market", action="store_const", const="demo", help="use the demo market")
    parser.add_argument("--verbose", action="store_true", help="show the log, where this command runs the turn itself")


def run(args: Namespace) -> int:
    overrides = {"market": args.market}
    settings = settings_to_look(args, overrides)
    conversation, text = _session(args.session), _text(args.text)
    _log(settings, verbose=args.verbose)
    events, marker = (
        EventQueue(),
        ReadMarker(conversation),
    )  # it moves nobody's place: a chat shows what was told unasked
    with_keys = partial(settings_from, args, overrides)
    link = connect(settings, marker, conversation, args.market, events, with_keys, patience=PATIENCE)
    try:
        session = own_session(settings, conversation)
        questions = PendingQuestions(link, conversation, Unread(session, marker))
        if refusal := link.commands.refuse_unknown(text, texts_for(text)):
            raise ConfigError(refusal)
        screen, texts = Screen(sys.stdout) if sys.stdout.isatty() else None, texts_for(text)
        asker = Asker(link, questions, events, texts, screen, streams=not args.json)
        question, ending = asker.ask(text, _model(args.model))
        follows = is_yes(ending.reply or "") and not args.json and asker.follow(session, FOLLOW)
        if args.json:
            _print_json(asker.look_up(question))
        elif screen is not None:
            show_ending(screen, texts, ending, wanted=not question.stopping)
        else:
            _print_ending(ending, wanted=not question.stopping)
        if follows:  # what came of the approval, where it was given
            print(f"\n{clean(follows)}")
    except KeyboardInterrupt:
        leave_at_once()
    finally:
        link.close()
    return _exit_code(ending)


def _exit_code(ending: Ending) -> int:
    if ending.outcome == "stopped":
        return INTERRUPTED
    return 0 if ending.outcome in QUIET_SUCCESS else 1


def _print_json(view: MessageView | None) -> None:
    if view is None:
        raise ChannelError("the message has ended, but the gateway does not say how; `finclaw turns` shows it")
    fields = {name: getattr(view, name) for name in OutcomeView.__struct_fields__}
    print(json_line(fields))


def _print_ending(ending: Ending, *, wanted: bool) -> None:
    """For a script: the answer on standard output and nothing else; how it ended otherwise, beside it."""
    stopped = not wanted and ending.outcome == "stopped"
    if ending.reply is not None:
        print(clean(ending.reply), file=sys.stderr if stopped else sys.stdout)
    if ending.outcome not in ("answered", "command") and not stopped:
        reason = f": {clean(ending.reason)}" if ending.reason else ""
        print(f"finclaw: the message ended as {ending.outcome}{reason}", file=sys.stderr)


def _text(words: list[str]) -> str:
    if words == ["-"] or (not words and not sys.stdin.isatty()):
        try:
            text = sys.stdin.buffer.read().decode("utf-8").removesuffix("\n")
        except UnicodeDecodeError as error:
            raise ConfigError("standard input is not UTF-8 text; convert it first, for example with iconv") from error
    else:
        text = " ".join(words)
    if not text.strip():
        raise ConfigError('there is no question; try: finclaw ask "What is AAPL trading at?"')
    if not _is_unicode(text):
        raise ConfigError("the question is not UTF-8 text; check your terminal's character encoding")
    return text


def _session(key: str) -> str:
    if not 1 <= len(key) <= 200 or not _is_unicode(key):
        raise ConfigError("--session takes a name of 1 to 200 characters of UTF-8 text; try: --session main")
    return key


def _model(name: str | None) -> str | None:
    if name is not None and not (1 <= len(name) <= 200 and _is_unicode(name)):
        raise ConfigError("--model takes a model or an alias, as `finclaw models` lists them")
    return name


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _log(settings: Settings, *, verbose: bool) -> None:
    if verbose:
        start_logging(settings.log.level, "plain", redact_for_display)
    else:  # the outcome says what went wrong; a log between question and answer helps nobody
        logging.getLogger("finclaw").addHandler(logging.NullHandler())
        logging.getLogger("finclaw").propagate = False
