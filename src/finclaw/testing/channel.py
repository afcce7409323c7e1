"""An in-memory channel: the test writes to it and reads what came back.

Everything a platform can do wrong is a switch: failing sends, sends that arrive and fail all the same, sends
that hang, a lost connection, reactions that raise. `PROFILES` are the limits of platforms as these document them.
"""

import asyncio
from collections import deque
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from msgspec.structs import replace as changed

from finclaw.delivery.format import has_buttons_for, has_room_for
from finclaw.errors import AttachmentRefused, ChannelError, SendFailed, SendRefused, SendUnknown
from finclaw.kernel.envelope import Attachment, AttachmentKind, ButtonLimits, Capabilities, Inbound, Receipt, Sender
from finclaw.kernel.port import Accept, Channel, Clock
from finclaw.kernel.record import Accepted, OutboxItem

MB: Final = 1_000_000
MIB: Final = 1 << 20


def _media(image: int, other: int) -> dict[AttachmentKind, int]:
    return {"image": image, "audio": other, "video": other, "file": other}


_CHAT: Final = Capabilities(reactions=True, edits=True, deletes=True, threads=True, debounce_ms=1_000)
PROFILES: Final = {
    # What a bot may download ends at 20 MB; a callback's data is 64 bytes, and a reaction needs no permission.
    "telegram": changed(
        _CHAT,
        max_length=4_096,
        length_unit="utf16",
        max_marks=100,
        markup="inline_html",
        typing=True,
        buttons=ButtonLimits(count=100, label=64, data=64),
        media=_media(10 * MB, 20 * MB),
    ),
    # Five rows of five buttons; uploads of an account without a subscription.
    "discord": changed(
        _CHAT,
        max_length=2_000,
        markup="markdown",
        typing=True,
        embeds=True,
        ephemeral=True,
        buttons=ButtonLimits(count=25, label=80, data=100),
        media=_media(10 * MIB, 10 * MIB),
    ),
    # Longer texts are taken, but not shown as one message; a row of buttons has 25 at most.
    "slack": changed(
        _CHAT,
        max_length=4_000,
        markup="mrkdwn",
        ephemeral=True,
        buttons=ButtonLimits(count=25, label=75, data=2_000),
        media=_media(50 * MB, 50 * MB),
    ),
    # An event of 65,536 bytes holds the words twice, once as HTML, and what the server adds.
    "matrix": changed(
        _CHAT,
        max_length=16_000,
        length_unit="bytes",
        markup="html",
        typing=True,
        media=_media(50 * MIB, 50 * MIB),
        idempotent=True,
    ),
    "web": Capabilities(
        max_length=100_000,
        markup="markdown",
        edits=True,
        deletes=True,
        buttons=ButtonLimits(count=25, label=80, data=4_000),
        media=_media(10 * MB, 10 * MB),
        idempotent=True,
    ),
    "plain": Capabilities(max_length=1_000),
}
"""Capabilities as the platforms' own documents give them for bots, for tests of what must work on each."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A sent item that a person could read, and when."""

    unit: OutboxItem
    at: datetime
    platform_id: str

    @property
    def text(self) -> str:
        return self.unit.outbound.text

    @property
    def formatted(self) -> str:
        """In the channel's markup."""
        return self.unit.outbound.formatted


@dataclass(frozen=True, slots=True)
class _Trouble:
    error: SendFailed | SendRefused | SendUnknown
    arrives: bool


