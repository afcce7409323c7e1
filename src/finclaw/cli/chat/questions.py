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
        """Return the question that this changed, or what is to be shown though nobody asked."""
        return self._unread.take(item) or self._change(item)

    def _change(self, item: Item) -> PendingQuestion | None:
        match item:
            case Taken():
                return self._note_accepted(item)
            case Refused():
                return self._note_refusal(item)
            case News():
                return self._note_event(item.type, item.data)
            case Seen():
                return self._note_look_up(item)
            case NotStopped(inbound_id=inbound_id, reason=reason) if inbound_id in self._by_inbound:
                self._by_inbound[inbound_id].unstoppable = reason
                return self._by_inbound[inbound_id]
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
        if question.stopping:
            self._link.stop(item.inbound_id)
        self.tick()
        return question

    def _note_refusal(self, item: Refused) -> PendingQuestion | None:
        question = self._open.get(item.message_id)
        if question is not None:
            question.trouble = item.reason
            if item.final:
                self._end(question, QuestionEnd("not taken", item.reason))
        return question

    def _note_look_up(self, seen: Seen) -> PendingQuestion | None:
        self.seen, view = seen, seen.view
        if view is None or view.state != "ended" or view.inbound_id not in self._by_inbound:
            return None
        question = self._by_inbound[view.inbound_id]
        self._end(question, QuestionEnd(str(view.outcome), view.reason, view.reply, view.is_markdown))
        return question

    def _note_event(self, kind: str, data: dict[str, Any]) -> PendingQuestion | None:
        if kind == "store":
            self._unwritable = str(data["why"])
        elif kind == "reset":
            self._reset(data)
        question = self._by_inbound.get(str(data.get("inbound_id", "")))
        if question is None:  # of others who write in this conversation
            return None
        question.unheard = False  # the stream knows it, so the rest will come
        match kind:
            case "preview_update":
                question.preview = question.preview[: int(data["at"])] + str(data["text"])
                question.tool = ""
            case "tool_progress":
                question.tool = str(data["tool"]) if data["state"] == "started" else ""
            case "outcome":
                is_markdown = bool(data.get("is_markdown"))
                ending = QuestionEnd(str(data["outcome"]), str(data["reason"]), data["reply"], is_markdown)
                self._end(question, ending)
            case _:
                pass
        return question

    def _reset(self, data: dict[str, Any]) -> None:
        """Begin again with the stream. A preview lives on only if the gateway still has it."""
        self._unwritable = str(data.get("store", {}).get("why", ""))
        previews = {str(each["inbound_id"]): str(each["preview"]) for each in data["open"]}
        for inbound_id, question in self._by_inbound.items():
            known = previews.get(inbound_id, "")
            question.withdrawn = question.withdrawn or bool(question.preview and not known)
            question.preview = known
            question.tool = ""
        self._mark_unheard()

    def _mark_unheard(self) -> None:
        for question in self._by_inbound.values():
            question.unheard = True
            if question.stopping:  # a gateway that was started again does not know it
                self._link.stop(question.inbound_id)
        self.tick()

    def _end(self, question: PendingQuestion, ending: QuestionEnd) -> None:
        question.ending = ending
        self._open.pop(question.id, None)
        self._by_inbound.pop(question.inbound_id, None)
