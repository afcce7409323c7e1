"""Early delivery: what a person sees of an answer before its turn ends, as one message that is edited or in blocks.

Its first sight is an outbox item, so that it is known after a crash; the edits are not. The answer takes its place.
`TurnItems` appends the outbox items of a turn that still runs, previews and blocks, and follows them until they arrive.

In a message that is edited, or in blocks. Where the channel has neither, nothing is held for it, however many turns
wait for their model (`kb_in_flight`).
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import Any, Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from finclaw.agent.turn_state.turn_log import TurnLog
from finclaw.delivery.format import FormatOptions, get_format_options, has_buttons_for
from finclaw.delivery.links import SafeLinks
from finclaw.delivery.notice import progress_line, tool_note
from finclaw.delivery.outbox import OrderedSender, try_change
from finclaw.delivery.visible import Check, Visible, find_objection, make_visible
from finclaw.errors import MarkupRefused, SendFailed, SendRefused, SendUnknown
from finclaw.kernel.envelope import ActionButton, Capabilities, Inbound, Outbound
from finclaw.kernel.event import Emit, Event, PreviewUpdated, ToolEndedEvent, ToolStartedEvent
from finclaw.kernel.port import Channel, Clock
from finclaw.kernel.record import Accepted, OutboxItem, TextRange
from finclaw.kernel.scope import DeliveryContext, DraftKind
from finclaw.kernel.store_port import Outbox
from finclaw.pipeline.blocks import BlockDelivery
from finclaw.pipeline.message_run import MessageRun
from finclaw.pipeline.preview import PreviewEvents
from finclaw.pipeline.reply_sequencer import Pause, ReplySequencer
from finclaw.pipeline.settings import PipelineSettings
from finclaw.redaction.redact import describe_error
from finclaw.text import Language

log = logging.getLogger(__name__)


DIRECT_SECONDS: Final = 1.0

GROUP_SECONDS: Final = 4.0
"""Between two changes. Platforms count the edits in a group, and everybody there sees the message flicker."""

MOST_FAILURES: Final = 3
"""Edits in a row. Then the answer comes when it is complete."""

PreparePreview = Callable[[str], Awaitable[Outbound | None]]
"""The words as a person may see them now. None: nothing more may be shown before the end."""


class TurnItems:
    """The items that one running turn appends to the outbox."""

    def __init__(self, store: Outbox, sender: OrderedSender, accepted: Accepted, turn: TurnLog) -> None:
        self._store = store
        self._sender = sender
        self._accepted = accepted
        self._turn = turn
        self._latest: dict[str, OutboxItem] = {}
        self._moved = asyncio.Event()
        self._is_over = False
        sender.watch(accepted.id, self._on_move)

    def _on_move(self, item: OutboxItem) -> None:
        self._latest[item.id] = item
        self._moved.set()

    def withdraw(self) -> None:
        """The turn was stopped: what has not left by now never does."""
        self._sender.withdraw([item.id for item in self._turn.items])
        for place, item in enumerate(self._turn.items):
            known = self._latest.get(item.id, item)
            if known.state in ("planned", "unknown"):
                self._turn.items[place] = replace(known, state="superseded")

    async def append(
        self, outbounds: Sequence[Outbound], mark: Callable[[OutboxItem, int], OutboxItem] = lambda item, _: item
    ) -> tuple[OutboxItem, ...]:
        """Append these as items; `mark` says what is special about each. Who is cancelled waits for the commit."""
        turn_id, first = self._turn.claim.turn_id, len(self._turn.items)
        units = self._sender.plan(self._accepted, outbounds, turn_id, first)
        items = tuple(mark(unit, place) for place, unit in enumerate(units))

        def on_commit(written: tuple[OutboxItem, ...]) -> None:
            self._turn.items += written
            self._sender.enqueue(written)

        await self._store.append_items(self._turn.claim, items, on_commit)
        return items

    async def arrive(self, item: OutboxItem) -> OutboxItem:
        """The item once it was sent or superseded. Raises SendFailed as soon as its sending meets any trouble."""
        while True:
            self._moved.clear()
            found = self._latest.get(item.id) or await self._store.find_item(item.id)
            if found is None or found.state in ("dead", "expired") or found.attempts or found.doubts:
                raise SendFailed(f"item {item.id} did not arrive" + ("" if found is None else f", it is {found.state}"))
            if found.state in ("sent", "superseded") or self._is_over:
                return found
            await self._moved.wait()

    def stop_waiting(self) -> None:
        """The turn ends: what has not arrived arrives before its end."""
        self._is_over = True
        self._moved.set()

    def close(self) -> None:
        self._sender.watch(self._accepted.id, None)


class LivePreview:
    """The preview of one running turn."""

    def __init__(
        self,
        turn: TurnLog,
        emit: Emit,
        inbound: Inbound,
        channel: Channel,
        clock: Clock,
        items: TurnItems,
        prepare: PreparePreview,
    ) -> None:
        self._turn = turn
        self._emit = emit
        self._channel = channel
        self._clock = clock
        self._items = items
        self._prepare = prepare
        self._every = DIRECT_SECONDS if inbound.chat_type == "direct" else GROUP_SECONDS
        self._notes: list[str] = []
        self._words = self._status = self._shown = ""
        self._item: OutboxItem | None = turn.preview
        self._task: asyncio.Task[None] | None = None
        self._ended = self._is_editing = False
        self._failures = 0
        self._due = 0.0
        self.changed_at = clock.monotonic()

    def follow(self, event: Event) -> None:
        """The turn's events, with what passed the gate for previews."""
        self._emit(event)
        if isinstance(event, PreviewUpdated):
            self._words = self._words[: event.at] + event.text
            self._status = ""
            self._change()

    def show_note(self, text: str) -> None:
        """A line above the words, which goes when the answer is complete."""
        self._notes.append(text)
        self._change()

    def show_status(self, text: str) -> None:
        """A line below the words, until there are more of them."""
        self._status = text
        self._change()

    def _change(self) -> None:
        if self._task is not None and self._task.done():
            self._task.result()  # what nobody may swallow
            self._task = None
        if not self._ended and self._task is None:
            self._task = asyncio.create_task(self._show_changes(), name="show a preview")

    def _compose(self) -> str:
        return "\n\n".join(filter(None, ("\n".join(self._notes), self._words.strip(), self._status)))

    async def _show_changes(self) -> None:
        while not self._ended and self._compose() != self._shown:
            await self._clock.sleep(max(0.0, self._due - self._clock.monotonic()))
            text = self._compose()
            try:
                await self._show(text)
            except (SendFailed, SendUnknown) as error:
                self._failures += 1
                self._ended = self._ended or self._item is None or self._failures >= MOST_FAILURES
                wanted = error.retry_after if isinstance(error, SendFailed) else None
                self._due = self._clock.monotonic() + max(self._every, wanted or 0)
            except Exception as error:  # noqa: BLE001  a layer, a store or a channel failed: the end of the turn decides
                log.warning("no more of the answer is shown before its end: %s", describe_error(error))
                self._ended = True
            else:
                self._shown, self._failures = text, 0
                self.changed_at = self._clock.monotonic()
                self._due = self.changed_at + self._every

    async def _show(self, text: str) -> None:
        outbound = await self._prepare(text)
        if outbound is None:
            raise SendRefused("it cannot be shown yet")
        if self._item is None:
            (self._item,) = await self._items.append([outbound], lambda item, _: replace(item, is_preview=True))
            self._note_shown(outbound)
            self._item = await self._items.arrive(self._item)
            return
        if self._item.platform_id is None:  # of a turn that was taken up again
            self._item = await self._items.arrive(self._item)
        if self._item.platform_id is None:
            raise SendRefused("the preview was not shown")
        await self._edit(self._item.platform_id, replace(self._item, outbound=outbound))
        self._note_shown(outbound)

    def _note_shown(self, outbound: Outbound) -> None:
        self._turn.previewed = TextRange(len(self._turn.answers), 0, outbound.text)
        self._turn.shown_preview = outbound

    async def _edit(self, platform_id: str, unit: OutboxItem) -> None:
        if not self._channel.connected:
            raise SendFailed("the channel is not connected")
        self._is_editing = True
        try:
            error = await try_change(self._channel, platform_id, unit)
            if isinstance(error, MarkupRefused) and unit.outbound.rendered is not None:
                plain = replace(unit, outbound=replace(unit.outbound, rendered=None))
                error = await try_change(self._channel, platform_id, plain)
        finally:
            self._is_editing = False
        if error is not None:
            raise error

    def cancel(self) -> None:
        """The turn failed or was stopped: nothing more becomes visible."""
        self._ended = True
        if self._task is not None:
            self._task.cancel()

    async def close(self) -> None:
        """Begin no more. An edit that is on its way is waited for: the answer must not be overtaken by it."""
        self._ended = True
        if self._task is not None:
            if not self._is_editing:
                self._task.cancel()
            await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.result()


