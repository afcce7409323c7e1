"""The finish of a message: its outcome, its part of the conversation and its outbox items, in one commit."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from itertools import takewhile

from msgspec.structs import replace

from finclaw.agent.tool_results import answer_open_calls
from finclaw.agent.turn_state.turn_log import TurnLog, context_tokens
from finclaw.delivery.outbox import OrderedSender
from finclaw.kernel.envelope import Outbound, new_id
from finclaw.kernel.message import NOTES, Append, Message, Remove, Replace, Source, Text
from finclaw.kernel.port import Clock
from finclaw.kernel.record import Finish, JoinedOutcome, OutboxItem, Spend
from finclaw.kernel.scope import Outcome, TurnStatus
from finclaw.kernel.store_port import Store, retry_until_committed
from finclaw.pipeline.message_run import MessageRun
from finclaw.sessions.conversation import RecentConversations


class Finisher:
    """The commits that end messages. After one of them nothing that happens can change the outcome."""

    def __init__(self, store: Store, sender: OrderedSender, recent: RecentConversations, clock: Clock) -> None:
        self._store = store
        self._sender = sender
        self._recent = recent
        self._clock = clock

    async def finish_turn(
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

    async def end_message(self, run: MessageRun, outcome: Outcome, parts: tuple[Outbound, ...]) -> None:
        """End a message without a turn, or one whose conversation belongs to somebody else by now."""
        first = run.accepted.items if run.log is None else len(run.log.items)
        items = self._sender.plan(run.accepted, parts, None, first)
        outcome, joined = run.share_outcome(outcome)

        def on_commit() -> None:
            run.carry.update_copy(run.accepted, self._clock.now())
            self._release_recorded(run, outcome, items, joined)

        begun = run.log is not None or run.accepted.attempts > 0
        end = partial(self._store.end, run.accepted.id, outcome, items, on_commit, _unbooked_spend(run))
        commit = partial(end, begun=begun, joined=joined, kept_line=run.carry.kept_line)
        await retry_until_committed(commit, self._clock, "an outcome")

    def _release_recorded(
        self, run: MessageRun, outcome: Outcome, items: tuple[OutboxItem, ...], joined: tuple[JoinedOutcome, ...]
    ) -> None:
        """One step: the answer is on its way before the next message of the session may begin."""
        run.recorded = outcome
        self._sender.enqueue(items)
        if run.steering is not None:
            run.steering.settle(joined)
        run.leave()


def _unbooked_spend(run: MessageRun) -> tuple[Spend, ...]:
    """Return also the spend of a turn that failed, was stopped or was superseded: it was paid for."""
    if run.log is None:
        return ()
    return run.log.ledger.unbooked_lines()


# ── parts behind what was shown early ───────────────────────────────────────────────────────────────────────────


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


# ── what the turn leaves in the conversation ────────────────────────────────────────────────────────────────────


def set_final_text(turn: TurnLog, text: str, now: datetime) -> None:
    """Make `text` the turn's last words: what layers or the gate changed is changed in the conversation too."""
    answer = _find_last_answer(turn)
    if answer is None or answer.tool_calls:
        turn.push(Append(Message(new_id(), "assistant", (Text(text),), Source("system"), now)))
        return
    if answer.text == text:
        return
    reply, notes = _split_notes(text, answer.text)
    metadata = {**answer.metadata, "model_text": _text_for_replay(answer.text, reply)}
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
    lines: Sequence[str] = [line for line in text.split("\n") if line.strip()]
    return sum(1 for _ in takewhile(lambda line: line.startswith("(") and line.rstrip().endswith(")"), reversed(lines)))


def _text_for_replay(written: str, seen: str) -> str | int:
    """Return what the model itself wrote: its text, or its length where the person saw it with more behind."""
    if seen.startswith(written):
        return len(written)
    return written


def forget_messages(turn: TurnLog) -> None:
    """Leave nothing of a turn in the conversation: what no model could be asked must not make the next call dearer."""
    for message in tuple(turn.messages):
        turn.push(Remove(message.id))


def close_conversation(turn: TurnLog, text: str, now: datetime) -> None:
    """End a turn that did not get through: every call gets a true result, the person's last sight is the last word."""
    answer_open_calls(turn, now)
    set_final_text(turn, text, now)
