"""The questions that were asked, and what has become of them: which event belongs to which question.

Unsolicited messages belong to none; they come through `Unread`.

A question is never given up: until the gateway has taken it the link sends it again under its one id, and when its
events may have been missed (the line broke, the gateway started anew) it is looked up until it has ended.
"""

from typing import Any

from msgspec import Struct

from finclaw.cli.chat.event_queue import (
    Connected,
    Item,
    Lost,
    News,
    NotStopped,
    Refused,
    Seen,
    Taken,
    UnsolicitedMessage,
)
from finclaw.cli.chat.gateway_link import GatewayLink
from finclaw.cli.chat.unread import Unread
from finclaw.ids import new_id
from finclaw.web.principal import MessageBody


class QuestionEnd(Struct, frozen=True):
    """The end of a question."""

    outcome: str
    """As the gateway recorded it, or `not taken`: it refused the message for good."""
    reason: str = ""
    reply: str | None = None
    is_markdown: bool = False
    """Else every sign of the reply is meant, as in a request for an approval."""


class PendingQuestion(Struct):
    """A message of the person, and what is known of its answer."""

    id: str
    text: str
    inbound_id: str = ""
    """Empty until the gateway has taken it."""
    preview: str = ""
    tool: str = ""
    """The tool that is at work."""
    trouble: str = ""
    """Why the gateway could not take it yet."""
    unheard: bool = False
    """Its events may have passed us by; ask for its end."""
    withdrawn: bool = False
    """Its preview is gone with the gateway that was making it."""
    stopping: bool = False
    """The person does not want the answer any more."""
    unstoppable: str = ""
    """Why the gateway answers it all the same."""
    ending: QuestionEnd | None = None
    shown: bool = False
    """The person has been shown how it ended."""

    @property
    def is_over(self) -> bool:
        """Whether there is nothing to wait for any more."""
        return self.ending is not None or bool(self.unstoppable)

    def was_answered_with(self, other: "PendingQuestion") -> bool:
        """Whether it joined the other one; the reason of its end names that one by its id."""
        end = self.ending
        return end is not None and end.outcome == "joined" and other.inbound_id != "" and other.inbound_id in end.reason