MOST_BLOCKS: Final = 500
"""Of one turn while it runs: the end must find room behind them."""

STOP_LABELS: Final[dict[Language, str]] = {"en": "Stop", "ko": "중단"}
DeliveryRing = Callable[[DeliveryContext], Coroutine[Any, Any, Outbound]]


class EarlyOptions(Struct, frozen=True, kw_only=True):
    """Options of early delivery beside the settings of the pipeline."""

    pauses: Mapping[str, Pause] = {}
    """Between two blocks, by channel."""
    stop_command: str = ""
    """The command of the button under an answer that is being written; empty: there is none."""


class EarlyDelivery:
    """The part of delivery that runs beside the turn."""

    def __init__(
        self,
        store: Outbox,
        ring: DeliveryRing,
        sender: OrderedSender,
        channels: Mapping[str, Channel],
        clock: Clock,
        checks: Sequence[Check],
        settings: PipelineSettings,
        options: EarlyOptions,
    ) -> None:
        self._store = store
        self._ring = ring
        self._sender = sender
        self._channels = channels
        self._clock = clock
        self._checks = checks
        self._settings = settings
        self._options = options

    def follow(self, run: MessageRun, turn: TurnLog) -> AbstractAsyncContextManager[Emit]:
        """The events of a turn, with what may be seen of its answer while it is being written."""
        channel = self._channels.get(run.inbound.channel)
        can_stream = channel is not None and (channel.capabilities.blocks or channel.capabilities.edits)
        if channel is None or not can_stream or not self._settings.streaming_enabled:
            return nullcontext(self._with_previews(run, turn, run.emit))
        return self._show_early(run, turn, channel)

    def get_options(self, capabilities: Capabilities) -> FormatOptions:
        """The options of formatting, for what is shown early and for the rest."""
        return get_format_options(capabilities, self._settings.max_response_length)

    def _with_previews(self, run: MessageRun, turn: TurnLog, emit: Emit) -> Emit:
        return PreviewEvents(
            emit, self._checks, SafeLinks(turn.conversation, run.accepted.inbound).text, run.make_draft
        ).emit

    @asynccontextmanager
    async def _show_early(self, run: MessageRun, turn: TurnLog, channel: Channel) -> AsyncGenerator[Emit]:
        items = TurnItems(self._store, self._sender, run.accepted, turn)
        run.sequencer = sequencer = ReplySequencer(self._clock, pause=self._options.pauses.get(channel.name))
        if channel.capabilities.blocks:
            view, emit = self._open_blocks(run, turn, channel, items, sequencer)
        else:
            prepare = partial(self._prepare_preview, run, turn, channel)
            view = LivePreview(turn, run.emit, run.inbound, channel, self._clock, items, prepare)
            emit = self._with_previews(run, turn, view.follow)
        seconds, tool_notes = self._settings.still_working_s, self._settings.tool_notes
        progress = Progress(view, emit, run.inbound, self._clock, seconds, tool_notes=tool_notes)

        def stop_sending() -> None:
            sequencer.cancel()
            view.cancel()
            items.withdraw()

        run.stoppable.stop_sending = stop_sending
        try:
            yield progress.follow
            progress.close()
            items.stop_waiting()
            await view.close()
        except BaseException:  # also while it waits for the last edit
            progress.close()
            items.stop_waiting()
            sequencer.cancel()
            view.cancel()
            if run.stoppable.is_stopped:
                items.withdraw()
            await view.close()
            raise
        finally:
            run.stoppable.stop_sending = None
            items.close()

    def _open_blocks(
        self, run: MessageRun, turn: TurnLog, channel: Channel, items: TurnItems, sequencer: ReplySequencer
    ) -> tuple[BlockDelivery, Emit]:
        blocks = BlockDelivery(
            turn,
            self._with_previews(run, turn, run.emit),
            sequencer,
            partial(self._send_block, run, turn, channel, items),
            partial(self._send_note, run, turn, channel, items),
            self._settings.blocks,
            self._clock,
        )
        return blocks, blocks.follow

    # ── blocks and notes ────────────────────────────────────────────────────────────────────────────────────

    async def _send_block(
        self, run: MessageRun, turn: TurnLog, channel: Channel, items: TurnItems, span: TextRange
    ) -> bool:
        """Append a part of the answer to the outbox. False: it waits for the end of the turn, with all behind it.

        So does what anybody objects to: the gate decides about it when the answer is complete.
        """
        begun = bool(turn.sent_text(span.answer))
        visible = await self._prepare(run, turn, channel, "block", span.text, begun=begun)
        if visible is None:
            return False
        behind = TextRange(span.answer, span.start + len(span.text), "")

        def mark(item: OutboxItem, place: int) -> OutboxItem:
            return replace(item, span=span if place == 0 else behind)

        written = await items.append(visible.parts, mark)
        await items.arrive(written[-1])
        return True

    async def _send_note(self, run: MessageRun, turn: TurnLog, channel: Channel, items: TurnItems, text: str) -> bool:
        if len(turn.items) >= MOST_BLOCKS:
            return False
        capabilities = channel.capabilities
        note = Outbound(text=text, kind="notice", thread=run.inbound.thread, ephemeral=capabilities.ephemeral)
        written = await items.append(make_visible(note, capabilities).parts[:1])
        await items.arrive(written[-1])
        return True

    async def _prepare_preview(self, run: MessageRun, turn: TurnLog, channel: Channel, text: str) -> Outbound | None:
        visible = await self._prepare(run, turn, channel, "preview", text)
        if visible is None or not self._options.stop_command or channel.capabilities.buttons is None:
            return None if visible is None else visible.parts[0]
        command = f"{self._options.stop_command} {run.accepted.id}"
        button = ActionButton(label=STOP_LABELS[run.inbound.reply_language], command=command)
        fits = has_buttons_for(channel.capabilities, (button,))
        return replace(visible.parts[0], actions=(button,) if fits else ())

    async def _prepare(
        self, run: MessageRun, turn: TurnLog, channel: Channel, kind: DraftKind, text: str, *, begun: bool = False
    ) -> Visible | None:
        """None: it cannot be shown by itself. What an approved action gave is told before the model's words."""
        if turn.told_action or len(turn.items) >= MOST_BLOCKS:
            return None
        reply_to = None if turn.has_answered else run.answer_to
        outbound = Outbound(text=text, reply_to=reply_to, thread=run.inbound.thread)
        ctx = DeliveryContext(ids=run.ids, emit=run.emit, inbound=run.inbound, outbound=outbound, turn=None, kind=kind)
        safe_links = SafeLinks(turn.conversation, run.accepted.inbound)
        passed = safe_links.outbound(await self._ring(ctx), run.inbound.reply_language)
        options = self.get_options(channel.capabilities)
        visible = make_visible(passed, channel.capabilities, begun=begun, options=options)
        is_plain = bool(visible.parts) and not (passed.embeds or passed.attachments or passed.actions)
        draft = run.make_draft(kind, visible.text)
        return visible if is_plain and find_objection(self._checks, draft) is None else None


