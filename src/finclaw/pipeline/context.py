"""Stage 5, context: who is asking, where, and with which settings.

What can go stale is filled in when the turn begins, and so are the fields of extensions.
"""

import asyncio
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from finclaw.cancellation import asked_to_stop
from finclaw.kernel.context import Context, ContextField
from finclaw.kernel.envelope import Capabilities, Inbound, Sender
from finclaw.kernel.person import Person
from finclaw.kernel.port import Channel, Clock
from finclaw.kernel.record import Accepted
from finclaw.kernel.scope import MessageContext
from finclaw.kernel.store_port import BlobStore
from finclaw.kernel.turn_options import TurnOptions
from finclaw.pipeline.attachments import AttachmentFetcher
from finclaw.pipeline.gate import NormalMessage
from finclaw.pipeline.persons import PersonDirectory


class Contexts:
    """The stage that builds the context of a message."""

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
        found = self._defaults | {each.field: _compute(each, context) for each in self._computed}
        context = replace(context, provided=_freeze(found))
        asked = [each for each in self._fetched if _is_wanted(each, context)]
        if not asked:
            return context
        values = await asyncio.gather(*(self._ask(each, context) for each in asked))
        found |= {each.field: value for each, value in zip(asked, values, strict=True)}
        return replace(context, provided=_freeze(found))

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


def _compute(provided: ContextField, context: Context) -> Any:
    try:
        return provided.fetch(context)
    except Exception:  # a provider is a stranger; the turn goes on without what it knows
        provided.logger.exception("the context field %r could not be computed", provided.field)
        return provided.default


def _is_wanted(provided: ContextField, context: Context) -> bool:
    if provided.when is None:
        return True
    try:
        return provided.when(context)
    except Exception:  # as above
        provided.logger.exception("nobody could tell whether the context field %r is wanted", provided.field)
        return False


def _freeze(found: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType({name: value for name, value in found.items() if value is not UNSET})


def _ignore_result(fetching: "asyncio.Future[Any]") -> None:
    if not fetching.cancelled():
        fetching.exception()
