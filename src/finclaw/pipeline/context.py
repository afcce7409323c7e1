"""Stage 5, context: what a turn knows of its message, with the files that came with it.

What can go stale is filled in when the turn begins, and so are the fields of extensions. A fetch that a crash cuts is
done again; the same content is the same blob.
"""

import asyncio
import logging
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, cast

from msgspec import UNSET
from msgspec.structs import replace

from finclaw.cancellation import asked_to_stop
from finclaw.errors import AttachmentRefused, BlobRefused, ChannelError
from finclaw.kernel.context import Context, ContextField
from finclaw.kernel.envelope import Attachment, AttachmentProblem, Capabilities, Inbound, Sender, TurnOptions
from finclaw.kernel.message import Image, Text
from finclaw.kernel.person import Person
from finclaw.kernel.port import Channel, Clock
from finclaw.kernel.record import Accepted
from finclaw.kernel.scope import MessageContext
from finclaw.kernel.store_port import BlobStore
from finclaw.pipeline.gate import NormalMessage
from finclaw.pipeline.persons import PersonDirectory

log = logging.getLogger(__name__)


class Contexts:
    def __init__(
        self,
        agent: str,
        channels: Mapping[str, Channel],
        store: BlobStore,
        clock: Clock,
        persons: PersonDirectory | None = None,
    ) -> None:
        self._agent = agent
        self._channels = channels
        self._files = AttachmentFetcher(store, channels, clock)
        self._persons = persons or PersonDirectory()

    def find_person(self, inbound: Inbound) -> Person:
        return self._persons.find(inbound)

    async def fetch_files(self, run: MessageContext, message: NormalMessage) -> NormalMessage:
        """The message with its files. Of somebody who was not admitted, none is fetched."""
        if not message.inbound.attachments:
            return message
        run.inbound = await self._files.fetch(run.ids["inbound_id"], message.inbound)
        return replace(message, inbound=run.inbound)

    def build(self, accepted: Accepted, message: NormalMessage, sender: Sender) -> Context:
        """From the message as the pipeline got it: a message layer may have changed it since it was accepted."""
        channel = self._channels.get(accepted.inbound.channel)
        limits = message.inbound.limits
        return Context(
            inbound=message.inbound,
            accepted=accepted.inbound,
            inbound_id=accepted.id,
            body=message.inbound.text,
            command_text=message.content,
            sender=sender,
            person=self._persons.find(message.inbound),
            session_key=accepted.session,
            agent=self._agent,
            capabilities=Capabilities() if channel is None else channel.capabilities,
            mentions=message.mentions,
            urls=message.urls,
            accepted_at=accepted.accepted_at,
            wishes=(limits and limits.wishes) or message.inbound.wishes or TurnOptions(),
        )


class ContextFieldProviders:
    """The providers of context fields of extensions: asked all at once, each within its budget, none needed."""

    def __init__(self, fields: Sequence[ContextField], clock: Clock) -> None:
        self._fields = fields
        self._computed = tuple(each for each in fields if each.is_computed)
        self._fetched = tuple(each for each in fields if not each.is_computed)
        self._defaults = {each.field: each.default for each in self._fetched}
        self._clock = clock

    async def fill(self, context: Context) -> Context:
        """The context with every field that came in time; one that failed or was late has its default (M-64)."""
        if not self._fields:
            return context
        found = self._defaults | self._compute_fields(context)
        context = replace(context, provided=_freeze(found))
        asked = self._find_wanted(context)
        if not asked:
            return context
        values = await asyncio.gather(*(self._ask(each, context) for each in asked))
        found |= {each.field: value for each, value in zip(asked, values, strict=True)}
        return replace(context, provided=_freeze(found))

    def _compute_fields(self, context: Context) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for each in self._computed:
            try:
                found[each.field] = each.fetch(context)
            except Exception:  # a provider is a stranger; the turn goes on without what it knows
                each.logger.exception("the context field %r could not be computed", each.field)
                found[each.field] = each.default
        return found

    def _find_wanted(self, context: Context) -> list[ContextField]:
        wanted: list[ContextField] = []
        for each in self._fetched:
            try:
                if each.when is None or each.when(context):
                    wanted.append(each)
            except Exception:  # as above
                each.logger.exception("nobody could tell whether the context field %r is wanted", each.field)
        return wanted

    async def _ask(self, provided: ContextField, context: Context) -> Any:
        try:
            return await self._fetch_within_budget(provided, context)
        except TimeoutError:
            provided.logger.warning("the context field %r took longer than %g s", provided.field, provided.budget)
        except Exception:  # a provider is a stranger; the turn goes on without what it knows
            provided.logger.exception("the context field %r could not be provided", provided.field)
        except asyncio.CancelledError:
            if asked_to_stop():
                raise
            provided.logger.exception("the context field %r was cancelled from inside", provided.field)
        return provided.default

    async def _fetch_within_budget(self, provided: ContextField, context: Context) -> Any:
        """By the clock. One that ignores its cancellation is left behind; nobody waits for it."""
        fetching = asyncio.ensure_future(provided.fetch(context))
        limit = asyncio.ensure_future(self._clock.sleep(provided.budget))
        try:
            await asyncio.wait({fetching, limit}, return_when=asyncio.FIRST_COMPLETED)
            if not fetching.done():
                raise TimeoutError
            return fetching.result()
        finally:
            limit.cancel()
            fetching.cancel()
            fetching.add_done_callback(_ignore_result)


def _freeze(found: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType({name: value for name, value in found.items() if value is not UNSET})


def _ignore_result(fetching: "asyncio.Future[Any]") -> None:
    if not fetching.cancelled():
        fetching.exception()


FETCHED_KINDS: Final = ("image", "file")
"""Recordings and videos are only named: nothing here can listen or watch."""
MOST_FILES: Final = 10  # of one message
MOST_BYTES: Final = 20_000_000  # as the store keeps at most
MOST_SIDE: Final = 8_000
"""Pixels. A wider or higher picture is kept and not shown: APIs refuse the request, and every one after it."""
FETCH_SECONDS: Final = 60.0  # for one try at one file
ALL_SECONDS: Final = 120.0  # for all files of a message; the answer waits no longer for them
RETRY_SECONDS: Final = (1.0, 5.0)
AT_ONCE: Final = 4  # files of one channel in memory at a time
_SHOWN: Final = frozenset(("image/jpeg", "image/png", "image/gif", "image/webp"))
"""Types that every API takes."""
_MIME: Final = re.compile(r"[a-z0-9][a-z0-9.+-]{0,60}/[a-z0-9][a-z0-9.+-]{0,60}")
_MOST_NAMED: Final = 10
_LONGEST_NAME: Final = 80
_UNSAFE_IN_NAME: Final = re.compile(r"[^\w.() -]")


class AttachmentFetcher:
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
                mime = attachment.mime.partition(";")[0].strip().lower()  # anybody may have made it up
                if not _MIME.fullmatch(mime):
                    mime = "application/octet-stream"
                blob = await self._store.put_blob(data, mime)
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
