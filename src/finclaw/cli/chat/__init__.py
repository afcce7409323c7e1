"""`finclaw chat`: a conversation at the terminal, with the running gateway or one of its own.

The terminal belongs to the main thread. News comes from others through one feed, and only the main thread draws.
"""

import logging
import os
import sys
from argparse import Namespace
from functools import partial

from finclaw.cli.chat.bookmark import Bookmark
from finclaw.cli.chat.clean import one_line
from finclaw.cli.chat.complete import Completer
from finclaw.cli.chat.console import Console
from finclaw.cli.chat.desk import Desk
from finclaw.cli.chat.editor import make_editor
from finclaw.cli.chat.feed import Feed
from finclaw.cli.chat.history import History
from finclaw.cli.chat.letterbox import Letterbox
from finclaw.cli.chat.link import Link, connect, own_session
from finclaw.cli.chat.screen import Screen
from finclaw.cli.chat.script import run_script
from finclaw.cli.chat.words import greeting, words_at_start
from finclaw.cli.options import settings_from, settings_to_look
from finclaw.config.model_problems import say_budget
from finclaw.config.routes import chosen_model
from finclaw.config.schema import Settings
from finclaw.errors import ConfigError

INTERRUPTED = 130
_ENVELOPE = 1_024
"""Bytes of a request that are not the text."""


def run(args: Namespace) -> int:
    settings = settings_to_look(args, {"market": args.market})
    conversation = _session(args.session)
    # The outcome says what went wrong; a log between question and answer helps nobody.
    logging.getLogger("finclaw").addHandler(logging.NullHandler())
    logging.getLogger("finclaw").propagate = False
    feed, is_terminal = Feed(), sys.stdin.isatty() and sys.stdout.isatty()
    # What a script is told nobody may have read; the next chat shows it.
    bookmark = Bookmark(conversation, settings.state if is_terminal else None)
    with_keys = partial(settings_from, args, {"market": args.market})
    link = connect(settings, bookmark, conversation, args.market, feed, with_keys, shared=True)
    desk = Desk(link, conversation, Letterbox(own_session(settings, conversation), bookmark))
    if is_terminal:
        return _talk(settings, link, desk, feed)
    try:
        return run_script(sys.stdin.buffer, desk, feed, link.commands)
    finally:
        link.close()


def _talk(settings: Settings, link: Link, desk: Desk, feed: Feed) -> int:
    screen = Screen(sys.stdout)
    language = os.environ.get("LC_ALL") or os.environ.get("LC_MESSAGES") or os.environ.get("LANG") or ""
    limit = settings.web.max_body // 6 - _ENVELOPE  # a character of one byte may need six in JSON
    console = Console(link, desk, feed, screen, words_at_start(language), limit)
    for line in greeting(link.market, link.url):
        screen.line(line)
    if link.url is None and not chosen_model(settings).startswith("offline/"):
        screen.line(f"Budget / 예산: {say_budget(settings)}")
    console.run(make_editor(History(settings.state), feed, console, Completer(feed.ids, link.commands)))
    return _leave(link, desk, screen, console)


def _leave(link: Link, desk: Desk, screen: Screen, console: Console) -> int:
    for question in desk.untaken:
        screen.line(console.words.never_taken.format(question=one_line(question.text)))
    if link.url is None and desk.open:
        screen.line(console.words.finishing)
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
