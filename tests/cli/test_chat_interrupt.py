"""Ctrl-C at the worst moment: between an answer and the prompt, and between the prompt and the answer."""

import importlib
import importlib.util
import io
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.chat_terminal import python_at_terminal

from finclaw.cli.chat.answers import Answers
from finclaw.cli.chat.commands import Completer, KnownCommands, ShownIds
from finclaw.cli.chat.console import Console
from finclaw.cli.chat.editor import LineHistory
from finclaw.cli.chat.event_queue import EventQueue, Interrupted, Item, News, NotStopped, Taken
from finclaw.cli.chat.questions import PendingQuestions
from finclaw.cli.chat.screen import Screen
from finclaw.cli.chat.texts import ENGLISH
from finclaw.cli.chat.unread import ReadMarker, Unread
from finclaw.web.principal import MessageBody

pytestmark = pytest.mark.spec("DX-25")

NOTHING_TO_COMPLETE = Completer(ShownIds(), KnownCommands("/"))


class PromptLink:
    """Has its answers ready: what a message and a stop bring is in the feed at once."""

    url: str | None = None
    commands = KnownCommands("/")
    market = "demo"

    def __init__(self, feed: EventQueue, said: tuple[Item, ...], stopped: tuple[Item, ...] = ()) -> None:
        self._feed = feed
        self._said = said
        self._stopped = stopped
        self.stops: list[str] = []

    def say(self, body: MessageBody) -> None:
        for item in (Taken(body.message_id, "m-1"), *self._said):
            self._feed.put(item)

    def look(self, inbound_id: str | None, back: int = 0) -> None:
        raise AssertionError("nobody looks")

    def stop(self, inbound_id: str) -> None:
        self.stops.append(inbound_id)
        for item in self._stopped:
            self._feed.put(item)

    def close(self) -> None:
        pass


class Hand:
    """Types these lines, and leaves. `before` is called as each is asked for."""

    left = "something that was taken back long ago"

    def __init__(self, *lines: str, before: Callable[[], None] = lambda: None) -> None:
        self._lines = list(lines)
        self._before = before
        self.asked = 0

    def read(self) -> str:
        self.asked += 1
        self._before()
        if not self._lines:
            raise EOFError
        return self._lines.pop(0)

    def remember(self, text: str) -> None:
        pass


STOPPED = News("outcome", {"inbound_id": "m-1", "outcome": "stopped", "reason": "", "reply": "Stopped."})


def chat(feed: EventQueue, link: PromptLink, hand: Hand) -> str:
    """What was shown."""
    out = io.StringIO()
    desk = PendingQuestions(link, "main", Unread("s", ReadMarker("main")))
    screen = Screen(out, {})
    Console(Answers(link, desk, feed, screen, ENGLISH, 1_000), screen).run(hand)
    return out.getvalue()


def test_a_second_one_that_comes_with_the_end_of_the_first_leaves() -> None:
    """It was pressed while the answer was awaited, and is heard when nothing is awaited any more."""
    feed, hand = EventQueue(), Hand("go", "never asked for")
    link = PromptLink(feed, (Interrupted(),), (NotStopped("m-1", "its answer is on its way"), Interrupted()))
    shown = chat(feed, link, hand)
    assert (hand.asked, link.stops) == (1, ["m-1"])
    assert "could not stop it" in shown


def test_one_that_comes_when_nothing_was_stopped_only_warns() -> None:
    feed = EventQueue()
    feed.put(Interrupted())
    hand = Hand()
    assert ENGLISH.once_more in chat(feed, PromptLink(feed, ()), hand)
    assert hand.asked == 1


def test_one_that_comes_right_behind_the_line_stops_its_answer() -> None:
    feed = EventQueue()
    link = PromptLink(feed, (), (STOPPED,))
    shown = chat(feed, link, Hand("go", before=lambda: feed.put(Interrupted())))
    assert link.stops == ["m-1"]
    assert "Stopped." in shown


class Pressed:
    """A newsroom that was told of one before the line could be."""

    def has_news(self) -> bool:
        return True

    def show_news(self) -> None:
        raise AssertionError("whoever is interrupted is shown the news when they read on")

    def was_interrupted(self) -> bool:
        return True


@pytest.mark.skipif(not importlib.util.find_spec("prompt_toolkit"), reason="needs the extra `chat`")
def test_one_that_comes_before_the_line_can_receive_it_is_received(tmp_path: Path) -> None:
    application, keys = (importlib.import_module(f"prompt_toolkit.{each}") for each in ("application", "input"))
    output = importlib.import_module("prompt_toolkit.output").DummyOutput()
    from finclaw.cli.chat.editor import ToolkitEditor

    feed = EventQueue()
    feed.put(Interrupted())
    with keys.create_pipe_input() as typed, application.create_app_session(input=typed, output=output):
        editor = ToolkitEditor(LineHistory(tmp_path), feed, Pressed(), NOTHING_TO_COMPLETE)
        typed.send_text("half a line")
        with pytest.raises(KeyboardInterrupt):
            editor.read()


READS_A_LINE = """
import ctypes, functools, pathlib, readline, sys
from finclaw.cli.chat.commands import Completer, KnownCommands, ShownIds
from finclaw.cli.chat.editor import InputEditor, LineHistory

editor = InputEditor(LineHistory(pathlib.Path(sys.argv[1])), Completer(ShownIds(), KnownCommands("/")))
readline.set_pre_input_hook(functools.partial(ctypes.CDLL(None)["raise"], 2))
try:
    editor.read()
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.skipif(not importlib.util.find_spec("readline"), reason="needs a Python with readline")
async def test_one_that_comes_between_the_prompt_and_the_wait_for_a_key_is_noticed(tmp_path: Path) -> None:
    """Without prompt_toolkit. The hook presses it by a function that does not make Python look for signals."""
    with python_at_terminal(READS_A_LINE, str(tmp_path)) as terminal:
        await terminal.expect("interrupted")
        assert await terminal.ended() == 0
