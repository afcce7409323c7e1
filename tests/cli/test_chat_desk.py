"""Which event belongs to which question, in whatever order things come."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from finclaw.cli.chat.desk import Desk, Ending
from finclaw.cli.chat.feed import Connected, Feed, Interrupted, Lost, News, Refused, Seen, Taken
from finclaw.cli.chat.history import KEPT, History
from finclaw.cli.chat.remote import events
from finclaw.cli.chat.sources import sources
from finclaw.cli.chat.words import ENGLISH
from finclaw.kernel.fact import Fact
from finclaw.web.principal import MessageBody
from finclaw.web.view import MessageView, OutcomeView


class NotedLink:
    """Notes what it is asked to do."""

    url: str | None = None
    market = "demo"

    def __init__(self) -> None:
        self.said: list[MessageBody] = []
        self.looked: list[str | None] = []

    def say(self, body: MessageBody) -> None:
        self.said.append(body)

    def look(self, inbound_id: str | None) -> None:
        self.looked.append(inbound_id)

    def close(self) -> None:
        pass


@pytest.fixture
def link() -> NotedLink:
    return NotedLink()


@pytest.fixture
def desk(link: NotedLink) -> Desk:
    return Desk(link, "main")


def news(kind: str, inbound_id: str = "m-1", **data: Any) -> News:
    return News(kind, {"inbound_id": inbound_id, **data})


def outcome(reply: str, inbound_id: str = "m-1") -> News:
    return news("outcome", inbound_id, outcome="answered", reason="", reply=reply)


def test_an_answer_grows_and_ends(desk: Desk, link: NotedLink) -> None:
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
    assert question.ending == Ending("answered", "", "Anew. End.")
    assert not desk.open


def test_events_may_be_faster_than_the_receipt(desk: Desk) -> None:
    question = desk.ask("hi")
    desk.take(news("preview_update", at=0, text="Early."))
    desk.take(outcome("somebody else's", "m-9"))
    desk.take(outcome("Early."))
    desk.take(Taken(question.id, "m-1"))
    assert question.ending == Ending("answered", "", "Early.")


def test_others_in_the_conversation_are_none_of_ours(desk: Desk) -> None:
    assert desk.take(outcome("theirs", "m-9")) is None
    question = desk.ask("hi")
    desk.take(Taken(question.id, "m-1"))
    assert desk.take(outcome("theirs", "m-9")) is None
    assert question.ending is None


def test_a_broken_line_makes_it_look_until_the_message_ended(desk: Desk, link: NotedLink) -> None:
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


def test_a_preview_the_gateway_still_has_is_kept(desk: Desk, link: NotedLink) -> None:
    question = desk.ask("hi")
    desk.take(Taken(question.id, "m-1"))
    still = {"inbound_id": "m-1", "conversation": "main", "turn_id": "", "preview": "Kept. "}
    desk.take(News("reset", {"seq": 1, "open": [still]}))
    assert (question.preview, question.withdrawn) == ("Kept. ", False)
    desk.take(news("preview_update", at=6, text="More."))
    assert (question.preview, question.unheard) == ("Kept. More.", False)


def test_a_repeat_is_looked_up_because_its_events_may_have_passed(desk: Desk, link: NotedLink) -> None:
    question = desk.ask("hi")
    desk.take(Taken(question.id, "m-1", duplicate=True))
    assert link.looked == ["m-1"]


def test_refused_for_now_and_for_good(desk: Desk) -> None:
    question = desk.ask("hi")
    desk.take(Refused(question.id, "disk full", final=False))
    assert (question.trouble, question.ending, desk.untaken) == ("disk full", None, (question,))
    desk.take(Refused(question.id, "too large", final=True))
    assert question.ending == Ending("not taken", "too large")
    assert desk.take(Refused("unknown", "", final=True)) is desk.take(Taken("unknown", "m-2")) is None
    assert desk.take(Interrupted()) is None


def test_a_feed_in_order() -> None:
    feed, told = Feed(), list[str]()
    assert feed.get(0) is None
    feed.on_news = lambda: told.append("told")
    feed.put(Connected())
    feed.put(Lost())
    assert [feed.get(0), feed.get(1), feed.get(0.01)] == [Connected(), Lost(), None]
    assert (told, feed.empty) == (["told", "told"], True)


def test_events_of_a_stream() -> None:
    lines = b': welcome\n\nid: b.1\nevent: reset\ndata: {}\n\n: still here\n\nid: b.2\nevent: x\ndata: {"a": 1}\n\n'
    assert list(events(lines.splitlines(keepends=True))) == [("b.1", News("reset", {})), ("b.2", News("x", {"a": 1}))]


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
    history = History(tmp_path)
    assert [history.add(text) for text in ("하나", "하나", "two\nlines")] == [True, False, True]
    with (tmp_path / "chat_history").open("ab") as file:
        file.write(b'{"not": "text"}\n"cut sho')
    assert History(tmp_path).lines == ["하나", "two\nlines"]
    for number in range(2 * KEPT):
        history.add(str(number))
    assert len(History(tmp_path).lines) == KEPT
    assert len((tmp_path / "chat_history").read_text().splitlines()) == KEPT
    assert History(tmp_path / "missing").add("not kept, not fatal")
