"""Files that come with a message: fetched from its channel, kept as blobs, and shown or named to the model.

The message is on disk before. A fetch that a crash cuts is done again; the same content is the same blob.
"""

import asyncio
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Final, cast

from msgspec.structs import replace

from finclaw.cancellation import asked_to_stop
from finclaw.errors import AttachmentRefused, BlobRefused, ChannelError
from finclaw.kernel.envelope import Attachment, AttachmentProblem, Inbound
from finclaw.kernel.message import Image, Text
from finclaw.kernel.port import Channel, Clock
from finclaw.kernel.store_port import BlobStore

log = logging.getLogger(__name__)

FETCHED_KINDS: Final = ("image", "file")
"""Recordings and videos are only named: nothing here can listen or watch."""
MOST_FILES: Final = 10
"""Of one message."""
MOST_BYTES: Final = 20_000_000
"""As the store keeps at most."""
MOST_SIDE: Final = 8_000
"""Pixels. A wider or higher picture is kept and not shown: APIs refuse the request, and every one after it."""
FETCH_SECONDS: Final = 60.0
"""For one try at one file."""
ALL_SECONDS: Final = 120.0
"""For all files of a message; the answer waits no longer for them."""
RETRY_SECONDS: Final = (1.0, 5.0)
AT_ONCE: Final = 4
"""Files of one channel in memory at a time."""

_SHOWN: Final = frozenset(("image/jpeg", "image/png", "image/gif", "image/webp"))
"""Types that every API takes."""
_MIME: Final = re.compile(r"[a-z0-9][a-z0-9.+-]{0,60}/[a-z0-9][a-z0-9.+-]{0,60}")
_MOST_NAMED: Final = 10
_LONGEST_NAME: Final = 80
_UNSAFE_IN_NAME: Final = re.compile(r"[^\w.() -]")


class AttachmentFetcher:
    """A fetcher of the files that messages bring, each of them once."""

    def __init__(self, store: BlobStore, channels: Mapping[str, Channel], clock: Clock) -> None:
        self._store = store
        self._channels = channels
        self._clock = clock
        self._seats: dict[str, asyncio.Semaphore] = {}

    async def fetch(self, inbound_id: str, inbound: Inbound) -> Inbound:
        """The message with its files kept; of each that could not be, it says why. Raises StoreFailed."""
        channel = self._channels.get(inbound.channel)
        if channel is None:
            return inbound
        media = channel.capabilities.media
        wanted = [each for each in inbound.attachments if _must_fetch(each) and each.kind in media]
        if not wanted:
            return inbound
        kept = {each.id: replace(each, problem="unreachable") for each in wanted[:MOST_FILES]}
        kept |= {each.id: replace(each, problem="many") for each in wanted[MOST_FILES:]}
        try:
            async with asyncio.timeout(ALL_SECONDS):
                for each in wanted[:MOST_FILES]:
                    kept[each.id] = await self._keep(channel, each, min(MOST_BYTES, media[each.kind]))
        except TimeoutError:
            log.warning("files of channel %s took longer than %g s; the rest is left out", channel.name, ALL_SECONDS)
        await self._store.keep_attachments(inbound_id, tuple(kept.values()))
        return replace(inbound, attachments=tuple(kept.get(each.id, each) for each in inbound.attachments))

    async def _keep(self, channel: Channel, attachment: Attachment, most: int) -> Attachment:
        if (attachment.size or 0) > most:
            return replace(attachment, problem="large")
        async with self._seats.setdefault(channel.name, asyncio.Semaphore(AT_ONCE)):
            data = await self._fetch_bytes(channel, attachment)
            if isinstance(data, str):
                return replace(attachment, problem=data)
            if len(data) > most:
                return replace(attachment, problem="large")
            try:
                blob = await self._store.put_blob(data, _safe_mime(attachment.mime))
            except BlobRefused as error:
                log.info("a file of channel %s is not kept: %s", channel.name, error)
                return replace(attachment, problem="broken")
        can_show = blob.media_type in _SHOWN and max(blob.width, blob.height) <= MOST_SIDE
        return replace(
            attachment,
            kind="image" if can_show else "file",
            mime=blob.media_type,
            size=blob.size,
            blob=blob.sha256,
            problem=None,
        )

    async def _fetch_bytes(self, channel: Channel, attachment: Attachment) -> bytes | AttachmentProblem:
        for wait in (*RETRY_SECONDS, None):
            problem = await self._try(channel, attachment)
            if problem != "unreachable" or wait is None:
                return problem
            await self._clock.sleep(wait)
        return "unreachable"

    async def _try(self, channel: Channel, attachment: Attachment) -> bytes | AttachmentProblem:
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                data = cast("object", await channel.fetch(attachment))
        except AttachmentRefused as error:
            log.info("channel %s did not give a file: %s", channel.name, error)
            return "refused"
        except (ChannelError, TimeoutError) as error:
            log.warning("a file could not be fetched from channel %s: %r", channel.name, error)
        except Exception:  # a channel is a stranger; a message is not lost with its file
            log.exception("channel %s broke its promise while fetching a file", channel.name)
        except asyncio.CancelledError:
            if asked_to_stop():
                raise
            log.exception("channel %s let a cancellation out while fetching a file", channel.name)
        else:
            return data if isinstance(data, bytes) else "refused"
        return "unreachable"


