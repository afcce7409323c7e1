"""The log of one turn: on disk before anything acts upon it, so that after a crash the turn resumes from it."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from msgspec import ValidationError, convert, to_builtins
from msgspec.structs import replace

from finclaw.agent.budget.call_ledger import CallCost, CallLedger, OpenCall, Payer, from_metadata, measured_size
from finclaw.agent.window.tokens import characters_of
from finclaw.errors import ExtensionError
from finclaw.ids import new_id
from finclaw.kernel.chunk import Usage
from finclaw.kernel.envelope import Outbound
from finclaw.kernel.fact import Fact
from finclaw.kernel.message import (
    Append,
    Block,
    Message,
    MessageEvent,
    Patch,
    Remove,
    Replace,
    Source,
    ToolCall,
    ToolEnded,
    ToolFailure,
    ToolResult,
    ToolStarted,
    Truncate,
    TurnEvent,
)
from finclaw.kernel.record import Accepted, Claim, OutboxItem, Spend, TextRange, TurnCalls
from finclaw.kernel.scope import ToolUse, TurnResult, TurnStatus
from finclaw.kernel.store_port import ConversationStore
from finclaw.sessions.steering import Steering
from finclaw.taint.sources import remember_note, remember_taint, sources_in, sources_read
from finclaw.tools.outbound_files import distinct_files
from finclaw.tools.result_guard import guard_result
from finclaw.transcript.conversation import Conversation
from finclaw.transcript.integrity import ABORTED

MOST_FROM_LAYERS: Final = 10_000  # in one turn; more come from a layer in a loop

APPROVED: Final = "approved-"  # begins the id of a call that no model made

_NOTHING: Final = Decimal(0)


class TurnLog:
    def __init__(
        self, store: ConversationStore, claim: Claim, conversation: Conversation, payer: Payer | None = None
    ) -> None:
        self._store = store
        self.ledger = CallLedger(claim, payer or Payer())
        self.claim = claim
        self._logged = len(claim.events)
        self._offset = conversation.length
        self.conversation = conversation  # changed through this log alone
        self.changed: dict[str, dict[str, Any]] = {}  # arguments that layers have changed, by call
        self.pending_results: dict[str, ToolResult] = {}  # not in the log yet, by call
        self.side_costs: list[CallCost] = []  # of calls without an answer to keep it with
        self.trying: Sequence[CallCost] = ()  # of the question that is being asked
        self._answer_costs: list[CallCost] = []  # in the order of the answers
        self.steering: Steering | None = None  # where messages come from that join it
        self.items: list[OutboxItem] = list(claim.items)  # not to be said again
        self.previewed: TextRange | None = None  # of which answer, and as it is seen
        self.shown_preview: Outbound | None = None
        self.told_action = ""
        """The gateway's own line before the answer: how an approved action ended, or that the session is new."""
        self._notes: tuple[str, ...] = ()  # ids of its transient messages
        self._open_to_layers = True
        self._from_layers = 0
        # What the log tells, fifty times a turn. Only the log itself adds to it, with each event.
        self.messages: list[Message] = []
        self.answers: list[Message] = []  # by the model, one message a step
        self.results: list[ToolResult] = []  # of the core; a layer's are no evidence
        self.waits = False  # for a person's decision
        self.started: set[str] = set()  # not to begin again; transactional or approved
        self.ended: dict[str, ToolResult] = {}  # results that were kept at once, by call
        for event in conversation.events_from(0):
            self._read(event)
        if self.preview is not None:
            self.previewed = TextRange(len(self.answers), 0, self.preview.outbound.text)
        if not claim.booked:
            self.ledger.add_unbooked(map(from_metadata, self.answers))

    def push(self, event: TurnEvent) -> None:
        """Count an event in now; it reaches the disk with the next commit, at the latest with Finish."""
        self.conversation.push(event)
        self._read(event)
        if self._is_about_note(event) and (sources := tuple(sources_in(event))):
            # The fold drops a transient message, and keeps what the model answered to it.
            known = remember_note(self.conversation, sources, self.messages[0].id)
            if known is not None:
                self.conversation.push(known)

    def push_from_layer(self, event: MessageEvent) -> None:
        if not self._open_to_layers:
            raise ExtensionError("a layer emitted a message event after its turn had ended; emit before you return")
        self._from_layers += 1
        if self._from_layers > MOST_FROM_LAYERS:
            raise ExtensionError(f"layers emitted over {MOST_FROM_LAYERS} message events in one turn; emit fewer")
        before: tuple[str, ...] = ()
        if not isinstance(event, Append):
            before = sources_read(self.conversation.next_messages)
        self.push(as_layer_event(event))
        # Nobody takes away that strangers' words were read by taking away the words.
        if before and (known := remember_taint(self.conversation, before)) is not None:
            self.conversation.push(known)

    def _is_about_note(self, event: TurnEvent) -> bool:
        match event:
            case Append(message):
                return bool(message.passing)
            case Replace(target) | Patch(target):
                return target in self._notes
            case _:
                return False

    def close_to_layers(self) -> None:
        """The turn's layers have returned: what is folded from here on is what they have left."""
        self._open_to_layers = False

    @property
    def unlogged(self) -> tuple[TurnEvent, ...]:
        return self.conversation.events_from(self._offset)

    async def commit(self) -> None:
        if events := self.unlogged:
            await self._record(events)

    async def _record(self, events: tuple[TurnEvent, ...]) -> None:
        is_committed = False
        calls, booked = self.ledger.take((*self.side_costs, *self.trying))

        def committed() -> None:  # counted by the commit itself: a caller cut off meanwhile must not log them twice
            nonlocal is_committed
            is_committed = True
            self._logged += len(events)
            self._offset += len(events)

        try:
            await self._store.record(self.claim, self._logged, events, committed, calls)
        finally:
            if not is_committed:
                self.ledger.give_back(booked)

    async def join(self, accepted: Accepted, words: Message) -> bool:
        """Take a later message in: on disk before the model sees it. False: it has a turn of its own."""
        self.push(Append(words))
        events = self.unlogged
        is_joined = False

        def committed() -> None:
            self._logged += len(events)
            self._offset += len(events)

        try:
            is_joined = await self._store.join(self.claim, accepted, self._logged, events, committed)
            return is_joined
        finally:
            if not is_joined:  # also where the turn was stopped during the commit: nobody has taken it in then
                self.push(Remove(words.id))

    @property
    def is_steered(self) -> bool:
        return self.steering is not None and self.steering.is_asked_for()

    async def begin_call(self, most: Spend) -> OpenCall:
        """Returns when the most that the call may cost is on disk; before that its request must not leave."""
        call = self.ledger.begin(most)
        try:
            if not call.on_disk:
                await self._record(())  # no events: others may be on their way with them
        except BaseException:
            self.ledger.end(call, None)
            raise
        return call

    def put_back(self) -> TurnCalls:
        """What its model calls come to for the process that will resume the turn, by the log on disk."""
        lost = len(self.answers) - sum(_is_answer(event) for event in self.unlogged)
        return self.ledger.put_back((*self.side_costs, *self.trying, *map(from_metadata, self.answers[lost:])))

    def _read(self, event: TurnEvent) -> None:
        match event:
            case Append(message):
                self._read_message(message)
            case Replace(target, message) if target in self._notes:
                self._notes += (message.id,)
            case ToolStarted(call_id, transactional=True):
                self.started.add(call_id)
            case ToolEnded(result):
                if result.call_id.startswith(APPROVED):  # no message of the turn will tell of it
                    self._read_results([result])
                self.ended[result.call_id] = result
            case _:
                pass

    def _read_message(self, message: Message) -> None:
        self.messages.append(message)
        if message.passing:
            self._notes += (message.id,)
        if message.source.kind == "assistant":
            self.answers.append(message)
            self.trying = ()
        elif message.source.kind == "tool":
            self._read_results(message.tool_results)

    async def known_facts(self) -> Sequence[Fact]:
        """What tools have told this session, the newest first: in this turn, and in those before it."""
        now = [fact for result in (*self.results, *self.pending_results.values()) for fact in result.facts]
        before = await self._store.facts(self.claim.session)
        return tuple(dict.fromkeys((*reversed(now), *(each.fact for each in before))))

    def _read_results(self, results: Sequence[ToolResult]) -> None:
        self.results += results
        self.waits = self.waits or any(result.status == "awaiting" for result in results)

    def history(self) -> Iterable[tuple[str, dict[str, Any], str]]:
        """Name, arguments and result of every call that has one, in order."""
        calls = {call.id: call for message in self.messages for call in message.tool_calls}
        for result in self.results:
            call = calls.get(result.call_id)
            if call is not None and result.status != "skipped":
                yield call.name, call.given_args, result.content

    def unanswered(self) -> tuple[Message, tuple[ToolCall, ...]] | None:
        """The last assistant message and those of its calls that have no result: what a crash or a stop left open."""
        if not self.answers:
            return None
        answered = {result.call_id for result in self.results}
        open_calls = tuple(call for call in self.answers[-1].tool_calls if call.id not in answered)
        if not open_calls:
            return None
        return self.answers[-1], open_calls

    def unseen(self) -> tuple[Message, tuple[ToolResult, ...]] | None:
        """The last step of a resumed turn, if the log ended with its results: its layers may not have seen them."""
        if not self.claim.events or not self.answers:
            return None
        last = self.claim.events[-1]
        if not isinstance(last, Append) or last.message.source.kind != "tool":
            return None
        return self.answers[-1], last.message.tool_results

    @property
    def preview(self) -> OutboxItem | None:
        """The message that shows the answer while it is made, also one of which nobody knows whether it is shown."""
        previews = (each for each in reversed(self.items) if each.is_preview)
        return next((each for each in previews if each.state != "superseded" or each.doubts), None)

    @property
    def has_answered(self) -> bool:
        return any(item.span is not None for item in self.items)

    def sent_text(self, answer: int) -> str:
        """The beginning of this answer of the model that is in the outbox, in the model's own words."""
        return "".join([item.span.text for item in self.items if item.span and item.span.answer == answer])

    def seen_text(self, answer: int) -> str:
        """The same as the person sees it: with the model's white space between the blocks."""
        shown: list[str] = []
        for item in self.items:
            if item.span is None or item.span.answer != answer or item.state == "superseded":
                continue
            body = item.span.text.strip()
            before = "\n"
            after = ""
            if body:
                before, _, after = item.span.text.partition(body)
            shown.append(f"{before}{item.outbound.text}{after}")
        return "".join(shown)

    def paid_calls(self) -> Sequence[CallCost]:
        """Every call that was paid for, but for those of earlier processes that gave no answer."""
        self._answer_costs += map(from_metadata, self.answers[len(self._answer_costs) :])
        return (*self._answer_costs, *self.side_costs)

    def usage(self) -> Usage:
        return sum((each.usage for each in (*self.paid_calls(), *self.ledger.before)), Usage())

    def cost(self) -> Decimal:
        if not self.answers and not self.side_costs and not self.ledger.before:
            return _NOTHING
        return sum((each.cost for each in (*self.paid_calls(), *self.ledger.before)), Decimal(0))

    def build_result(
        self,
        status: TurnStatus,
        text: str,
        metadata: dict[str, Any] | None = None,
        ms: float = 0.0,
        asked: Sequence[str] = (),
    ) -> TurnResult:
        """Figures, tools and spend come from the log alone: a crash loses none, and no layer makes one up."""
        result = TurnResult(
            status=status,
            text=text,
            asked=tuple(asked),
            steps=len(self.answers),
            usage=self.usage(),
            cost=self.cost(),
            messages=tuple(self.messages),
            duration_ms=ms,
            model="".join(str(answer.metadata.get("model", "")) for answer in self.answers[-1:]),
            metadata=metadata or {},
        )
        if not self.results:
            return result
        return replace(
            result,
            tools=tuple(ToolUse(result.name, result.status) for result in self.results),
            facts=tuple(fact for result in self.results for fact in result.facts),
            buttons=self.results[-1].actions,
            files=distinct_files(file for result in self.results for file in result.files),
        )


