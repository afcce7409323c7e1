"""`finclaw chat`: a conversation at the terminal, with the running gateway or one of its own.

The terminal belongs to the main thread. News comes from others through one events, and only the main thread draws.
"""

import logging
import os
import sys
from argparse import ArgumentParser, Namespace
from functools import partial

from finclaw.cli.arguments import add_market_options, add_state_options
from finclaw.cli.chat.completion import Completer
from finclaw.cli.chat.console import Console
from finclaw.cli.chat.editor import make_editor
from finclaw.cli.chat.event_queue import EventQueue
from finclaw.cli.chat.gateway_link import GatewayLink, connect, own_session
from finclaw.cli.chat.history import History
from finclaw.cli.chat.questions import PendingQuestions
from finclaw.cli.chat.screen import Screen
from finclaw.cli.chat.script import run_script
from finclaw.cli.chat.texts import greeting, texts_at_start
from finclaw.cli.chat.unread import ReadMarker, Unread
from finclaw.cli.options import settings_from, settings_to_look
from finclaw.cli.terminal_text import one_line
from finclaw.config.model_problems import say_budget
from finclaw.config.routes import chosen_model
from finclaw.config.schema import Settings
from finclaw.errors import ConfigError

INTERRUPTED = 130
_ENVELOPE = 1_024
"""Bytes of a request that are not the text."""


def arguments(parser: ArgumentParser) -> None:
    add_state_options(parser)
    parser.add_argument("--session", default="main", metavar="KEY", help="the conversation to continue")
    add_market_options(parser)


def run(args: Namespace) -> int:
    settings = settings_to_look(args, {"market": args.market})
    conversation = _session(args.session)
    # The outcome says what went wrong; a log between question and answer helps nobody.
    logging.getLogger("finclaw").addHandler(logging.NullHandler())
    logging.getLogger("finclaw").propagate = False
    events, is_terminal = EventQueue(), sys.stdin.isatty() and sys.stdout.isatty()
    # What a script is told nobody may have read; the next chat shows it.
    marker = ReadMarker(conversation, settings.state if is_terminal else None)
    with_keys = partial(settings_from, args, {"market": args.market})
    link = connect(settings, marker, conversation, args.market, events, with_keys, shared=True)
    questions = PendingQuestions(link, conversation, Unread(own_session(settings, conversation), marker))
    if is_terminal:
        return _talk(settings, link, questions, events)
    try:
        return run_script(sys.stdin.buffer, questions, events, link.commands)
    finally:
        link.close()


def _talk(settings: Settings, link: GatewayLink, questions: PendingQuestions, events: EventQueue) -> int:
    screen = Screen(sys.stdout)
    language = os.environ.get("LC_ALL") or os.environ.get("LC_MESSAGES") or os.environ.get("LANG") or ""
    limit = settings.web.max_body // 6 - _ENVELOPE  # a character of one byte may need six in JSON
    console = Console(link, questions, events, screen, texts_at_start(language), limit)
    for line in greeting(link.market, link.url):
        screen.line(line)
    if link.url is None and not chosen_model(settings).startswith("offline/"):
        screen.line(f"Budget / 예산: {say_budget(settings)}")
    console.run(make_editor(History(settings.state), events, console, Completer(events.ids, link.commands)))
    return _leave(link, questions, screen, console)


def _leave(link: GatewayLink, questions: PendingQuestions, screen: Screen, console: Console) -> int:
    for question in questions.untaken:
        screen.line(console.texts.never_taken.format(question=one_line(question.text)))
    if link.url is None and questions.open:
        screen.line(console.texts.finishing)
    try:
        link.close()
    except KeyboardInterrupt:
        # The gateway's own threads would hold up the interpreter. What was taken is on disk; a crash may not lose it,
        # so neither does this.
        os._exit(INTERRUPTED)
    return 0


def _session(key: str) -> str:
    try:
        key.encode()
    except UnicodeEncodeError:
        key = ""
    if not 1 <= len(key) <= 200:
        raise ConfigError("--session takes a name of 1 to 200 characters")
    return key
