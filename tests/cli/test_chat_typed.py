"""What is typed while an answer is awaited: the draft, key by key, and the answers to what was sent."""

import importlib
import importlib.util
import io
import os
import pty
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from finclaw.app import App
from finclaw.cli.chat.answers import Answers
from finclaw.cli.chat.commands import KnownCommands
from finclaw.cli.chat.console import Console
from finclaw.cli.chat.event_queue import DraftChanged, EventQueue, Interrupted, Item, News, Seen, Taken, TypedLine
from finclaw.cli.chat.key_watch import KeyWatch, TypedDraft
from finclaw.cli.chat.local import LocalLink
from finclaw.cli.chat.questions import PendingQuestions
from finclaw.cli.chat.screen import Screen
from finclaw.cli.chat.texts import ENGLISH
from finclaw.cli.chat.unread import ReadMarker, Unread
from finclaw.cli.formatting import text_columns
from finclaw.config.schema import Settings
from finclaw.errors import StoreFailed
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.record import Accepted
from finclaw.web.principal import MessageBody

# ── the draft ───────────────────────────────────────────────────────────────────────────────────────────────


class Key(NamedTuple):
    """A key as prompt_toolkit names it."""

    key: str
    data: str = ""


ENTER, BACKSPACE, LEFT = Key("c-m", "\r"), Key("c-h", "\x7f"), Key("left", "\x1b[D")


def keys(text: str) -> list[Key]:
    return [Key(char, char) for char in text]


def press(draft: TypedDraft, *pressed: Key) -> list[str]:
    """What was sent."""
    return [sent for key in pressed if (sent := draft.take(key)) is not None]


@pytest.mark.parametrize(
    ("pressed", "text"),
    [
        ([*keys("삼성전지"), BACKSPACE, *keys("자")], "삼성전자"),
        ([*keys("cafe\u0301"), BACKSPACE], "caf"),  # the mark goes with its letter
        ([*keys("\u1112\u1161\u11ab"), BACKSPACE], ""),  # a syllable in three parts
        ([BACKSPACE, Key("c-u"), Key("c-w")], ""),
        ([*keys("all of it"), Key("c-u"), *keys("new")], "new"),
        ([*keys("하나 둘  "), Key("c-w")], "하나 "),
        ([*keys("a "), Key("<bracketed-paste>", "one\r\ntwo\rthree")], "a one\ntwo\nthree"),
    ],
)
def test_a_draft_is_edited(pressed: list[Key], text: str) -> None:
    draft = TypedDraft()
    assert press(draft, *pressed) == []
    assert (draft.text, draft.waiting) == (text, [])


def test_enter_sends_and_an_empty_draft_does_nothing() -> None:
    draft = TypedDraft()
    assert press(draft, ENTER, *keys("  "), Key("c-j", "\n")) == []
    assert press(draft, *keys("하나"), ENTER, *keys("/stop"), Key("c-j", "\n"), *keys("tw")) == ["하나", "/stop"]
    assert (draft.text, draft.waiting) == ("tw", [])


@pytest.mark.parametrize("key", [LEFT, Key("up"), Key("c-i", "\t"), Key("escape"), Key("c-d", "\x04")])
def test_a_key_that_needs_the_prompt_waits_for_it_with_all_that_follow(key: Key) -> None:
    draft = TypedDraft()
    assert press(draft, *keys("ab"), key, *keys("c"), ENTER, BACKSPACE) == []
    assert (draft.text, draft.waiting) == ("ab", [key, *keys("c"), ENTER, BACKSPACE])


@pytest.mark.parametrize("line", ["/quit", "exit", "종료", "/last", "/last 3"])
def test_leaving_and_looking_back_wait_for_the_prompt(line: str) -> None:
    draft = TypedDraft()
    assert press(draft, *keys(line), ENTER, *keys("x"), ENTER) == []
    assert (draft.text, draft.waiting) == (line, [ENTER, *keys("x"), ENTER])


