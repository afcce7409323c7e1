"""Stage 8, deliver: the reply passes its ring and the last filter, is frozen into outbox items, and the turn ends.

The outcome of a message, its part of the conversation and its outbox items are one commit.
"""

import asyncio
import logging
from datetime import datetime
from functools import partial
from itertools import takewhile
from typing import Final, NamedTuple

from msgspec.structs import replace

from finclaw.agent.turn_state.turn_log import TurnLog, answer_open_calls, context_tokens
from finclaw.approvals.messages import CARDS
from finclaw.cancellation import asked_to_stop
from finclaw.delivery.links import SafeLinks
from finclaw.delivery.notice import Notice, make_notice, notice
from finclaw.delivery.visible import Visible, apply_visibility_checks, make_visible
from finclaw.errors import BlobRefused, SessionError, StoreFailed, Superseded
from finclaw.kernel.envelope import Capabilities, Outbound, new_id
from finclaw.kernel.message import NOTES, Append, Message, Remove, Replace, Source, Text
from finclaw.kernel.record import Finish, JoinedOutcome, OutboxItem, Spend
from finclaw.kernel.scope import DeliveryContext, DraftKind, Outcome, TurnResult, TurnStatus
from finclaw.kernel.store_port import Store, retry_until_committed
from finclaw.pipeline.early_delivery import EarlyDelivery
from finclaw.pipeline.message_run import MessageRun
from finclaw.taint.sources import sources_met
from finclaw.tools.control_tokens import ExtractedTokens, extract_control_tokens, is_silent
from finclaw.tools.outbound_files import keep_files
from finclaw.transcript.conversation import RecentConversations

log = logging.getLogger(__name__)

NOTICE_PATIENCE: Final = 30.0
"""Seconds that delivery layers get for a notice; one that never comes back must not hold the lane."""
MOST_PARTS: Final = 1_000
"""Of one answer. Nobody reads more, and the outbox has no room for them."""