class MemoryChannel(Channel):
    """A Channel in memory. `attempts` holds every unit handed to `send`, `sent` those that became visible.

    What its capabilities do not allow is refused, as a platform would.
    """

    def __init__(self, clock: Clock, *, name: str = "memory", capabilities: Capabilities | None = None) -> None:
        self._clock = clock
        self.name = name
        self.capabilities = capabilities or Capabilities(reactions=True, typing=True)
        self._accept: Accept | None = None
        self._broken: ChannelError | None = None
        self._trouble: deque[_Trouble] = deque()
        self._edit_trouble: deque[SendFailed | SendRefused | SendUnknown] = deque()
        self._receipts: dict[str, Receipt] = {}
        self._shown = 0
        self._open = asyncio.Event()
        self._open.set()
        self._changed = asyncio.Event()
        self.closed = False
        self.files: dict[str, bytes] = {}  # what `fetch` finds, by the attachment's id
        self.attempts: list[OutboxItem] = []
        self.sent: list[Sent] = []
        self.edits: list[tuple[datetime, str, str]] = []
        """When a message was changed, which one, and into what."""
        self.reactions: list[tuple[str, str | None]] = []
        self.reaction_error: Exception | None = None
        self.typing_log: list[tuple[str, bool]] = []

    async def receive(self, accept: Accept) -> None:
        self._accept = accept
        self._broken = None
        self._pulse()
        try:
            while self._broken is None:
                await self._change()
            raise self._broken
        finally:
            self._accept = None

    async def send(self, unit: OutboxItem) -> Receipt:
        self.attempts.append(unit)
        self._pulse()
        await self._open.wait()
        trouble = self._trouble.popleft() if self._trouble else None
        if trouble is not None and not trouble.arrives:
            raise trouble.error
        self._must_fit(unit)
        receipt = self._show(unit)
        if trouble is not None:
            raise trouble.error
        return receipt

    async def react(self, inbound: Inbound, emoji: str | None) -> None:
        if self.reaction_error is not None:
            raise self.reaction_error
        self.reactions.append((inbound.message_id, emoji))

    async def typing(self, inbound: Inbound, active: bool) -> None:
        self.typing_log.append((inbound.message_id, active))

    async def edit(self, platform_id: str, unit: OutboxItem) -> None:
        if not self.capabilities.edits:
            return await super().edit(platform_id, unit)
        await self._open.wait()
        if self._edit_trouble:
            raise self._edit_trouble.popleft()
        self._must_fit(unit)
        place = self._find(platform_id)
        if place is None:
            raise SendRefused(f"there is no message {platform_id}")
        self.sent[place] = replace(self.sent[place], unit=unit)
        self.edits.append((self._clock.now(), platform_id, unit.outbound.text))
        self._pulse()
        return None

    async def delete(self, platform_id: str) -> None:
        if not self.capabilities.deletes:
            return await super().delete(platform_id)
        place = self._find(platform_id)
        if place is not None:
            del self.sent[place]
            self._pulse()
        return None

    async def fetch(self, attachment: Attachment) -> bytes:
        most = self.capabilities.media.get(attachment.kind)
        if most is None:
            return await super().fetch(attachment)
        data = self.files.get(attachment.id)
        if data is None:
            raise AttachmentRefused(f"there is no file {attachment.id!r}")
        if max(len(data), attachment.size or 0) > most:
            raise AttachmentRefused(f"file {attachment.id!r} is larger than the {most:,} bytes of {self.name}")
        return data

    async def close(self) -> None:
        self.closed = True

    async def deliver(self, inbound: Inbound) -> Accepted:
        """A message arrives. Waits for `receive` to be running; returns once it is accepted."""
        while self._accept is None:
            await self._change()
        return await self._accept(inbound)

    async def write(self, text: str, *, sender: str = "ada", **fields: Any) -> Accepted:
        """A person writes. `fields` are those of Inbound."""
        return await self.deliver(Inbound(text=text, channel=self.name, sender=Sender(sender), **fields))

    def fail_next(
        self, error: SendFailed | SendRefused | SendUnknown, *, times: int = 1, arrives: bool = False
    ) -> None:
        """The next sends raise. With `arrives` the person sees the unit all the same: nobody can know."""
        self._trouble.extend([_Trouble(error, arrives)] * times)

    def fail_next_edits(self, error: SendFailed | SendRefused | SendUnknown, *, times: int = 1) -> None:
        self._edit_trouble.extend([error] * times)

    def hold_sends(self) -> None:
        """Sends and edits wait until they are released."""
        self._open.clear()

    def release_sends(self) -> None:
        self._open.set()

    def break_off(self, error: ChannelError) -> None:
        """`receive` raises, as when a socket is gone; the app starts it again."""
        self._broken = error
        self._pulse()

    async def until_sent(self, count: int) -> list[Sent]:
        """Wait until so many units are visible."""
        while len(self.sent) < count:
            await self._change()
        return self.sent[:count]

    async def until_tried(self, count: int) -> list[OutboxItem]:
        """Wait until so many sends were begun."""
        while len(self.attempts) < count:
            await self._change()
        return self.attempts[:count]

    def _must_fit(self, unit: OutboxItem) -> None:
        outbound = unit.outbound
        # Telegram counts the words that are left when it has read the tags.
        counted = outbound.fallback if self.capabilities.markup == "inline_html" else outbound.formatted
        if outbound.actions and not has_buttons_for(self.capabilities, outbound.actions):
            raise SendRefused(f"{self.name} does not take these buttons")
        if any(each.kind not in self.capabilities.media for each in outbound.attachments):
            raise SendRefused(f"{self.name} does not carry these files")
        if not has_room_for(self.capabilities, counted):
            most = self.capabilities.max_length
            counted = self.capabilities.length_unit
            raise SendRefused(f"the text is longer than {most:,} {counted}")

    def _find(self, platform_id: str) -> int | None:
        return next((place for place, each in enumerate(self.sent) if each.platform_id == platform_id), None)

    def _show(self, unit: OutboxItem) -> Receipt:
        if self.capabilities.idempotent and unit.token in self._receipts:
            return self._receipts[unit.token]
        self._shown += 1
        receipt = Receipt(f"{self.name}-{self._shown}")
        self.sent.append(Sent(unit, self._clock.now(), receipt.platform_id))
        self._receipts[unit.token] = receipt
        self._pulse()
        return receipt

    def _pulse(self) -> None:
        changed = self._changed
        self._changed = asyncio.Event()
        changed.set()

    async def _change(self) -> None:
        await self._changed.wait()
