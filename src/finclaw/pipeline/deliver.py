"""Stage 8, deliver: the reply passes its ring and the last filter, is frozen into outbox items, and the turn ends."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import takewhile
from typing import Final

from msgspec.structs import replace

from finclaw.agent.tool_results import answer_open_calls
from finclaw.agent.turn_state.turn_log import TurnLog, context_tokens
from finclaw.approvals.messages import CARDS
from finclaw.cancellation import asked_to_stop
from finclaw.delivery.control import ExtractedTokens, extract_control_tokens, is_silent
from finclaw.delivery.notice import Notice, notice
from finclaw.delivery.outbox import OrderedSender, retry_until_committed
from finclaw.delivery.visible import Check, Visible, apply_visibility_checks, make_visible
from finclaw.errors import BlobRefused, SessionError, StoreFailed, Superseded
from finclaw.kernel.envelope import Capabilities, Outbound, new_id
from finclaw.kernel.message import NOTES, Append, Message, Remove, Replace, Source, Text
from finclaw.kernel.port import Channel, Clock
from finclaw.kernel.record import Finish, JoinedOutcome, OutboxItem, Spend
from finclaw.kernel.scope import DeliveryContext, Outcome, TurnResult, TurnStatus
from finclaw.kernel.store_port import Store
from finclaw.kernel.visibility import DraftKind
from finclaw.pipeline.early_delivery import DeliveryRing, EarlyDelivery
from finclaw.pipeline.live_preview import plan_items, take_button_off, with_media_apart
from finclaw.pipeline.message_run import MessageRun
from finclaw.pipeline.shown_links import SafeLinks
from finclaw.sessions.conversation import RecentConversations
from finclaw.taint.sources import sources_met
from finclaw.tools.outbound_files import keep_files

log = logging.getLogger(__name__)

NOTICE_PATIENCE: Final = 30.0
"""Seconds that delivery layers get for a notice; one that never comes back must not hold the lane."""
MOST_PARTS: Final = 1_000
"""Of one answer. Nobody reads more, and the outbox has no room for them."""


class Deliver:
    """The stage that delivers the reply and finishes the turn."""

    def __init__(
        self,
        store: Store,
        ring: DeliveryRing,
        sender: OrderedSender,
        channels: Mapping[str, Channel],
        recent: RecentConversations,
        clock: Clock,
        checks: Sequence[Check],
        early: EarlyDelivery,
    ) -> None:
        self._store = store
        self._ring = ring
        self._sender = sender
        self._channels = channels
        self._recent = recent
        self._clock = clock
        self._checks = checks
        self._get_options = early.get_options
        self.follow = early.follow

    async def answer(self, run: MessageRun, turn: TurnLog, result: TurnResult) -> Outcome:
        """Finish the turn with its reply. After this commit the message is answered, whatever happens next."""
        inbound, why, last = run.inbound, "", len(turn.answers) - 1
        sent, heard = turn.sent_text(last), extract_control_tokens(result.text)
        begun = bool(sent) and result.text.startswith(sent)  # not where a layer has made another text of it
        seen = turn.seen_text(last) if begun else ""
        text = heard.clean_content[max(0, len(sent) - heard.start) if begun else 0 :]
        reply_to = None if turn.has_answered else run.answer_to
        outbound = Outbound(
            text=text,
            reply_to=reply_to,
            thread=inbound.thread,
            attachments=result.files,
            actions=result.buttons,
        )
        if result.asked:  # what a person is asked to approve reaches them as it is, past every layer
            card = replace(outbound, text=result.text, kind="notice")
            visible = self._apply_checks(run, card, "notice", is_card=True)
        else:
            result = _with_tokens(result, heard)
            visible = await self._prepare(run, outbound, result, begun=begun)
            if not visible.parts and _is_wordless(result):
                which: Notice = "need_input" if heard.needs_input else "wordless"
                visible, why = self._apply_checks(run, notice(which, inbound), "notice"), "the model said nothing"
        said, visible = (seen + visible.text).strip(), self._with_action(run, visible) if not result.asked else visible
        if visible.parts or turn.has_answered:
            if said or visible.text:
                set_final_text(turn, said or visible.text, self._clock.now())
            run.reply = visible.parts[0] if visible.parts else outbound
            outcome = run.end_with("answered", why, reply=(seen + visible.text).strip(), result=result)
        else:
            tokens = dict.fromkeys((*result.tokens, *visible.tokens))
            reason = f"the model chose not to answer: {', '.join(tokens) or 'empty answer'}"
            log.info("nothing is sent: %s; what it said is kept in the conversation", reason)
            run.journal.skip(reason)
            outcome = run.end_with("skipped", reason, result=result)
        outcome = _with_sources(run, outcome)
        await self._finish(run, turn, outcome, visible, result.status, in_place=not result.asked)
        return outcome

    async def close(self, run: MessageRun, outcome: Outcome, *, skip_layers: bool = False) -> Outcome:
        """Record an end without an answer, with what the sender is told; a claimed turn is folded with it.

        `skip_layers`: past the delivery ring and every check, one of which may be what killed the process.
        """
        if run.reply is None:
            visible = Visible((), "")
        elif skip_layers:
            visible = make_visible(run.reply, self._capabilities(run))
        else:
            visible = await self._prepare_notice(run, "command" if outcome.kind == "command" else "notice")
        outcome = _with_sources(run, outcome)
        said, visible = visible.text, self._with_action(run, visible)
        facts = outcome.facts or (() if run.reply is None else run.reply.facts)
        words = visible.text or None  # as it is seen, not as it was meant
        outcome = replace(outcome, reply=words, is_markdown=run.has_markdown, facts=facts)
        if run.log is None:
            await self._end(run, outcome, visible)
            return outcome
        if run.undoes or (run.unaffordable and not run.log.items):
            forget_messages(run.log)
            run.carry.told = run.carry.told if run.undoes else ()
        else:
            words = (_seen_of_last(run.log), said or f"[{outcome.kind}: {outcome.reason}]")
            close_conversation(run.log, "\n\n".join(filter(None, words)), self._clock.now())
        try:
            status: TurnStatus = "aborted" if outcome.kind == "stopped" else "completed" if run.undoes else "failed"
            await self._finish(run, run.log, outcome, visible, status)
        except Superseded:  # the conversation belongs to somebody else now; the message still needs its end
            self._recent.forget(run.accepted.session)
            await self._end(run, outcome, visible)
        return outcome

    # ── what a person will see ──────────────────────────────────────────────────────────────────────────────

    async def _prepare(
        self,
        run: MessageRun,
        outbound: Outbound,
        result: TurnResult | None,
        kind: DraftKind = "final",
        *,
        begun: bool = False,
    ) -> Visible:
        if result is not None and is_silent(result.tokens):
            return Visible((), outbound.text)
        ctx = DeliveryContext(
            ids=run.ids, emit=run.emit, inbound=run.inbound, outbound=outbound, turn=result, kind=kind
        )
        passed = await self._ring(ctx)
        if run.log is not None and result is not None:
            passed = SafeLinks(run.log, run.accepted.inbound).outbound(passed, run.inbound.reply_language)
        visible = await self._apply_checks_with_files(run, passed, kind, begun=begun)
        most = MOST_PARTS if run.log is None else MOST_PARTS - len(run.log.items)
        if len(visible.parts) > most:  # said here, where a notice can still go out as it is
            raise SessionError(f"an answer in {len(visible.parts)} parts is too long to be sent; {most} are possible")
        return visible

    async def _prepare_notice(self, run: MessageRun, kind: DraftKind) -> Visible:
        reply = run.reply or Outbound(text="")
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
        """`file_bytes`: as in `FormatOptions`."""
        capabilities, checks = self._capabilities(run), self._checks
        options = replace(self._get_options(capabilities), file_bytes=file_bytes)
        if not checks:
            return make_visible(outbound, capabilities, begun=begun, is_card=is_card, options=options)
        draft = run.make_draft(kind)
        return apply_visibility_checks(
            outbound, capabilities, checks, draft, begun=begun, is_card=is_card, options=options
        )

    def _with_action(self, run: MessageRun, visible: Visible) -> Visible:
        """With the gateway's own line about an approved action before the model's words, past every layer."""
        line = "" if run.log is None else run.log.told_action
        if not line:
            return visible
        told = Outbound(text=line, kind="notice", reply_to=run.inbound.answer_to, thread=run.inbound.thread)
        first = self._apply_checks(run, told, "notice")
        return Visible((*first.parts, *visible.parts), f"{first.text}\n\n{visible.text}".strip(), visible.tokens)

    def _capabilities(self, run: MessageRun) -> Capabilities:
        channel = self._channels.get(run.inbound.channel)
        return Capabilities() if channel is None else channel.capabilities

    # ── the commits ─────────────────────────────────────────────────────────────────────────────────────────

    async def _finish(
        self,
        run: MessageRun,
        turn: TurnLog,
        outcome: Outcome,
        visible: Visible,
        status: TurnStatus,
        *,
        in_place: bool = False,
    ) -> None:
        """`in_place`: the answer takes the place of its preview, or takes it back where there is none."""
        left = None if in_place else take_button_off(turn)
        claim, preview = turn.claim, turn.preview if in_place or left is not None else None
        if left is not None:
            visible = replace(visible, parts=(left, *visible.parts))
        if turn.items and in_place:
            visible = replace(visible, parts=with_media_apart(visible.parts, has_preview=preview is not None))
        run.remove_unseen()
        outcome, joined = run.share_outcome(outcome)
        units = self._plan(run, visible, claim.turn_id)
        if preview is not None and units:
            units = (replace(units[0], edits=preview.id), *units[1:])
        finish = Finish(
            turn_id=claim.turn_id,
            session=claim.session,
            inbound_id=claim.inbound_id,
            epoch=claim.epoch,
            status=status,
            steps=len(turn.answers),
            events=turn.unlogged,
            outcome=outcome,
            units=units,
            spend=turn.ledger.unbooked_lines(),
            context=context_tokens(turn),
            joined=joined,
            undoes=run.undoes,
            asks=status == "waiting_for_human" and run.asks_person,
            told=run.carry.told,
        )

        kept = turn.conversation.lasting_messages

        def on_commit() -> None:
            self._recent.keep(claim.session, claim.version + 1, kept)
            run.carry.update_copy(run.accepted, self._clock.now(), asks=finish.asks, told=finish.told)
            self._release_recorded(run, outcome, units, joined)

        async def commit() -> None:
            await retry_until_committed(lambda: self._store.finish(finish, on_commit), self._clock, "the end of a turn")

        with run.deadline.pause():  # from here on the answer exists; its time cannot run out any more
            await (commit() if run.sequencer is None else run.sequencer.send_final(commit))

    async def _end(self, run: MessageRun, outcome: Outcome, visible: Visible) -> None:
        units, (outcome, joined) = self._plan(run, visible, None), run.share_outcome(outcome)

        def on_commit() -> None:
            run.carry.update_copy(run.accepted, self._clock.now())
            self._release_recorded(run, outcome, units, joined)

        begun = run.log is not None or run.accepted.attempts > 0
        end = partial(self._store.end, run.accepted.id, outcome, units, on_commit, _spend(run))
        commit = partial(end, begun=begun, joined=joined, kept_line=run.carry.kept_line)
        await retry_until_committed(commit, self._clock, "an outcome")

    def _plan(self, run: MessageRun, visible: Visible, turn_id: str | None) -> tuple[OutboxItem, ...]:
        first = run.accepted.items if run.log is None else len(run.log.items)
        return plan_items(self._store, self._sender, run.accepted, visible.parts, turn_id, first)

    def _release_recorded(
        self, run: MessageRun, outcome: Outcome, units: tuple[OutboxItem, ...], joined: tuple[JoinedOutcome, ...]
    ) -> None:
        """One step: the answer is on its way before the next message of the session may begin."""
        run.recorded = outcome
        self._sender.enqueue(units)
        if run.steering is not None:
            run.steering.settle(joined)
        run.leave()


def _seen_of_last(turn: TurnLog) -> str:
    """What was seen of the answer that the turn did not get through with."""
    last = turn.answers[-1] if turn.answers else None
    finished = "" if last is None or last.tool_calls else turn.seen_text(len(turn.answers) - 1)
    seen = turn.previewed
    previewed = seen.text if seen is not None and seen.answer == len(turn.answers) else ""
    return turn.seen_text(len(turn.answers)) or finished or previewed


def _is_wordless(result: TurnResult) -> bool:
    """The model ended without a word, and did not say that it means to: a person must not wait for nothing."""
    ended = result.status in ("completed", "max_steps", "waiting_for_human") and not result.text.strip()
    return ended and not (is_silent(result.tokens) or "HEARTBEAT_OK" in result.tokens)


def _with_tokens(result: TurnResult, heard: ExtractedTokens) -> TurnResult:
    """The result with what the model said to the gateway taken out of its text."""
    if not heard.tokens:
        return result
    if heard.needs_quote:
        log.info("the model wants a quote beside its answer; quotes are not attached")
    waits = heard.needs_input and result.status in ("completed", "max_steps")
    status: TurnStatus = "waiting_for_human" if waits else result.status
    return replace(result, text=heard.clean_content, tokens=heard.tokens, status=status)


def _with_sources(run: MessageRun, outcome: Outcome) -> Outcome:
    """Whoever gave a task must know what the helper has read: the answer may be a stranger's."""
    if run.log is None or not run.accepted.inbound.is_internal:
        return outcome
    return replace(outcome, sources=sources_met(run.log.conversation, run.accepted.inbound))