class Deliver:
    def __init__(self, store: Store, recent: RecentConversations, early: EarlyDelivery) -> None:
        self._store = store
        self._recent = recent
        self._ring = early.ring
        self._sender = early.sender
        self._channels = early.channels
        self._clock = early.clock
        self._checks = early.checks
        self._get_options = early.get_options
        self.follow = early.follow

    async def answer(self, run: MessageRun, turn: TurnLog, result: TurnResult) -> Outcome:
        """Finish the turn with its reply. After this commit the message is answered, whatever happens next."""
        tokens = extract_control_tokens(result.text)
        rest = _find_rest(turn, result.text, tokens)
        outbound = Outbound(
            text=rest.text,
            reply_to=run.reply_to,
            thread=run.inbound.thread,
            attachments=result.files,
            actions=result.buttons,
        )
        reason = ""
        if result.asked:  # what a person is asked to approve reaches them as it is, past every layer
            card = replace(outbound, text=result.text, kind="notice")
            visible = self._apply_checks(run, card, "notice", is_card=True)
            text = f"{rest.seen}{visible.text}".strip()
        else:
            result = _with_tokens(result, tokens)
            visible = await self._prepare(run, outbound, result, begun=rest.is_continued)
            if not visible.parts and _is_wordless(result):
                which: Notice = "need_input" if tokens.has("NEED_INPUT") else "wordless"
                visible = self._apply_checks(run, notice(which, run.inbound), "notice")
                reason = "the model said nothing"
            text = f"{rest.seen}{visible.text}".strip()
            visible = self._add_action_line(run, visible)
        if visible.parts or turn.has_answered:
            if text or visible.text:
                _set_final_text(turn, text or visible.text, self._clock.now())
            run.reply = next(iter(visible.parts), outbound)
            reply = f"{rest.seen}{visible.text}".strip()
            outcome = run.end_with("answered", reason, reply=reply, result=result)
        else:
            outcome = _end_silently(run, result, visible)
        outcome = _with_sources(run, outcome)
        in_place = not result.asked
        await self._finish_turn(run, turn, outcome, visible.parts, result.status, in_place=in_place)
        return outcome

    async def close(self, run: MessageRun, outcome: Outcome, *, skip_layers: bool = False) -> Outcome:
        """Record an end without an answer. `skip_layers`: past all layers and checks, which may have killed us."""
        if run.reply is None:
            visible = Visible((), "")
        elif skip_layers:
            visible = make_visible(run.reply, self._capabilities(run))
        else:
            visible = await self._prepare_notice(run, run.reply, "command" if outcome.kind == "command" else "notice")
        text = visible.text
        visible = self._add_action_line(run, visible)
        outcome = replace(
            _with_sources(run, outcome),
            reply=visible.text or None,  # as it is seen, not as it was meant
            is_markdown=run.has_markdown,
            facts=outcome.facts or run.reply_facts,
        )
        if run.log is None:
            await self._end_message(run, outcome, visible.parts)
            return outcome
        self._close_turn(run, run.log, text or f"[{outcome.kind}: {outcome.reason}]")
        status: TurnStatus = "failed"
        if outcome.kind == "stopped":
            status = "aborted"
        elif run.undoes:
            status = "completed"
        try:
            await self._finish_turn(run, run.log, outcome, visible.parts, status)
        except Superseded:  # the conversation belongs to somebody else now; the message still needs its end
            self._recent.forget(run.accepted.session)
            await self._end_message(run, outcome, visible.parts)
        return outcome

    def _close_turn(self, run: MessageRun, turn: TurnLog, ending: str) -> None:
        """Leave in the conversation what the person saw of the turn, or nothing of one that nobody has read."""
        is_unread = run.unaffordable and not turn.items
        if run.undoes or is_unread:  # an unread one must not make the next model call more expensive
            for message in tuple(turn.messages):
                turn.push(Remove(message.id))
            if not run.undoes:
                run.carry.told = ()
        else:
            seen = _find_seen_text(turn)
            now = self._clock.now()
            answer_open_calls(turn, now)
            _set_final_text(turn, f"{seen}\n\n{ending}" if seen else ending, now)

    async def _prepare(
        self,
        run: MessageRun,
        outbound: Outbound,
        result: TurnResult | None,
        kind: DraftKind = "final",
        *,
        begun: bool = False,
    ) -> Visible:
        if result is not None and result.tokens and is_silent(result.tokens):
            return Visible((), outbound.text)
        ctx = DeliveryContext(
            ids=run.ids, emit=run.emit, inbound=run.inbound, outbound=outbound, turn=result, kind=kind
        )
        passed = await self._ring(ctx)
        if run.log is not None and result is not None:
            passed = SafeLinks(run.log.conversation, run.accepted.inbound).outbound(passed, run.inbound.reply_language)
        visible = await self._apply_checks_with_files(run, passed, kind, begun=begun)
        most = MOST_PARTS
        if run.log is not None:
            most -= len(run.log.items)
        if len(visible.parts) > most:  # said here, where a notice can still go out as it is
            raise SessionError(f"an answer in {len(visible.parts)} parts is too long to be sent; {most} are possible")
        return visible

    async def _prepare_notice(self, run: MessageRun, reply: Outbound, kind: DraftKind) -> Visible:
        if run.inbound.from_extension == CARDS:  # as in `answer`: past every layer
            return self._apply_checks(run, reply, kind, is_card=True)
        try:
            async with asyncio.timeout(NOTICE_PATIENCE):  # the pipeline's own deadline may be over by now
                return await self._prepare(run, reply, None, kind)
        except Exception:  # a delivery layer is a stranger; the sender must be told all the same
            log.exception("a delivery layer failed on a notice; it goes out as it is")
        except asyncio.CancelledError:
            if asked_to_stop():
                raise
            log.exception("a delivery layer let its own cancellation out on a notice; it goes out as it is")
        return apply_visibility_checks(reply, Capabilities(), self._checks, run.make_draft(kind))

    async def _apply_checks_with_files(
        self, run: MessageRun, outbound: Outbound, kind: DraftKind, *, begun: bool
    ) -> Visible:
        """Code and tables that no message can hold are files, where those can be kept before the answer is."""
        most = self._capabilities(run).media.get("file", 0)
        visible = self._apply_checks(run, outbound, kind, begun=begun, file_bytes=most)
        if not visible.files:
            return visible
        try:
            await keep_files(self._store.put_blob, visible.files)
        except (BlobRefused, StoreFailed) as error:
            log.warning("a long block stays in the text, its file cannot be kept: %s", error)
            return self._apply_checks(run, outbound, kind, begun=begun)
        return visible

    def _apply_checks(
        self,
        run: MessageRun,
        outbound: Outbound,
        kind: DraftKind,
        *,
        begun: bool = False,
        is_card: bool = False,
        file_bytes: int = 0,
    ) -> Visible:
        capabilities = self._capabilities(run)
        options = replace(self._get_options(capabilities), file_bytes=file_bytes)
        if not self._checks:  # then no draft is made
            return make_visible(outbound, capabilities, begun=begun, is_card=is_card, options=options)
        draft = run.make_draft(kind)
        return apply_visibility_checks(
            outbound, capabilities, self._checks, draft, begun=begun, is_card=is_card, options=options
        )

    def _add_action_line(self, run: MessageRun, visible: Visible) -> Visible:
        """Put the gateway's own line about an approved action before the model's words, past every layer."""
        if run.log is None or not run.log.told_action:
            return visible
        first = self._apply_checks(run, make_notice(run.log.told_action, run.inbound), "notice")
        return Visible((*first.parts, *visible.parts), f"{first.text}\n\n{visible.text}".strip(), visible.tokens)

    def _capabilities(self, run: MessageRun) -> Capabilities:
        channel = self._channels.get(run.inbound.channel)
        return Capabilities() if channel is None else channel.capabilities

    async def _finish_turn(
        self,
        run: MessageRun,
        turn: TurnLog,
        outcome: Outcome,
        parts: tuple[Outbound, ...],
        status: TurnStatus,
        *,
        in_place: bool = False,
    ) -> None:
        """Fold the turn and end its message. `in_place`: the answer replaces its preview, or takes it back."""
        claim = turn.claim
        parts, preview = _follow_early_delivery(turn, parts, in_place=in_place)
        run.remove_unseen()
        outcome, joined = run.share_outcome(outcome)
        items = self._sender.plan(run.accepted, parts, claim.turn_id, len(turn.items))
        if preview is not None and items:
            items = (replace(items[0], edits=preview.id), *items[1:])
        finish = Finish(
            turn_id=claim.turn_id,
            session=claim.session,
            inbound_id=claim.inbound_id,
            epoch=claim.epoch,
            status=status,
            steps=len(turn.answers),
            events=turn.unlogged,
            outcome=outcome,
            units=items,
            spend=turn.ledger.unbooked_lines(),
            context=context_tokens(turn),
            joined=joined,
            undoes=run.undoes,
            asks=status == "waiting_for_human" and run.asks_person,
            told=run.carry.told,
        )
        messages = turn.conversation.lasting_messages

        def on_commit() -> None:
            self._recent.keep(claim.session, claim.version + 1, messages)
            run.carry.update_copy(run.accepted, self._clock.now(), asks=finish.asks, told=finish.told)
            self._release_recorded(run, outcome, items, joined)

        async def commit() -> None:
            await retry_until_committed(lambda: self._store.finish(finish, on_commit), self._clock, "the end of a turn")

        with run.deadline.pause():  # from here on the answer exists; its time cannot run out any more
            if run.sequencer is None:
                await commit()
            else:
                await run.sequencer.send_final(commit)

    async def _end_message(self, run: MessageRun, outcome: Outcome, parts: tuple[Outbound, ...]) -> None:
        """End a message without a turn, or one whose conversation belongs to somebody else by now."""
        first = run.accepted.items
        begun = run.accepted.attempts > 0
        spend: tuple[Spend, ...] = ()
        if run.log is not None:
            first = len(run.log.items)
            begun = True
            spend = run.log.ledger.unbooked_lines()  # of a turn that failed or was stopped, too: it was paid for
        items = self._sender.plan(run.accepted, parts, None, first)
        outcome, joined = run.share_outcome(outcome)

        def on_commit() -> None:
            run.carry.update_copy(run.accepted, self._clock.now())
            self._release_recorded(run, outcome, items, joined)

        end = partial(self._store.end, run.accepted.id, outcome, items, on_commit, spend)
        commit = partial(end, begun=begun, joined=joined, kept_line=run.carry.kept_line)
        await retry_until_committed(commit, self._clock, "an outcome")

    def _release_recorded(
        self, run: MessageRun, outcome: Outcome, items: tuple[OutboxItem, ...], joined: tuple[JoinedOutcome, ...]
    ) -> None:
        """One step: the answer is on its way before the next message of the session may begin."""
        run.recorded = outcome
        self._sender.enqueue(items)
        run.leave(joined)


