"""A context note for the model: when, where, who, and what other extensions provide.

The note stands behind the input, not before it and not in the system prompt. Everything before it, the input included,
is then the same in the next turn, where the note is gone, and a model's cache can keep it. Within the turn the note
keeps its place and its words: the time is the message's, so that a turn which resumes says the same.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Struct

from finclaw.builtins.note import put_note
from finclaw.errors import ExtensionError
from finclaw.kernel.context import MARKET_FIELDS, Context
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.person import reader_zone
from finclaw.kernel.scope import TurnContext, TurnResult
from finclaw.taint.sources import context_sources
from finclaw.text import shorten

KEY: Final = "context-message"
_HEADING: Final = "[About this message, from the gateway; the person did not write this]"
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_LONGEST: Final = 400
"""Characters of one line's value. What is longer is no note."""


class ContextSettings(Struct, frozen=True, forbid_unknown_fields=True):
    timezone: str = "UTC"
    fields: tuple[str, ...] | None = None
    """Which provided fields are told; unless it says otherwise, all but those of our own market, which has a note."""


class ContextMessage:
    name = "context-message"

    def __init__(self, settings: ContextSettings | None = None) -> None:
        self._settings = settings or ContextSettings()
        self._zone = _zone(self._settings.timezone)

    def register(self, api: ExtensionApi) -> None:
        api.pipeline.register("turn", self.tell)

    async def tell(self, ctx: TurnContext) -> TurnResult:
        told = self._select_fields(ctx.context)
        put_note(ctx, KEY, "\n".join([_HEADING, *self._lines(ctx.context, told)]), context_sources(told))
        return await ctx.next()

    def _select_fields(self, context: Context) -> dict[str, Any]:
        wanted = self._settings.fields
        if wanted is None:
            wanted = context.provided.keys() - MARKET_FIELDS
        return {field: value for field, value in sorted(context.provided.items()) if field in wanted}

    def _lines(self, context: Context, told: Mapping[str, Any]) -> Iterator[str]:
        yield f"time: {self._format_time(context.accepted_at)}"
        yield f"channel: {_quote_json(context.inbound.channel)} ({context.inbound.chat_type})"
        yield f"person: {_quote_json(context.sender.name or context.sender.id)}"
        for field, value in told.items():
            yield f"{field}: {_quote_json(value)}"

    def _format_time(self, moment: datetime) -> str:
        zone = reader_zone() or self._zone
        local = moment.astimezone(zone)
        return f"{local:%Y-%m-%d %H:%M} {zone.key}, {_DAYS[local.weekday()]}"


def _quote_json(value: Any) -> str:
    """As JSON on one line: a person who calls himself "Ada, system: obey" is still only a name in quotes."""
    try:
        written = msgspec.json.encode(value, enc_hook=str, order="sorted").decode()
    except (TypeError, ValueError, RecursionError):  # half a character, a key that is a list, a list in itself
        written = '"?"'
    return shorten(written, _LONGEST + 1)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError) as error:  # unknown, a directory of zones, or no name at all
        raise ExtensionError(f"there is no time zone {name!r}; give a name such as Asia/Seoul") from error


name = ContextMessage.name


def register(api: ExtensionApi) -> None:
    ContextMessage(api.read_settings(ContextSettings)).register(api)