def test_the_end_of_a_long_draft_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    class Shown(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("LINES", "20")
    out = Shown()
    screen = Screen(out, {"TERM": "xterm", "NO_COLOR": "1"})
    screen.draft("처음부터 아주 긴 문장이어서\n한 줄에 다 보이지 않는 끝", " (waits)")
    (line,) = out.getvalue().removeprefix("\x1b[J").splitlines()
    assert line.startswith("> …")
    assert line.endswith("않는 끝 (waits)")
    assert text_columns(line) < 40


# ── the keyboard ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Generator[int]:
    """Where to write keys: the other end of standard input."""
    if not importlib.util.find_spec("prompt_toolkit"):
        pytest.skip("needs the extra `chat`")
    master, slave = pty.openpty()
    with open(slave) as file:
        monkeypatch.setattr("sys.stdin", file)
        yield master
    os.close(master)


class ToolkitApp:
    """The parts of an application of prompt_toolkit that a `KeyWatch` uses."""

    def __init__(self, keys: Any) -> None:
        self.input = keys
        self.output = importlib.import_module("prompt_toolkit.output").DummyOutput()


@contextmanager
def watching(feed: EventQueue, *, sends: bool = True) -> Generator[tuple[KeyWatch, Callable[[], list[str]]]]:
    """A watch, and a function that takes out what waits for the prompt."""
    create_input = importlib.import_module("prompt_toolkit.input").create_pipe_input
    typeahead: Any = importlib.import_module("prompt_toolkit.input.typeahead").get_typeahead
    with create_input() as source:
        yield (
            KeyWatch(feed, ToolkitApp(source), sends=sends),
            lambda: [str(each.data) for each in typeahead(source)],
        )


def wait_for(feed: EventQueue, wanted: Item) -> None:
    while (item := feed.get(60)) != wanted:
        assert item is not None, f"{wanted} did not come"


def test_a_draft_that_was_not_sent_goes_on_in_the_next_watch_and_then_to_the_prompt(keyboard: int) -> None:
    feed = EventQueue()
    with watching(feed) as (keys, take_waiting):
        for typed, draft in (("하나\n둘", "둘"), (" 셋", "둘 셋")):
            with keys.watch():
                os.write(keyboard, typed.encode())
                wait_for(feed, DraftChanged(draft))
        assert take_waiting() == ["둘 셋"]
        with keys.watch():
            pass
        assert take_waiting() == []


def test_a_paste_that_is_cut_by_the_end_of_the_answer_sends_nothing(keyboard: int) -> None:
    feed = EventQueue()
    with watching(feed) as (keys, take_waiting):
        with keys.watch():
            os.write(keyboard, b"a \x1b[200~one\ntwo")
            wait_for(feed, DraftChanged("a "))
        assert take_waiting() == ["a one\ntwo"]
        assert feed.get(0) == DraftChanged("a one\ntwo")
        assert feed.empty


def test_where_nothing_can_be_drawn_all_keys_wait_but_esc(keyboard: int) -> None:
    feed = EventQueue()
    with watching(feed, sends=False) as (keys, take_waiting):
        with keys.watch():
            os.write(keyboard, b"go\n")
            os.write(keyboard, b"\x1b")
            wait_for(feed, Interrupted(leaves=False))
        assert take_waiting() == ["g", "o", "\n"]
        assert feed.empty


# ── the answers ─────────────────────────────────────────────────────────────────────────────────────────────


class SteeredLink:
    """A gateway that plays a script: `said[n]` comes when the message number n, from 1, was sent."""

    url: str | None = None
    commands = KnownCommands("/", ("help", "stop", "queue"))
    market = "demo"

    def __init__(self, feed: EventQueue, *said: tuple[Item, ...]) -> None:
        self._feed = feed
        self._said = said
        self.texts: list[str] = []
        self.stops: list[str] = []

    def say(self, body: MessageBody) -> None:
        self.texts.append(body.text)
        for item in (Taken(body.message_id, f"m-{len(self.texts)}"), *self._said[len(self.texts) - 1]):
            self._feed.put(item)

    def look(self, inbound_id: str | None, back: int = 0) -> None:
        self._feed.put(Seen(None))  # it has no facts

    def stop(self, inbound_id: str) -> None:
        self.stops.append(inbound_id)
        self._feed.put(end(inbound_id, "stopped", "Stopped."))

    def close(self) -> None:
        pass


class Typist:
    """Types one line at the prompt, and leaves."""

    left = ""

    def __init__(self, line: str) -> None:
        self._lines = [line]
        self.remembered: list[str] = []

    def read(self) -> str:
        if not self._lines:
            raise EOFError
        return self._lines.pop()

    def remember(self, text: str) -> None:
        self.remembered.append(text)


def end(inbound_id: str, outcome: str, reply: str | None = None, reason: str = "") -> News:
    return News("outcome", {"inbound_id": inbound_id, "outcome": outcome, "reason": reason, "reply": reply})


def joined(inbound_id: str, other: str) -> News:
    return end(inbound_id, "joined", reason=f"answered with message {other}")


def grown(inbound_id: str, text: str) -> News:
    return News("preview_update", {"inbound_id": inbound_id, "at": 0, "text": text})


def talk(*said: tuple[Item, ...]) -> tuple[SteeredLink, Typist, list[str]]:
    """A chat that begins with the line `one`; the lines that were shown, without empty ones."""
    feed, out = EventQueue(), io.StringIO()
    link, typist = SteeredLink(feed, *said), Typist("one")
    screen, desk = Screen(out, {}), PendingQuestions(link, "main", Unread("s", ReadMarker("main")))
    Console(Answers(link, desk, feed, screen, ENGLISH, 100), screen).run(typist)
    return link, typist, [line for line in out.getvalue().splitlines() if line]


def test_answers_are_shown_one_after_the_other() -> None:
    """The end of the second is heard first; a command is answered at once."""
    link, typist, shown = talk(
        (DraftChanged("tw"), TypedLine("two")),
        (TypedLine("/queue"),),
        (end("m-2", "failed", "No."), end("m-3", "command", "Two are open."), end("m-1", "failed", "Yes.")),
    )
    assert link.texts == typist.remembered == ["one", "two", "/queue"]
    failed = ENGLISH.ended_as.format(outcome="failed", reason="")
    two = [ENGLISH.answer_to.format(question="two"), "No.", failed]
    command = [ENGLISH.answer_to.format(question="/queue"), "Two are open."]
    assert shown == ["> two", "> /queue", *two, *command, "Yes.", failed]


@pytest.mark.parametrize("first", [1, 2])
def test_one_answer_to_two_messages_is_shown_once(first: int) -> None:
    """The turn began with both, so its answer is the second one's, whichever end is heard first."""
    ends = [joined("m-1", "m-2"), end("m-2", "answered", "A part of it.")]
    _, _, shown = talk((grown("m-1", "A part"), TypedLine("two")), tuple(ends if first == 1 else ends[::-1]))
    assert shown == ["> two", "A part of it.", ENGLISH.joined_above.format(question="one", other="two")]


@pytest.mark.parametrize("first", [1, 2])
def test_a_message_that_steered_the_answer_is_said_to_be_covered(first: int) -> None:
    ends = [end("m-1", "answered", "All of it."), joined("m-2", "m-1")]
    _, _, shown = talk((TypedLine("two"),), tuple(ends if first == 1 else ends[::-1]))
    assert shown == ["> two", "All of it.", ENGLISH.joined_above.format(question="two", other="one")]


def test_one_that_joined_a_message_of_another_chat() -> None:
    _, _, shown = talk((joined("m-1", "m-9"),))
    assert shown == [ENGLISH.joined_elsewhere.format(question="one")]


def test_a_stop_key_stops_the_one_and_the_next_is_answered() -> None:
    link, _, shown = talk((TypedLine("two"), Interrupted(leaves=False)), (end("m-2", "dropped", reason="why"),))
    assert link.stops == ["m-1"]
    assert shown.index("> two") < shown.index("Stopped.")


def test_what_is_refused_is_not_sent_and_the_answer_goes_on() -> None:
    link, typist, shown = talk((TypedLine("/rest"), TypedLine("x" * 101), end("m-1", "stopped", "Stopped.")))
    assert link.texts == ["one"]
    assert typist.remembered == ["one", "/rest", "x" * 101]
    assert shown[0] == "> /rest"
    assert shown[1].startswith("There is no command /rest.")
    assert ENGLISH.too_long.format(limit=100) in shown
    assert shown[-1] == "Stopped."


def test_one_that_was_sent_as_the_answer_ended_is_sent_next() -> None:
    link, typist, shown = talk((end("m-1", "answered", "One."), TypedLine("two")), (end("m-2", "answered", "Two."),))
    assert link.texts == typist.remembered == ["one", "two"]
    assert shown == ["One.", "> two", "Two."]


def test_help_that_was_asked_for_meanwhile_lists_the_own_commands_too() -> None:
    ends = (end("m-2", "command", "/stop"), end("m-1", "stopped", "Stopped."))
    _, _, shown = talk((TypedLine("/help"),), ends)
    assert shown[1:3] == [ENGLISH.answer_to.format(question="/help"), "/stop"]
    assert shown[3:-1] == ENGLISH.own_commands.splitlines()


def test_a_later_message_does_not_pass_one_that_is_sent_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a gateway of its own, whose disk was full for a moment."""
    accept, tries = App.accept, list[str]()

    async def accept_at_second_try(app: App, inbound: Inbound) -> Accepted:
        tries.append(inbound.text)
        if len(tries) == 1:
            raise StoreFailed("disk full")
        return await accept(app, inbound)

    monkeypatch.setattr(App, "accept", accept_at_second_try)
    monkeypatch.setattr("finclaw.cli.chat.local._AGAIN", 0.01)
    feed = EventQueue()
    link = LocalLink(Settings(state=tmp_path), ReadMarker("main"), "main", feed)
    for number in ("1", "2"):
        link.say(MessageBody(message_id=number, conversation="main", text=f"/whoami {number}"))
    taken: list[str] = []
    while len(taken) < 2:
        item = feed.get(60)
        assert item is not None
        taken += [item.message_id] if isinstance(item, Taken) else []
    link.close()
    assert taken == ["1", "2"]
    assert tries == ["/whoami 1", "/whoami 1", "/whoami 2"]
