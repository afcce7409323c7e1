"""Early delivery: what a person sees of an answer before its turn ends, as one message that is edited or in blocks.

The first form of a preview is an outbox item, so that it is known after a crash; the edits are not. The answer takes
its place. Where the channel has neither edits nor blocks, nothing is held for it, however many turns wait for their
model (`kb_in_flight`).
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any, Final

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
from finclaw.kernel.record import OutboxItem, TextRange
from finclaw.kernel.scope import DeliveryContext, DraftKind
from finclaw.kernel.store_port import Outbox
from finclaw.pipeline.message_run import MessageRun
from finclaw.pipeline.reply_sequencer import BlockDelivery, Pause, PreviewEvents, ReplySequencer
from finclaw.pipeline.settings import PipelineSettings
from finclaw.redaction.redact import describe_error
from finclaw.text import Language

log = logging.getLogger(__name__)

DIRECT_SECONDS: Final = 1.0
GROUP_SECONDS: Final = 4.0
"""Between two changes. Platforms count the edits in a group, and everybody there sees the message flicker."""
MOST_FAILURES: Final = 3  # edits in a row; then the answer comes when it is complete
MOST_BLOCKS: Final = 500  # of one turn while it runs: the end must find room behind them
STOP_LABELS: Final[dict[Language, str]] = {"en": "Stop", "ko": "중단"}
DeliveryRing = Callable[[DeliveryContext], Coroutine[Any, Any, Outbound]]


class EarlyOptions(Struct, frozen=True, kw_only=True):
    pauses: Mapping[str, Pause] = {}  # between two blocks, by channel
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
        self.store = store
        self.ring = ring
        self.sender = sender
        self.checks = checks
        self.stop_command = options.stop_command
        self.channels = channels
        self.clock = clock
        self._settings = settings
        self._pauses = options.pauses

    def get_options(self, capabilities: Capabilities) -> FormatOptions:
        return get_format_options(capabilities, self._settings.max_response_length)

    def follow(self, run: MessageRun, turn: TurnLog) -> AbstractAsyncContextManager[Emit]:
        """Return the emitter for the events of a turn, which shows its answer while it is being written."""
        channel = self.channels.get(run.inbound.channel)
        if channel is None or not self._settings.streaming_enabled:
            return nullcontext(self._with_previews(run, turn, run.emit))
        if not (channel.capabilities.blocks or channel.capabilities.edits):
            return nullcontext(self._with_previews(run, turn, run.emit))
        return self._show_early(EarlyTurn(self, run, turn, channel))

    def _with_previews(self, run: MessageRun, turn: TurnLog, emit: Emit) -> Emit:
        links = SafeLinks(turn.conversation, run.accepted.inbound)
        return PreviewEvents(emit, self.checks, links.text, run.make_draft).emit

    @asynccontextmanager
    async def _show_early(self, turn: "EarlyTurn") -> AsyncGenerator[Emit]:
        run = turn.run
        sequencer = ReplySequencer(self.clock, pause=self._pauses.get(turn.channel.name))
        run.sequencer = sequencer
        if turn.channel.capabilities.blocks:
            emit = self._with_previews(run, turn.log, run.emit)
            sizes = self._settings.blocks
            view = BlockDelivery(turn.log, emit, sequencer, turn.send_block, turn.send_note, sizes, self.clock)
            emit = view.follow
        else:
            view = LivePreview(turn, run.emit, self.clock, is_direct=run.inbound.chat_type == "direct")
            emit = self._with_previews(run, turn.log, view.follow)
        seconds = self._settings.still_working_s
        tool_notes = self._settings.tool_notes
        progress = Progress(view, emit, run.inbound, self.clock, seconds, tool_notes=tool_notes)

        def stop_sending() -> None:
            sequencer.cancel()
            view.cancel()
            turn.withdraw()

        run.stoppable.stop_sending = stop_sending
        try:
            yield progress.follow
            progress.close()
            turn.stop_waiting()
            await view.close()
        except BaseException:  # also while it waits for the last edit
            progress.close()
            turn.stop_waiting()
            sequencer.cancel()
            view.cancel()
            if run.stoppable.mark is not None:
                turn.withdraw()
            await view.close()
            raise
        finally:
            run.stoppable.stop_sending = None
            self.sender.watch(run.accepted.id, None)


class EarlyTurn:
    """One running turn of which something is shown early: it appends items to the outbox, and follows them."""

    def __init__(self, parts: EarlyDelivery, run: MessageRun, log: TurnLog, channel: Channel) -> None:
        self.run = run
        self.log = log
        self.channel = channel
        self._parts = parts
        self._latest: dict[str, OutboxItem] = {}
        self._moved = asyncio.Event()
        self._is_over = False
        parts.sender.watch(run.accepted.id, self._on_move)

    def _on_move(self, item: OutboxItem) -> None:
        self._latest[item.id] = item
        self._moved.set()

    def withdraw(self) -> None:
        """The turn was stopped: what has not left by now never does."""
        self._parts.sender.withdraw([item.id for item in self.log.items])
        for place, item in enumerate(self.log.items):
            known = self._latest.get(item.id, item)
            if known.state in ("planned", "unknown"):
                self.log.items[place] = replace(known, state="superseded")

    async def append(
        self, outbounds: Sequence[Outbound], mark: Callable[[OutboxItem, int], OutboxItem] = lambda item, _: item
    ) -> tuple[OutboxItem, ...]:
        """Append these as items; `mark` says what is special about each. Who is cancelled waits for the commit."""
        planned = self._parts.sender.plan(self.run.accepted, outbounds, self.log.claim.turn_id, len(self.log.items))
        items = tuple(mark(item, place) for place, item in enumerate(planned))

        def on_commit(written: tuple[OutboxItem, ...]) -> None:
            self.log.items += written
            self._parts.sender.enqueue(written)

        await self._parts.store.append_items(self.log.claim, items, on_commit)
        return items

    async def arrive(self, item: OutboxItem) -> OutboxItem:
        """Return the item once it was sent or superseded. Raises SendFailed as soon as its sending meets trouble."""
        while True:
            self._moved.clear()
            found = self._latest.get(item.id) or await self._parts.store.find_item(item.id)
            if found is None:
                raise SendFailed(f"item {item.id} did not arrive")
            if found.state in ("dead", "expired") or found.attempts or found.doubts:
                raise SendFailed(f"item {item.id} did not arrive, it is {found.state}")
            if found.state in ("sent", "superseded") or self._is_over:
                return found
            await self._moved.wait()

    def stop_waiting(self) -> None:
        """The turn ends: what has not arrived arrives before its end."""
        self._is_over = True
        self._moved.set()

    async def send_block(self, span: TextRange) -> bool:
        """Append a part of the answer to the outbox. False: it waits for the end, as does what a check objects to."""
        begun = bool(self.log.sent_text(span.answer))
        visible = await self._prepare("block", span.text, begun=begun)
        if visible is None:
            return False
        behind = TextRange(span.answer, span.start + len(span.text), "")

        def mark(item: OutboxItem, place: int) -> OutboxItem:
            return replace(item, span=behind if place else span)

        written = await self.append(visible.parts, mark)
        await self.arrive(written[-1])
        return True

    async def send_note(self, text: str) -> bool:
        if len(self.log.items) >= MOST_BLOCKS:
            return False
        capabilities = self.channel.capabilities
        note = Outbound(text=text, kind="notice", thread=self.run.inbound.thread, ephemeral=capabilities.ephemeral)
        written = await self.append(make_visible(note, capabilities).parts[:1])
        await self.arrive(written[-1])
        return True

    async def prepare_preview(self, text: str) -> Outbound | None:
        """Return the text as a person may see it now. None: nothing more may be shown before the end."""
        visible = await self._prepare("preview", text)
        if visible is None:
            return None
        outbound = visible.parts[0]
        if not self._parts.stop_command or self.channel.capabilities.buttons is None:
            return outbound
        command = f"{self._parts.stop_command} {self.run.accepted.id}"
        button = ActionButton(label=STOP_LABELS[self.run.inbound.reply_language], command=command)
        if not has_buttons_for(self.channel.capabilities, (button,)):
            return replace(outbound, actions=())
        return replace(outbound, actions=(button,))

    async def _prepare(self, kind: DraftKind, text: str, *, begun: bool = False) -> Visible | None:
        """None: it cannot be shown by itself. What an approved action gave is told before the model's words."""
        if self.log.told_action or len(self.log.items) >= MOST_BLOCKS:
            return None
        run = self.run
        outbound = Outbound(text=text, reply_to=run.reply_to, thread=run.inbound.thread)
        ctx = DeliveryContext(ids=run.ids, emit=run.emit, inbound=run.inbound, outbound=outbound, turn=None, kind=kind)
        passed = await self._parts.ring(ctx)
        passed = SafeLinks(self.log.conversation, run.accepted.inbound).outbound(passed, run.inbound.reply_language)
        capabilities = self.channel.capabilities
        visible = make_visible(passed, capabilities, begun=begun, options=self._parts.get_options(capabilities))
        if not visible.parts or passed.embeds or passed.attachments or passed.actions:
            return None
        if find_objection(self._parts.checks, run.make_draft(kind, visible.text)) is not None:
            return None
        return visible


