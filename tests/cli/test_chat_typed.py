"""Messages that are typed while an answer is awaited, and the answers to them."""

import io
from pathlib import Path

import pytest

from finclaw.app import App
from finclaw.cli.chat.commands import Completer, KnownCommands
from finclaw.cli.chat.conversation import TerminalChat
from finclaw.cli.chat.event_queue import EventQueue, Interrupted, Item, News, Seen, Taken, TypedLine
from finclaw.cli.chat.local import LocalLink
from finclaw.cli.chat.questions import PendingQuestions
from finclaw.cli.chat.screen import Screen
from finclaw.cli.chat.texts import ENGLISH
from finclaw.cli.chat.unread import ReadMarker, Unread
from finclaw.config.schema import Settings
from finclaw.errors import StoreFailed
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.record import Accepted
from finclaw.web.principal import MessageBody


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


class LeavingQueue(EventQueue):
    """Somebody leaves when nothing more happens."""

    def get(self, seconds: float) -> Item | None:
        item = super().get(0)
        return TypedLine("/quit") if item is None and seconds else item


def end(inbound_id: str, outcome: str, reply: str | None = None, reason: str = "") -> News:
    return News("outcome", {"inbound_id": inbound_id, "outcome": outcome, "reason": reason, "reply": reply})


def joined(inbound_id: str, other: str) -> News:
    return end(inbound_id, "joined", reason=f"answered with message {other}")


def grown(inbound_id: str, text: str) -> News:
    return News("preview_update", {"inbound_id": inbound_id, "at": 0, "text": text})


def talk(*said: tuple[Item, ...]) -> tuple[SteeredLink, list[str]]:
    """A chat that begins with the line `one` and is left at the end; the lines that were shown below that one."""
    feed, out = LeavingQueue(), io.StringIO()
    link = SteeredLink(feed, *said)
    desk = PendingQuestions(link, "main", Unread("s", ReadMarker("main")))
    chat = TerminalChat(link, desk, feed, Screen(out, {}), Completer(link.commands), ENGLISH, 100)
    feed.put(TypedLine("one"))
    chat.run()
    first, *shown = [line for line in out.getvalue().splitlines() if line and not line.startswith("> /quit")]
    assert first == "> one"
    return link, shown


def test_answers_are_shown_one_after_the_other() -> None:
    """The end of the second is heard first; a command is answered at once."""
    link, shown = talk(
        (TypedLine("two"),),
        (TypedLine("/queue"),),
        (end("m-2", "failed", "No."), end("m-3", "command", "Two are open."), end("m-1", "failed", "Yes.")),
    )
    assert link.texts == ["one", "two", "/queue"]
    failed = ENGLISH.ended_as.format(outcome="failed", reason="")
    two = [ENGLISH.answer_to.format(question="two"), "No.", failed]
    command = [ENGLISH.answer_to.format(question="/queue"), "Two are open."]
    assert shown == ["> two", "> /queue", *two, *command, "Yes.", failed]


@pytest.mark.parametrize("first", [1, 2])
def test_one_answer_to_two_messages_is_shown_once(first: int) -> None:
    """The turn began with both, so its answer is the second one's, whichever end is heard first."""
    ends = [joined("m-1", "m-2"), end("m-2", "answered", "A part of it.")]
    _, shown = talk((grown("m-1", "A part"), TypedLine("two")), tuple(ends if first == 1 else ends[::-1]))
    assert shown == ["> two", "A part of it.", ENGLISH.joined_above.format(question="one", other="two")]


@pytest.mark.parametrize("first", [1, 2])
def test_a_message_that_steered_the_answer_is_said_to_be_covered(first: int) -> None:
    ends = [end("m-1", "answered", "All of it."), joined("m-2", "m-1")]
    _, shown = talk((TypedLine("two"),), tuple(ends if first == 1 else ends[::-1]))
    assert shown == ["> two", "All of it.", ENGLISH.joined_above.format(question="two", other="one")]


def test_one_that_joined_a_message_of_another_chat() -> None:
    _, shown = talk((joined("m-1", "m-9"),))
    assert shown == [ENGLISH.joined_elsewhere.format(question="one")]


def test_a_stop_key_stops_the_one_and_the_next_is_answered() -> None:
    link, shown = talk((TypedLine("two"), Interrupted(leaves=False)), (end("m-2", "dropped", reason="why"),))
    assert link.stops == ["m-1"]
    assert shown.index("> two") < shown.index("Stopped.")


def test_what_is_refused_is_not_sent_and_the_answer_goes_on() -> None:
    link, shown = talk((TypedLine("/rest"), TypedLine("x" * 101), end("m-1", "stopped", "Stopped.")))
    assert link.texts == ["one"]
    assert shown[0] == "> /rest"
    assert shown[1].startswith("There is no command /rest.")
    assert ENGLISH.too_long.format(limit=100) in shown
    assert shown[-1] == "Stopped."


def test_one_that_was_sent_as_the_answer_ended_is_sent_next() -> None:
    link, shown = talk((end("m-1", "answered", "One."), TypedLine("two")), (end("m-2", "answered", "Two."),))
    assert link.texts == ["one", "two"]
    assert shown == ["One.", "> two", "Two."]


def test_leaving_and_what_is_typed_behind_it_wait_for_the_end_of_the_answer() -> None:
    link, shown = talk((TypedLine("/quit"), TypedLine("two"), end("m-1", "failed", "One.")))
    assert link.texts == ["one"]
    waiting = "> two" + ENGLISH.draft_waits
    assert shown == [waiting, "One.", ENGLISH.ended_as.format(outcome="failed", reason="")]


def test_looking_back_waits_and_what_is_typed_behind_it_is_sent_next() -> None:
    said = (TypedLine("/last"), TypedLine("two"), end("m-1", "failed", "One."))
    link, shown = talk(said, (end("m-2", "command", "Two."),))
    assert link.texts == ["one", "two"]
    assert shown[:2] == ["> /last" + ENGLISH.draft_waits, "> two" + ENGLISH.draft_waits]
    assert shown[2:] == ["One.", ENGLISH.ended_as.format(outcome="failed", reason=""), ENGLISH.no_last, "Two."]


def test_text_that_is_not_utf8_is_not_sent() -> None:
    link, shown = talk((TypedLine("\udcff"), end("m-1", "stopped", "Stopped.")))
    assert link.texts == ["one"]
    assert ENGLISH.not_text in shown


def test_help_that_was_asked_for_meanwhile_lists_the_own_commands_too() -> None:
    ends = (end("m-2", "command", "/stop"), end("m-1", "stopped", "Stopped."))
    _, shown = talk((TypedLine("/help"),), ends)
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
