"""Which event belongs to which question, in whatever order things come."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from finclaw.cli.chat.commands import KnownCommands
from finclaw.cli.chat.event_queue import (
    CaughtUp,
    Connected,
    EventQueue,
    Interrupted,
    Lost,
    News,
    NotStopped,
    Refused,
    Seen,
    Taken,
    UnsolicitedMessage,
)
from finclaw.cli.chat.keyboard import KEPT, LineHistory
from finclaw.cli.chat.questions import PendingQuestions, QuestionEnd
from finclaw.cli.chat.remote import parse_events
from finclaw.cli.chat.screen import sources
from finclaw.cli.chat.texts import ENGLISH
from finclaw.cli.chat.unread import ReadMarker, Unread
from finclaw.kernel.fact import Fact
from finclaw.web.principal import MessageBody
from finclaw.web.view import MessageView, OutcomeView

SESSION = "main:web:owner:direct:main+owner"


class NotedLink:
    """Notes what it is asked to do."""

    url: str | None = None
    commands = KnownCommands("/")
    market = "demo"

    def __init__(self) -> None:
        self.said: list[MessageBody] = []
        self.looked: list[str | None] = []
        self.stopped: list[str] = []

    def say(self, body: MessageBody) -> None:
        self.said.append(body)

    def look(self, inbound_id: str | None, back: int = 0) -> None:
        self.looked.append(inbound_id)

    def stop(self, inbound_id: str) -> None:
        self.stopped.append(inbound_id)

    def close(self) -> None:
        pass


@pytest.fixture
def link() -> NotedLink:
    return NotedLink()


@pytest.fixture
def desk(link: NotedLink) -> PendingQuestions:
    return PendingQuestions(link, "main", Unread(SESSION, ReadMarker("main")))


def news(kind: str, inbound_id: str = "m-1", **data: Any) -> News:
    return News(kind, {"inbound_id": inbound_id, **data})


def outcome(reply: str, inbound_id: str = "m-1") -> News:
    return news("outcome", inbound_id, outcome="answered", reason="", reply=reply)


def test_an_answer_grows_and_ends(desk: PendingQuestions, link: NotedLink) -> None:
    question = desk.ask("hi")
    assert [(body.text, body.message_id) for body in link.said] == [("hi", question.id)]
    assert desk.take(Taken(question.id, "m-1")) is question
    desk.take(news("tool_progress", tool="market__quote", state="started"))
    assert question.tool == "market__quote"
    desk.take(news("tool_progress", tool="market__quote", state="ended"))
    for at, text in ((0, "One. "), (5, "Two. "), (0, "Anew. "), (6, "End.")):
        desk.take(news("preview_update", at=at, text=text))
    assert (question.preview, question.tool) == ("Anew. End.", "")
    assert desk.take(outcome("Anew. End.")) is question
    assert question.ending == QuestionEnd("answered", "", "Anew. End.")
    assert not desk.open


def test_others_in_the_conversation_are_none_of_ours(desk: PendingQuestions) -> None:
    assert desk.take(outcome("theirs", "m-9")) is None
    question = desk.ask("hi")
    desk.take(Taken(question.id, "m-1"))
    assert desk.take(outcome("theirs", "m-9")) is None
    assert question.ending is None


def test_a_broken_line_makes_it_look_until_the_message_ended(desk: PendingQuestions, link: NotedLink) -> None:
    question = desk.ask("hi")
    desk.take(Taken(question.id, "m-1"))
    desk.take(news("preview_update", at=0, text="Half an "))
    desk.take(Lost("why"))
    desk.tick()
    assert (desk.connected, link.looked) == (False, [])
    desk.take(Connected())
    assert link.looked == ["m-1"]
    desk.take(News("reset", {"seq": 1, "open": []}))
    assert (question.preview, question.withdrawn) == ("", True)
    desk.take(Seen(None))
    running = MessageView(inbound_id="m-1", session="s", state="running", delivery="none")
    assert desk.take(Seen(running)) is None
    ended = MessageView(
        inbound_id="m-1", session="s", state="ended", delivery="delivered", outcome="answered", reply="x"
    )
    assert desk.take(Seen(ended)) is question
    looked = len(link.looked)
    desk.tick()
    assert len(link.looked) == looked


def test_a_preview_the_gateway_still_has_is_kept(desk: PendingQuestions, link: NotedLink) -> None:
    question = desk.ask("hi")
    desk.take(Taken(question.id, "m-1"))
    still = {"inbound_id": "m-1", "conversation": "main", "turn_id": "", "preview": "Kept. "}
    desk.take(News("reset", {"seq": 1, "open": [still]}))
    assert (question.preview, question.withdrawn) == ("Kept. ", False)
    desk.take(news("preview_update", at=6, text="More."))
    assert (question.preview, question.unheard) == ("Kept. More.", False)


def test_a_repeat_is_looked_up_because_its_events_may_have_passed(desk: PendingQuestions, link: NotedLink) -> None:
    question = desk.ask("hi")
    desk.take(Taken(question.id, "m-1", duplicate=True))
    assert link.looked == ["m-1"]


def test_refused_for_now_and_for_good(desk: PendingQuestions) -> None:
    question = desk.ask("hi")
    desk.take(News("store", {"why": "full"}))
    assert desk.take_store_problem() == "", "a message may yet get through"
    desk.take(Refused(question.id, "disk full", final=False))
    assert (question.trouble, question.ending, desk.untaken) == ("disk full", None, (question,))
    assert [desk.take_store_problem() for _ in range(2)] == ["full", ""]
    desk.take(Refused(question.id, "too large", final=True))
    assert question.ending == QuestionEnd("not taken", "too large")
    assert desk.take(Refused("unknown", "", final=True)) is desk.take(Taken("unknown", "m-2")) is None
    assert desk.take(Interrupted()) is None


def test_a_feed_in_order() -> None:
    feed = EventQueue()
    assert feed.get(0) is None
    feed.put(Connected())
    feed.put(Lost())
    assert [feed.get(0), feed.get(1), feed.get(0.01)] == [Connected(), Lost(), None]


def test_events_of_a_stream() -> None:
    lines = b': welcome\n\nid: b.1\nevent: reset\ndata: {}\n\n: still here\n\nid: b.2\nevent: x\ndata: {"a": 1}\n\n'
    assert list(parse_events(lines.splitlines(keepends=True))) == [
        ("b.1", News("reset", {})),
        ("b.2", News("x", {"a": 1})),
    ]


def test_sources_where_the_reply_names_none() -> None:
    moments = [datetime(2026, 1, 2, hour, tzinfo=UTC) for hour in (5, 3, 4)]
    facts = tuple(
        Fact(subject="AAPL", field="price", value=Decimal(1), as_of=moment, source="a feed") for moment in moments
    )
    view = OutcomeView(outcome="answered", reply="It is 1.", facts=facts)
    assert sources(view, ENGLISH) == ("source: a feed, as of 2026-01-02 03:00 UTC",)
    for told in ("It is 1 (source: a feed)", "1입니다. 출처: 피드"):
        assert sources(OutcomeView(outcome="answered", reply=told, facts=facts), ENGLISH) == ()


def test_history_is_kept_in_measure(tmp_path: Path) -> None:
    history = LineHistory(tmp_path)
    assert [history.add(text) for text in ("하나", "하나", "two\nlines")] == [True, False, True]
    assert not history.add("/quit")
    with (tmp_path / "chat_history").open("ab") as file:
        file.write(b'{"not": "text"}\n"cut sho')
    assert LineHistory(tmp_path).lines == ["하나", "two\nlines"]
    for number in range(2 * KEPT):
        history.add(str(number))
    assert len(LineHistory(tmp_path).lines) == KEPT
    assert len((tmp_path / "chat_history").read_text().splitlines()) == KEPT
    assert LineHistory(tmp_path / "missing").add("not kept, not fatal")


# ── what nobody asked for ───────────────────────────────────────────────────────────────────────────────────


def told(inbound_id: str, text: str | None = "a card", session: str = SESSION, *, unasked: bool = True) -> News:
    return news("outcome", inbound_id, outcome="command", reason="", reply=text, session=session, unasked=unasked)


@pytest.mark.spec("DX-22")
def test_what_is_told_unasked_is_shown_once(desk: PendingQuestions) -> None:
    assert desk.take(told("m-7")) == UnsolicitedMessage("m-7", "a card")
    assert desk.take(told("m-7")) is None
    assert desk.take(UnsolicitedMessage("m-7", "a card")) is None
    assert desk.take(UnsolicitedMessage("m-8", "missed")) == UnsolicitedMessage("m-8", "missed")
    assert desk.take(told("m-9", None)) is None  # it came to nothing


def test_what_others_are_told_or_ask_themselves_is_not(desk: PendingQuestions) -> None:
    assert desk.take(told("m-7", session="main:web:owner:direct:main+owner%2Fkim")) is None
    assert desk.take(told("m-8", unasked=False)) is None


def test_a_bookmark_outlives_the_chat(tmp_path: Path) -> None:
    first = ReadMarker("main", tmp_path)
    assert first.after is None
    assert [first.tell(each) for each in ("m-2", "m-2", "m-3")] == [True, False, True]
    first.move("m-1", {"m-3"})
    ReadMarker("desk", tmp_path).move("m-9", ())
    again = ReadMarker("main", tmp_path)
    assert (again.after, again.tell("m-3"), again.tell("m-2")) == ("m-1", False, True)
    assert (tmp_path / "chat_seen").stat().st_mode & 0o777 == 0o600
    (tmp_path / "chat_seen").write_bytes(b'{"main": {"aft')
    assert ReadMarker("main", tmp_path).after is None
    lost = ReadMarker("main", tmp_path / "missing")
    lost.move("m-1", ())
    assert (lost.tell("m-2"), lost.tell("m-2"), lost.after) == (True, False, "m-1")


def test_catching_up_moves_the_bookmark(link: NotedLink) -> None:
    bookmark = ReadMarker("main")
    desk = PendingQuestions(link, "main", Unread(SESSION, bookmark))
    desk.take(told("m-2"))
    desk.take(told("m-4"))
    for item in (
        UnsolicitedMessage("m-3", "missed"),
        UnsolicitedMessage("m-4", "a card"),
        CaughtUp("m-2", frozenset({"m-3", "m-4"})),
    ):
        desk.take(item)
    assert bookmark.after == "m-2"
    assert [bookmark.tell(each) for each in ("m-3", "m-4")] == [False, False]


# ── what nobody wants any more ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("DX-25")
def test_stopping_waits_for_the_receipt_and_outlives_a_restart(desk: PendingQuestions, link: NotedLink) -> None:
    question = desk.ask("hi")
    desk.stop(question)
    assert (link.stopped, desk.on_its_way) == ([], True)
    desk.take(Taken(question.id, "m-1"))
    assert link.stopped == ["m-1"]
    desk.take(Lost())
    desk.take(Connected())
    assert (link.stopped, desk.on_its_way) == (["m-1", "m-1"], True)
    desk.take(news("outcome", outcome="stopped", reason="", reply="Stopped."))
    assert (question.ending, desk.on_its_way) == (QuestionEnd("stopped", "", "Stopped."), False)


def test_one_that_the_gateway_will_not_stop(desk: PendingQuestions) -> None:
    question = desk.ask("hi")
    desk.take(Taken(question.id, "m-1"))
    desk.stop(question)
    assert desk.take(NotStopped("m-1", "its answer is on its way")) is question
    assert (question.unstoppable, desk.on_its_way) == ("its answer is on its way", False)
    assert desk.take(NotStopped("m-9", "")) is None