class LivePreview:
    def __init__(self, turn: EarlyTurn, emit: Emit, clock: Clock, *, is_direct: bool) -> None:
        self._turn = turn
        self._log = turn.log
        self._channel = turn.channel
        self._emit = emit
        self._clock = clock
        self._every = DIRECT_SECONDS if is_direct else GROUP_SECONDS
        self._notes: list[str] = []
        self._words = ""
        self._status = ""
        self._shown = ""
        self._item: OutboxItem | None = turn.log.preview
        self._task: asyncio.Task[None] | None = None
        self._ended = False
        self._is_editing = False
        self._failures = 0
        self._due = 0.0
        self.changed_at = clock.monotonic()

    def follow(self, event: Event) -> None:
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
                if self._item is None or self._failures >= MOST_FAILURES:
                    self._ended = True
                wait = self._every
                if isinstance(error, SendFailed):
                    wait = max(wait, error.retry_after or 0)
                self._due = self._clock.monotonic() + wait
            except Exception as error:  # noqa: BLE001  a layer, a store or a channel failed: the end of the turn decides
                log.warning("no more of the answer is shown before its end: %s", describe_error(error))
                self._ended = True
            else:
                self._shown = text
                self._failures = 0
                self.changed_at = self._clock.monotonic()
                self._due = self.changed_at + self._every

    async def _show(self, text: str) -> None:
        outbound = await self._turn.prepare_preview(text)
        if outbound is None:
            raise SendRefused("it cannot be shown yet")
        if self._item is None:
            (self._item,) = await self._turn.append([outbound], lambda item, _: replace(item, is_preview=True))
            self._note_shown(outbound)
            self._item = await self._turn.arrive(self._item)
            return
        if self._item.platform_id is None:  # of a turn that was taken up again
            self._item = await self._turn.arrive(self._item)
        if self._item.platform_id is None:
            raise SendRefused("the preview was not shown")
        await self._edit(self._item.platform_id, replace(self._item, outbound=outbound))
        self._note_shown(outbound)

    def _note_shown(self, outbound: Outbound) -> None:
        self._log.previewed = TextRange(len(self._log.answers), 0, outbound.text)
        self._log.shown_preview = outbound

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


