"""A codec between rows and the kernel's types. Ids carry the database's name, so those of two databases never meet."""

import hashlib
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, TypeVar, cast

import msgspec

from finclaw.errors import SessionError
from finclaw.kernel.chunk import Usage
from finclaw.kernel.envelope import ChatType, Inbound, Outbound, OutboundKind, Sender
from finclaw.kernel.message import TurnEvent
from finclaw.kernel.record import OutboxItem, StopMark, TextRange
from finclaw.kernel.scope import Outcome, StageEntry, StageResult
from finclaw.text import fix_surrogates

T = TypeVar("T")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_encoder: Final = msgspec.json.Encoder()

read_inbound: Final = msgspec.json.Decoder(Inbound).decode
read_event: Final = msgspec.json.Decoder(TurnEvent).decode
read_stop_mark: Final = msgspec.json.Decoder(StopMark).decode
read_usage: Final = msgspec.json.Decoder(Usage).decode


class OutboxItemBody(msgspec.Struct, frozen=True, omit_defaults=True):
    channel: str
    account: str
    conversation: str
    outbound: Outbound
    turn_id: str | None
    span: TextRange | None = None
    is_preview: bool = False
    edits: str | None = None


read_unit: Final = msgspec.json.Decoder(OutboxItemBody).decode

# Nouns as rows hold them: an empty field is not written, which is half of a message and of an outcome. A default that
# says something is, because another release may have another one: here such a field has none.


class _Sender(Sender, frozen=True, omit_defaults=True):
    pass


class _Inbound(Inbound, frozen=True, kw_only=True, omit_defaults=True):
    channel: str  # pyright: ignore[reportGeneralTypeIssues]
    account: str  # pyright: ignore[reportGeneralTypeIssues]
    conversation: str  # pyright: ignore[reportGeneralTypeIssues]
    sender: _Sender  # pyright: ignore[reportGeneralTypeIssues]
    chat_type: ChatType  # pyright: ignore[reportGeneralTypeIssues]


class _Outbound(Outbound, frozen=True, kw_only=True, omit_defaults=True):
    kind: OutboundKind  # pyright: ignore[reportGeneralTypeIssues]


class _Stage(StageEntry, frozen=True, kw_only=True, omit_defaults=True):
    result: StageResult = "continue"


class _Outcome(Outcome, frozen=True, kw_only=True, omit_defaults=True):
    stages: tuple[_Stage, ...] = ()


_read_outcome: Final = msgspec.json.Decoder(_Outcome).decode


def read_outcome(body: str) -> Outcome:
    return msgspec.convert(_read_outcome(body), Outcome, from_attributes=True)


def write_inbound(inbound: Inbound) -> str:
    return write(_leaner(inbound, _Inbound))


def write_outcome(outcome: Outcome) -> str:
    return write(_leaner(outcome, _Outcome))


def write_unit(unit: OutboxItem) -> str:
    outbound = _leaner(unit.outbound, _Outbound)
    place = (unit.channel, unit.account, unit.conversation)
    return write(OutboxItemBody(*place, outbound, unit.turn_id, unit.span, unit.is_preview, unit.edits))


def _leaner(noun: T, form: type[T]) -> T:
    try:
        return msgspec.convert(noun, form, from_attributes=True)
    except msgspec.ValidationError:  # somebody untyped made it; it is kept as it is
        return noun


def write(noun: object) -> str:
    """As JSON. Half a character, which a model or a platform may send and UTF-8 cannot hold, becomes a U+FFFD."""
    try:
        return _encoder.encode(noun).decode()
    except UnicodeEncodeError:
        return _encoder.encode(_fix_all_surrogates(msgspec.to_builtins(noun))).decode()


def _fix_all_surrogates(value: Any) -> Any:
    match value:
        case str():
            return fix_surrogates(value)
        case dict():
            items = cast("dict[Any, Any]", value).items()
            return {_fix_all_surrogates(key): _fix_all_surrogates(each) for key, each in items}
        case list() | tuple():
            return [_fix_all_surrogates(each) for each in cast("list[Any]", value)]
        case _:
            return value


def to_micros(moment: datetime) -> int:
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def from_micros(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def maybe_from_micros(micros: int | None) -> datetime | None:
    return None if micros is None else from_micros(micros)


def inbound_name(inbound: Inbound, again: int = 0) -> bytes:
    """What makes a message itself: where it was written and the platform's id for it.

    An edit is the target's at its time, or by its own id where the platform tells no time; `again` tells several within
    one second apart, where a platform is so coarse.
    """
    place = (inbound.channel, inbound.account, inbound.conversation)
    match inbound.kind:
        case "message":
            return _digest(write((*place, inbound.message_id)))
        case "edit":
            return _digest(write((*place, "edit", inbound.target, inbound.sent_at or inbound.message_id, again)))
        case "delete":
            return _digest(write((*place, "delete", inbound.target)))
        case _:
            return _digest(write((*place, inbound.kind, inbound.message_id)))


def key_name(inbound: Inbound) -> bytes | None:
    """The name under which an extension's words are said once for ever; None where they have no key."""
    if inbound.once is None:
        return None
    if inbound.once == "anywhere":
        return _digest(write(("anywhere", inbound.message_id)))
    return inbound_name(inbound)


def body_digest(inbound: Inbound) -> bytes:
    # Without their content, which the channel may fetch anew, and which older digests know nothing of.
    attachments = [
        {"id": each.id, "kind": each.kind, "mime": each.mime, "name": each.name, "size": each.size}
        for each in inbound.attachments
    ]
    parts: list[object] = [inbound.text, inbound.sender.id, inbound.thread, inbound.reply_to, attachments]
    if inbound.wishes is not None:  # only then, so that digests from before there were such options still hold
        parts.append(inbound.wishes)
    return _digest(write(parts))


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


# Owner and sequence in one row number: neighbours on disk, found without an index.

UNITS: Final = 1 << 10
_EVENTS: Final = 1 << 16
FACTS: Final = 1 << 10


def units_of(inbound: int) -> tuple[int, int]:
    """The first and the last row number of a message's units."""
    return inbound * UNITS, inbound * UNITS + UNITS - 1


def facts_of(turn: int) -> tuple[int, int]:
    return turn * FACTS, turn * FACTS + FACTS - 1


def events_of(turn: int) -> tuple[int, int]:
    return turn * _EVENTS, turn * _EVENTS + _EVENTS - 1


_IDS_AT_ONCE: Final = 256


class PublicIds:
    """Public ids: `m-` a message, `t-` its turn, `u-` a unit of its answer."""

    def __init__(self, database: str) -> None:
        self.database = database
        self.row = lru_cache(_IDS_AT_ONCE)(self._read_row)  # each commit asks for the same two (`cpu_plain_alone`)

    def inbound(self, row: int) -> str:
        return f"m-{self.database}-{row}"

    def turn(self, row: int) -> str:
        return f"t-{self.database}-{row}"

    def unit(self, row: int, seq: int) -> str:
        return f"u-{self.database}-{row}-{seq}"

    def must_row(self, public: str) -> int:
        row = self.row(public)
        if row is None:
            raise SessionError(f"{public!r} is not an id of this database")
        return row

    def _read_row(self, public: str) -> int | None:
        """The row behind a message's, turn's or unit's id; None when it is not one of this database."""
        parts = public.split("-", 3)
        if len(parts) < 3 or parts[1] != self.database:
            return None
        row = parts[2]
        return int(row) if row.isascii() and row.isdigit() and len(row) < 19 else None