def _spend(run: MessageRun) -> tuple[Spend, ...]:
    """Also of a turn that failed, was stopped or was superseded: it was paid for."""
    return () if run.log is None else run.log.ledger.unbooked_lines()


def set_final_text(turn: TurnLog, text: str, now: datetime) -> None:
    """Make `text` the turn's last words: what layers or the gate changed is changed in the conversation too."""
    answer = _last_answer(turn)
    if answer is None or answer.tool_calls:
        turn.push(Append(Message(new_id(), "assistant", (Text(text),), Source("system"), now)))
    elif answer.text != text:
        kept = tuple(block for block in answer.blocks if not isinstance(block, Text))
        said, notes = _split_notes(text, answer.text)
        metadata = {**answer.metadata, "model_text": _text_for_replay(answer.text, said)}
        if notes:
            metadata[NOTES] = notes
        turn.push(Replace(answer.id, replace(answer, blocks=(*kept, Text(said)), metadata=metadata)))


def _split_notes(text: str, written: str) -> tuple[str, str]:
    """The answer, and the notes at its end: as many lines in brackets as the model has not written itself.

    A model that reads them in its own messages repeats them.
    """
    said = text.rstrip()
    for _ in range(_count_last_brackets(text) - _count_last_brackets(written)):
        said = said.rpartition("\n")[0].rstrip()
    return (said, text[len(said) :]) if said and said != text.rstrip() else (text, "")