class EarlyView(Protocol):
    """Whatever shows a person something before the turn ends."""

    @property
    def changed_at(self) -> float: ...  # when they last saw something new, or the turn began
    def show_note(self, text: str) -> None: ...
    def show_status(self, text: str) -> None: ...


class Progress:
    """The notes on one turn: one for each tool where they are wanted, and one line when nothing was seen for long."""

    def __init__(
        self, view: EarlyView, emit: Emit, inbound: Inbound, clock: Clock, seconds: float, *, tool_notes: bool
    ) -> None:
        self._view = view
        self._emit = emit
        self._language: Language = inbound.reply_language
        self._clock = clock
        self._wants_notes = tool_notes
        self._tools: dict[str, str] = {}
        self._timer = asyncio.create_task(self._tell_after(seconds), name="still working") if seconds else None

    def follow(self, event: Event) -> None:
        self._emit(event)
        if isinstance(event, ToolStartedEvent):
            self._tools[event.call_id] = event.tool
            if self._wants_notes:
                self._view.show_note(tool_note(event.tool, self._language))
        elif isinstance(event, ToolEndedEvent):
            self._tools.pop(event.call_id, None)

    async def _tell_after(self, seconds: float) -> None:
        while (left := self._view.changed_at + seconds - self._clock.monotonic()) > 0:
            await self._clock.sleep(left)
        running = next(reversed(self._tools.values()), "")
        self._view.show_status(progress_line(running, self._language))

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