def _is_answer(event: TurnEvent) -> bool:
    return isinstance(event, Append) and event.message.source.kind == "assistant"


def context_tokens(log: TurnLog) -> int:
    """The size of the conversation behind this turn, as its model measured it; what nobody measured is estimated."""
    since = 0
    for message in reversed(log.messages):
        if measured := measured_size(message):
            return measured + since
        since += characters_of(message)
    return log.claim.context + since


def as_layer_event(event: MessageEvent) -> MessageEvent:
    """Tame an event of a layer, which could pass its words off as the model's, or figures in them as facts."""
    match _well_formed(event):
        case Append(message):
            return Append(_tame(message))
        case Replace(target, message):
            return Replace(target, _tame(message, keep_source=True))
        case Remove() | Truncate() | Patch() as event:
            return event


def _well_formed(event: MessageEvent) -> MessageEvent:
    """Copy it as it would be read back: what cannot be read again would close the session for ever."""
    if not isinstance(event, MessageEvent):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ExtensionError(f"a layer emitted {type(event).__name__}; it may emit message events only")
    try:
        return convert(to_builtins(event), MessageEvent)
    except (TypeError, ValidationError) as error:
        raise ExtensionError(f"a layer emitted a message event that cannot be kept: {error}") from error


def _tame(message: Message, *, keep_source: bool = False) -> Message:
    source = message.source
    if not keep_source and source.kind not in ("extension", "system"):
        source = Source("extension", source.id, source.name)
    return replace(message, source=source, blocks=tuple(map(_tame_block, message.blocks)))