class _Rest(NamedTuple):
    """The part of an answer that was not delivered while its turn ran."""

    text: str
    seen: str  # what was delivered before it, as the person saw it
    is_continued: bool


def _find_rest(turn: TurnLog, text: str, tokens: ExtractedTokens) -> _Rest:
    last = len(turn.answers) - 1
    sent = turn.sent_text(last)
    if not sent or not text.startswith(sent):  # nothing was sent, or a layer has made another text of it
        return _Rest(tokens.clean_content, "", is_continued=False)
    rest = tokens.clean_content[max(0, len(sent) - tokens.start) :]
    return _Rest(rest, turn.seen_text(last), is_continued=True)


def _end_silently(run: MessageRun, result: TurnResult, visible: Visible) -> Outcome:
    tokens = dict.fromkeys((*result.tokens, *visible.tokens))
    reason = f"the model chose not to answer: {', '.join(tokens) or 'empty answer'}"
    log.info("nothing is sent: %s; what it said is kept in the conversation", reason)
    run.journal.skip(reason)
    return run.end_with("skipped", reason, result=result)


def _find_seen_text(turn: TurnLog) -> str:
    """Return the part of the unfinished answer that was already delivered."""
    current = len(turn.answers)
    seen = turn.seen_text(current)
    if not seen and turn.answers and not turn.answers[-1].tool_calls:
        seen = turn.seen_text(current - 1)
    preview = turn.previewed
    if not seen and preview is not None and preview.answer == current:
        seen = preview.text
    return seen