class Progress:
    """The notes on one turn: one for each tool where they are wanted, and one line when nothing was seen for long."""

    def __init__(
        self,
        view: BlockDelivery | LivePreview,
        emit: Emit,
        inbound: Inbound,
        clock: Clock,
        seconds: float,
        *,
        tool_notes: bool,
    ) -> None:
        self._view = view
        self._emit = emit
        self._language: Language = inbound.reply_language
        self._clock = clock
        self._wants_notes = tool_notes
        self._tools: dict[str, str] = {}
        self._timer: asyncio.Task[None] | None = None
        if seconds:
            self._timer = asyncio.create_task(self._tell_after(seconds), name="still working")

    def follow(self, event: Event) -> None:
        self._emit(event)
        if isinstance(event, ToolStartedEvent):
            self._tools[event.call_id] = event.tool
            if self._wants_notes:
                self._view.show_note(tool_note(event.tool, self._language))
        elif isinstance(event, ToolEndedEvent):
            self._tools.pop(event.call_id, None)

    async def _tell_after(self, seconds: float) -> None:
        while self._clock.monotonic() < self._view.changed_at + seconds:
            await self._clock.sleep(self._view.changed_at + seconds - self._clock.monotonic())
        running = next(reversed(self._tools.values()), "")
        self._view.show_status(progress_line(running, self._language))

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
