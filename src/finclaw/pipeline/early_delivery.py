"""Early delivery: what a person sees of an answer before its turn ends, as the channel can show it.

In a message that is edited, or in blocks. Where the channel has neither, nothing is held for it, however many turns
wait for their model (`kb_in_flight`).
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import Any, Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from finclaw.agent.turn_state.turn_log import TurnLog
from finclaw.delivery.format import FormatOptions, get_format_options, has_buttons_for
from finclaw.delivery.notice import progress_line, tool_note
from finclaw.delivery.outbox import OrderedSender
from finclaw.delivery.preview import PreviewEvents
from finclaw.delivery.reply_sequencer import Pause, ReplySequencer
from finclaw.delivery.visible import Check, Visible, find_objection, make_visible
from finclaw.kernel.envelope import ActionButton, Capabilities, Inbound, Outbound
from finclaw.kernel.event import Emit, Event, ToolEndedEvent, ToolStartedEvent
from finclaw.kernel.port import Channel, Clock
from finclaw.kernel.record import OutboxItem, TextRange
from finclaw.kernel.scope import DeliveryContext
from finclaw.kernel.store_port import Outbox
from finclaw.kernel.visibility import DraftKind
from finclaw.pipeline.blocks import BlockDelivery
from finclaw.pipeline.live_preview import LivePreview, TurnItems
from finclaw.pipeline.message_run import MessageRun
from finclaw.pipeline.settings import PipelineSettings
from finclaw.pipeline.shown_links import SafeLinks
from finclaw.text import Language

log = logging.getLogger(__name__)

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
        return PreviewEvents(emit, self._checks, SafeLinks(turn, run.accepted.inbound).text, run.make_draft).emit

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
        safe_links = SafeLinks(turn, run.accepted.inbound)
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