def _must_fetch(attachment: Attachment) -> bool:
    """What was refused for good is not asked for again after a crash."""
    return attachment.kind in FETCHED_KINDS and attachment.blob is None and attachment.problem in (None, "unreachable")


def _safe_mime(mime: str) -> str:
    """A type that anybody may have made up, as it can be kept and named."""
    lower = mime.partition(";")[0].strip().lower()
    return lower if _MIME.fullmatch(lower) else "application/octet-stream"


# ── as the model reads them ─────────────────────────────────────────────────────────────────────────────────────

_PROBLEMS: Final[dict[AttachmentProblem, str]] = {
    "large": "it is too large to be fetched",
    "broken": "it is empty, damaged or of a kind that is not kept",
    "refused": "the chat did not hand it out: it is too large or gone",
    "unreachable": "the chat could not be reached for it",
    "many": f"only the first {MOST_FILES} files of a message are taken",
}


def show_attachments(attachments: Sequence[Attachment]) -> tuple[Text | Image, ...]:
    """Pictures whose content is kept, for a model that sees; a note about the rest."""
    pictures = [each for each in attachments if each.kind == "image" and each.blob is not None]
    unseen = [each for each in attachments if each not in pictures]
    return (*(Image(each.mime, blob=each.blob or "") for each in pictures), *_describe_attachments(unseen))


def _describe_attachments(attachments: Sequence[Attachment]) -> tuple[Text, ...]:
    """A note behind the person's words: nothing reads these attachments yet, and one alone must not be a blank message.

    Their names are somebody's text, so that nothing but letters, digits and a few marks is kept of one.
    """
    if not attachments:
        return ()
    listed = ", ".join(_describe_attachment(each) for each in attachments[:_MOST_NAMED])
    more = f" and {len(attachments) - _MOST_NAMED} more" if len(attachments) > _MOST_NAMED else ""
    return (Text(f"\n[From the gateway: sent with this message: {listed}{more}. You cannot see what is in it.]"),)


def _describe_attachment(attachment: Attachment) -> str:
    kind = {"image": "a picture", "audio": "a recording", "video": "a video", "file": "a file"}[attachment.kind]
    name = safe_name(attachment.name)
    described = f"{kind} ({name})" if name else kind
    return described if attachment.problem is None else f"{described}, not received: {_PROBLEMS[attachment.problem]}"


def safe_name(name: str) -> str:
    """The file's name without its directories and whatever could be taken for more than a name; perhaps empty."""
    last = re.split(r"[/\\]", name)[-1]
    short = _UNSAFE_IN_NAME.sub("_", last)[-_LONGEST_NAME:]
    return short if short.strip("_. ") else ""