def _tame_block(block: Block) -> Block:
    if not isinstance(block, ToolResult):
        return block
    return replace(block, content=guard_result(block.content), facts=(), files=(), actions=())


def unknown_outcome(call_id: str, name: str) -> ToolResult:
    """For a transactional call that had begun and came to no known end. It is never begun again to find out."""
    text = "it is unknown whether this happened: it began and was cut off. Do not repeat it: tell the person and ask."
    return ToolResult(call_id, name, text, "unknown", error=ToolFailure("UnknownOutcome", text, code="unknown_outcome"))


def last_known_result(log: TurnLog, call: ToolCall) -> ToolResult:
    """Of a call that had begun and must not begin again: its own result if it was kept, else that nobody knows."""
    return log.ended.get(call.id) or unknown_outcome(call.id, call.name)


def find_unknown_calls(log: TurnLog) -> tuple[str, ...]:
    if not log.started:
        return ()
    results = (*log.results, *log.pending_results.values(), *log.ended.values())
    known = {result.call_id: result.status for result in results}
    started = (event for event in log.conversation.events_from(0) if isinstance(event, ToolStarted))
    cut_off = (each for each in started if known.get(each.call_id, "unknown") == "unknown")
    return tuple(dict.fromkeys(each.name for each in cut_off if each.call_id in log.started))


def answer_open_calls(log: TurnLog, now: datetime) -> None:
    """A layer may catch the error that cut a step off, and answer in its own words: then its calls are still open."""
    left_open = log.unanswered()
    if left_open is not None:
        _, calls = left_open
        results = tuple(_result_of_open_call(log, call) for call in calls)
        log.push(Append(Message(new_id(), "tool", results, Source("tool"), now)))


def _result_of_open_call(log: TurnLog, call: ToolCall) -> ToolResult:
    """A call may have finished while another was running, and one that moves money may have done so unseen."""
    if call.id in log.pending_results:
        return log.pending_results[call.id]
    if call.id in log.started:
        return last_known_result(log, call)
    return ToolResult(call.id, call.name, ABORTED, status="skipped")