class PendingQuestions:
    """The questions that have not ended; events are applied to them."""

    def __init__(self, link: GatewayLink, conversation: str, unread: Unread) -> None:
        self.connected = True
        self.lost_because = ""
        self.seen: Seen | None = None
        """The answer to the latest look-up."""
        self._unwritable = self._told_unwritable = ""
        self._link = link
        self._conversation = conversation
        self._unread = unread
        self._open: dict[str, PendingQuestion] = {}
        self._by_inbound: dict[str, PendingQuestion] = {}
        self._early: dict[str, list[News]] = {}
        """Events that were faster than the receipt that would say whose they are."""

    @property
    def untaken(self) -> tuple[PendingQuestion, ...]:
        return tuple(each for each in self._open.values() if not each.inbound_id)

    @property
    def open(self) -> tuple[PendingQuestion, ...]:
        return tuple(self._open.values())

    @property
    def on_its_way(self) -> bool:
        """Whether the gateway has yet to hear, or to heed, something that was said."""
        return any(not each.inbound_id or (each.stopping and not each.unstoppable) for each in self._open.values())

    def ask(self, text: str, model: str | None = None) -> PendingQuestion:
        """`model`: the one that is to answer; None leaves it to the settings."""
        question = PendingQuestion(new_id(), text)
        self._open[question.id] = question
        self._link.say(MessageBody(message_id=question.id, conversation=self._conversation, text=text, model=model))
        return question

    def stop(self, question: PendingQuestion) -> None:
        """Have the gateway stop answering; if it has not taken the message yet, as soon as it has."""
        question.stopping = True
        if question.inbound_id:
            self._link.stop(question.inbound_id)

    def take(self, item: Item) -> PendingQuestion | UnsolicitedMessage | None:
        """Returns the question that this changed, or what is to be shown though nobody asked."""
        return self._unread.take(item) or self._change(item)

    def _change(self, item: Item) -> PendingQuestion | None:
        match item:
            case Taken():
                return self._note_accepted(item)
            case Refused(message_id=message_id, reason=reason, final=final):
                return self._note_refusal(self._open.get(message_id), reason, final=final)
            case News(type="store", data={"why": str(why)}):
                self._unwritable = why
            case News():
                return self._reset(item.data) if item.type == "reset" else self._note_event(item)
            case Seen():
                return self._note_look_up(item)
            case NotStopped(inbound_id=inbound_id, reason=reason):
                return self._note_not_stopped(self._by_inbound.get(inbound_id), reason)
            case Connected():
                self.connected = True
                self._mark_unheard()
            case Lost(reason=reason):
                self.connected, self.lost_because = False, reason
            case _:
                pass
        return None

    def take_store_problem(self) -> str:
        """Why no answer can be recorded now, once in each outage while one is awaited; else empty."""
        waits = any(each.inbound_id or each.trouble for each in self._open.values())
        if not waits or self._unwritable == self._told_unwritable:
            return ""
        self._told_unwritable = self._unwritable
        return self._unwritable

    def tick(self) -> None:
        """To be called now and then while something is awaited."""
        for question in self._by_inbound.values():
            if question.unheard and self.connected:
                self._link.look(question.inbound_id)

    # ── what an item does ───────────────────────────────────────────────────────────────────────────────────

    def _note_accepted(self, item: Taken) -> PendingQuestion | None:
        question = self._open.get(item.message_id)
        if question is None:
            return None
        question.inbound_id, question.trouble, question.unheard = item.inbound_id, "", item.duplicate
        self._by_inbound[item.inbound_id] = question
        early = self._early.pop(item.inbound_id, ())
        if not self.untaken:
            self._early.clear()  # the rest is of others who write in this conversation
        for news in early:
            self._note_event(news)
        if question.stopping and question.ending is None:
            self._link.stop(item.inbound_id)
        self.tick()
        return question

    def _note_refusal(self, question: PendingQuestion | None, reason: str, *, final: bool) -> PendingQuestion | None:
        if question is None:
            return None
        question.trouble = reason
        return self._end(question, QuestionEnd("not taken", reason)) if final else question

    def _note_look_up(self, seen: Seen) -> PendingQuestion | None:
        self.seen, view = seen, seen.view
        if view is None or view.state != "ended" or view.inbound_id not in self._by_inbound:
            return None
        ending = QuestionEnd(str(view.outcome), view.reason, view.reply, view.is_markdown)
        return self._end(self._by_inbound[view.inbound_id], ending)

    def _note_not_stopped(self, question: PendingQuestion | None, reason: str) -> PendingQuestion | None:
        if question is not None:
            question.unstoppable = reason
        return question

    def _note_event(self, news: News) -> PendingQuestion | None:
        inbound_id = str(news.data.get("inbound_id", ""))
        question = self._by_inbound.get(inbound_id)
        if question is None:
            if self.untaken:
                self._early.setdefault(inbound_id, []).append(news)
            return None
        self._apply(question, news.type, news.data)
        return question

    def _apply(self, question: PendingQuestion, kind: str, data: dict[str, Any]) -> None:
        question.unheard = False  # the stream knows it, so the rest will come
        if kind == "preview_update":
            question.preview = question.preview[: int(data["at"])] + str(data["text"])
            question.tool = ""
        elif kind == "tool_progress":
            question.tool = str(data["tool"]) if data["state"] == "started" else ""
        elif kind == "outcome":
            is_markdown = bool(data.get("is_markdown"))
            self._end(question, QuestionEnd(str(data["outcome"]), str(data["reason"]), data["reply"], is_markdown))

    def _reset(self, data: dict[str, Any]) -> PendingQuestion | None:
        """The stream begins anew. A preview lives on only if the gateway still has it."""
        self._unwritable = str(data.get("store", {}).get("why", ""))
        previews = {str(each["inbound_id"]): str(each["preview"]) for each in data["open"]}
        changed: PendingQuestion | None = None
        for inbound_id, question in self._by_inbound.items():
            known = previews.get(inbound_id, "")
            question.withdrawn = question.withdrawn or bool(question.preview and not known)
            question.preview, question.tool = known, ""
            changed = question
        self._mark_unheard()
        return changed

    def _mark_unheard(self) -> None:
        for question in self._by_inbound.values():
            question.unheard = True
            if question.stopping:  # a gateway that started anew does not know that nobody wants it
                self._link.stop(question.inbound_id)
        self.tick()

    def _end(self, question: PendingQuestion, ending: QuestionEnd) -> PendingQuestion:
        question.ending = ending
        self._open.pop(question.id, None)
        self._by_inbound.pop(question.inbound_id, None)
        return question