def _is_wordless(result: TurnResult) -> bool:
    """The model ended without a word, and did not say that it means to: a person must not wait for nothing."""
    ended = result.status in ("completed", "max_steps", "waiting_for_human") and not result.text.strip()
    return ended and not (is_silent(result.tokens) or "HEARTBEAT_OK" in result.tokens)


def _with_tokens(result: TurnResult, heard: ExtractedTokens) -> TurnResult:
    """The result with what the model said to the gateway taken out of its text."""
    if not heard.tokens:
        return result
    if heard.has("ATTACH_QUOTE"):
        log.info("the model wants a quote beside its answer; quotes are not attached")
    status = result.status
    if heard.has("NEED_INPUT") and status in ("completed", "max_steps"):
        status = "waiting_for_human"
    return replace(result, text=heard.clean_content, tokens=heard.tokens, status=status)


def _with_sources(run: MessageRun, outcome: Outcome) -> Outcome:
    """Whoever gave a task must know what the helper has read: the answer may be a stranger's."""
    if run.log is None or not run.accepted.inbound.is_internal:
        return outcome
    return replace(outcome, sources=sources_met(run.log.conversation, run.accepted.inbound))


def _follow_early_delivery(
    turn: TurnLog, parts: tuple[Outbound, ...], *, in_place: bool
) -> tuple[tuple[Outbound, ...], OutboxItem | None]:
    """Return the parts as they follow what was shown early, and the preview that the first of them replaces.

    A preview that stays loses the button that stops it; that is the gateway's own word, which no stop withdraws.
    """
    preview = turn.preview
    if in_place:
        if turn.items:
            parts = _separate_media(parts, has_preview=preview is not None)
        return parts, preview
    shown = turn.shown_preview
    if preview is None or shown is None or not shown.actions:
        return parts, None
    return (replace(shown, actions=(), kind="notice"), *parts), preview


def _separate_media(parts: tuple[Outbound, ...], *, has_preview: bool) -> tuple[Outbound, ...]:
    """Return the parts with files by themselves, behind their text: a preview cannot become a file."""
    separate: list[Outbound] = []
    if has_preview and not parts:
        separate.append(Outbound(text=""))
    for part in parts:
        if part.attachments and (part.text or (has_preview and not separate)):
            separate.append(replace(part, attachments=(), actions=(), embeds=()))
            separate.append(replace(part, text="", rendered=None, plain=None, reply_to=None))
        else:
            separate.append(part)
    return tuple(separate)


def _set_final_text(turn: TurnLog, text: str, now: datetime) -> None:
    """Make `text` the turn's last words: what layers or the gate changed is changed in the conversation too."""
    answer = _find_last_answer(turn)
    if answer is None or answer.tool_calls:
        turn.push(Append(Message(new_id(), "assistant", (Text(text),), Source("system"), now)))
        return
    if answer.text == text:
        return
    reply, notes = _split_notes(text, answer.text)
    model_text: str | int = answer.text  # for replay; its length where the person saw it with more behind
    if reply.startswith(answer.text):
        model_text = len(answer.text)
    metadata = {**answer.metadata, "model_text": model_text}
    if notes:
        metadata[NOTES] = notes
    others = tuple(block for block in answer.blocks if not isinstance(block, Text))
    turn.push(Replace(answer.id, replace(answer, blocks=(*others, Text(reply)), metadata=metadata)))


def _find_last_answer(turn: TurnLog) -> Message | None:
    """Return what the model said last, as it stands now: a layer may have replaced it, removed it or added to it."""
    if not turn.answers:
        return None
    name = turn.answers[-1].id
    for event in turn.conversation.events:
        if isinstance(event, Replace) and event.target == name:
            name = event.message.id
    return next((message for message in reversed(turn.conversation.next_messages) if message.id == name), None)


def _split_notes(text: str, written: str) -> tuple[str, str]:
    """Split off the notes at the end of an answer: as many lines in brackets as the model has not written itself.

    A model that reads them in its own messages repeats them.
    """
    whole = text.rstrip()
    reply = whole
    for _ in range(_count_last_brackets(text) - _count_last_brackets(written)):
        reply = reply.rpartition("\n")[0].rstrip()
    if not reply or reply == whole:
        return text, ""
    return reply, text[len(reply) :]


def _count_last_brackets(text: str) -> int:
    lines = (line.rstrip() for line in reversed(text.split("\n")))
    notes = takewhile(lambda line: line.startswith("(") and line.endswith(")"), filter(None, lines))
    return sum(1 for _ in notes)