def _count_last_brackets(text: str) -> int:
    lines = reversed([line for line in text.split("\n") if line.strip()])
    return sum(1 for _ in takewhile(lambda line: line.startswith("(") and line.rstrip().endswith(")"), lines))


def _last_answer(turn: TurnLog) -> Message | None:
    """What the model said last, as it stands now: a layer may have replaced it, removed it or said more behind it."""
    if not turn.answers:
        return None
    name = turn.answers[-1].id
    for event in turn.conversation.events:
        if isinstance(event, Replace) and event.target == name:
            name = event.message.id
    return next((each for each in reversed(turn.conversation.next_messages) if each.id == name), None)


def _text_for_replay(written: str, seen: str) -> str | int:
    """What the model itself wrote, for a replay: its text, or its length where the person saw it with more behind."""
    return len(written) if seen.startswith(written) else written


def forget_messages(turn: TurnLog) -> None:
    """Leave nothing of a turn in the conversation: what no model could be asked must not make the next call dearer."""
    for message in tuple(turn.messages):
        turn.push(Remove(message.id))


def close_conversation(turn: TurnLog, text: str, now: datetime) -> None:
    """End a turn that did not get through: every call gets a true result, the person's last sight is the last word."""
    answer_open_calls(turn, now)
    set_final_text(turn, text, now)
