"""Ctrl-C at the worst moment: between an answer and the prompt, and between the prompt and the answer."""

import importlib.util
import io
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.chat_terminal import python_at_terminal

from finclaw.cli.chat.commands import Completer, KnownCommands
from finclaw.cli.chat.conversation import TerminalChat
from finclaw.cli.chat.event_queue import EventQueue, Interrupted, Item, News, NotStopped, Taken, TypedLine
from finclaw.cli.chat.questions import PendingQuestions
from finclaw.cli.chat.screen import Screen
from finclaw.cli.chat.texts import ENGLISH
from finclaw.cli.chat.unread import ReadMarker, Unread
from finclaw.web.principal import MessageBody

pytestmark = pytest.mark.spec("DX-25")


class PromptLink:
    """Has its answers ready: what a message and a stop bring is in the queue at once."""

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
    """Types these lines, and leaves. `after` is called behind each."""

    def __init__(self, feed: EventQueue, *lines: str, after: Callable[[], None] = lambda: None) -> None:
        self._feed = feed
        self._lines = [*lines, "/quit"]
        self._after = after
        self.asked = 0

    def read_line(self) -> None:
        self.asked += 1
        self._feed.put(TypedLine(self._lines.pop(0)))
        self._after()


STOPPED = News("outcome", {"inbound_id": "m-1", "outcome": "stopped", "reason": "", "reply": "Stopped."})


def chat(feed: EventQueue, link: PromptLink, hand: Hand) -> str:
    """What was shown."""
    out = io.StringIO()
    desk = PendingQuestions(link, "main", Unread("s", ReadMarker("main")))
    completer = Completer(link.commands)
    TerminalChat(link, desk, feed, Screen(out, {}), completer, ENGLISH, 1_000).run(hand.read_line)
    return out.getvalue()


def test_second_interrupt_with_the_end_of_the_first_leaves() -> None:
    """It was pressed while the answer was awaited, and is heard when nothing is awaited any more."""
    feed = EventQueue()
    hand = Hand(feed, "go", "never asked for")
    link = PromptLink(feed, (Interrupted(),), (NotStopped("m-1", "its answer is on its way"), Interrupted()))
    shown = chat(feed, link, hand)
    assert (hand.asked, link.stops) == (1, ["m-1"])
    assert "could not stop it" in shown


def test_interrupt_with_nothing_to_stop_only_warns() -> None:
    feed = EventQueue()
    feed.put(Interrupted())
    hand = Hand(feed)
    assert ENGLISH.once_more in chat(feed, PromptLink(feed, ()), hand)
    assert hand.asked == 1


def test_interrupt_right_behind_the_line_stops_its_answer() -> None:
    feed = EventQueue()
    link = PromptLink(feed, (), (STOPPED,))
    shown = chat(feed, link, Hand(feed, "go", after=lambda: feed.put(Interrupted())))
    assert link.stops == ["m-1"]
    assert "Stopped." in shown


READ_A_LINE = """
import ctypes, functools, pathlib, readline, sys
from finclaw.cli.chat.commands import Completer, KnownCommands
from finclaw.cli.chat.event_queue import EventQueue
from finclaw.cli.chat.keyboard import LineHistory, PlainKeyboard

events = EventQueue()
completer = Completer(KnownCommands("/"))
keyboard = PlainKeyboard(LineHistory(pathlib.Path(sys.argv[1])), events, completer)
readline.set_pre_input_hook(functools.partial(ctypes.CDLL(None)["raise"], 2))
keyboard.read_line()
print("interrupted")
"""


@pytest.mark.skipif(not importlib.util.find_spec("readline"), reason="needs a Python with readline")
async def test_interrupt_between_the_prompt_and_the_wait_for_a_key_is_noticed(tmp_path: Path) -> None:
    """The hook raises the signal by a function that does not make Python look for signals."""
    with python_at_terminal(READ_A_LINE, str(tmp_path)) as terminal:
        await terminal.expect("interrupted")
        assert await terminal.ended() == 0
