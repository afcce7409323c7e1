"""Ids of approvals: made, read as people type them, hashed with their action, and taken out of what models read.

A person needs an id to decide; a model that knew one could write a false card around it. So what is sent to a model
holds a mark in place of every id, whoever wrote it there and however long ago."""

import hashlib
import json
import operator
import re
import secrets
from collections.abc import Mapping
from types import NoneType
from typing import Any, Final, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from finclaw.errors import InvalidArguments
from finclaw.kernel.message import Block, Image, Message, Text, Thinking, ToolCall, ToolResult

T = TypeVar("T", bound=Struct)

_WHOLE: Final = "ap-[0-7oil][0-9a-tv-z]{25}"
"""As `read_approval_id` takes it, with what it forgives."""
_SHORT: Final = "(?<![0-9a-z])ap-(?=[0-9]*[a-z])[0-7][0-9a-tv-z]{7,24}(?![0-9a-z])"
"""The beginning of one, as lists show it. It begins with a digit, which no word does, and has a letter, unlike the
number of an invoice."""
ID_IN_TEXT: Final = re.compile(f"(?:{_WHOLE}|{_SHORT})", re.IGNORECASE | re.ASCII)
_ID_IN_BYTES: Final = re.compile(ID_IN_TEXT.pattern.encode(), re.IGNORECASE)
MARK: Final = "(id not shown)"
_HINT: Final = re.compile("-(?<=[aA][pP]-)")
"""The hyphen stands first because the engine searches for one character fastest; a long history is a megabyte
(`us_per_history_message_evicted`)."""
_HINT_IN_BYTES: Final = re.compile(_HINT.pattern.encode())


def without_approval_ids(text: str, mark: str = MARK) -> str:
    """The very same text where it holds none."""
    return ID_IN_TEXT.sub(mark, text) if _may_hold_one(text) else text


def without_ids_in_bytes(text: bytes) -> bytes:
    """The same for JSON: the mark needs no quoting there."""
    if b"-" not in text or _HINT_IN_BYTES.search(text) is None:
        return text
    return _ID_IN_BYTES.sub(MARK.encode(), text)


def holds_no_id(message: Message) -> bool:
    """Whether nothing in it can be an id, told without building anything; a doubtful one is read in full afterwards.
    Every message of every request is asked, and most are one text or a call of a tool and its result (`cpu_tool`)."""
    for block in message.blocks:
        if isinstance(block, Text):
            text = block.text
        elif isinstance(block, ToolResult) and block.error is None:
            text = block.content
        elif isinstance(block, ToolCall) and _holds_no_id_in_args(block.args):
            continue
        else:
            return False
        if _may_hold_one(text):
            return False
    return True


def _holds_no_id_in_args(args: dict[str, Any]) -> bool:
    for key, value in args.items():
        if "-" in key or not isinstance(value, (str, int, float, NoneType)):
            return False
        if isinstance(value, str) and _may_hold_one(value):
            return False
    return True


def without_ids_in_message(message: Message) -> Message:
    """The very same message where it holds none."""
    blocks = message.blocks
    clean = tuple([each for block in blocks if (each := _clean_block(block)) is not None])
    if len(clean) == len(blocks) and all(map(operator.is_, clean, blocks)):
        return message
    return replace(message, blocks=clean or (Text(MARK),))


def _clean_block(block: Block) -> Block | None:
    """None for a thought that holds one: it is signed, and cannot be changed."""
    match block:
        case Text(text):
            return _changed(block, text=without_approval_ids(text))
        case Thinking(text):
            if without_approval_ids(text) is not text:
                return None
        case ToolCall(args=args):
            return _changed(block, args=_clean_value(args))
        case ToolResult(content=content, error=failure):
            if failure is not None:
                message = without_approval_ids(failure.message)
                suggestion = _clean_value(failure.suggestion)
                failure = _changed(failure, message=message, suggestion=suggestion)
            return _changed(block, content=without_approval_ids(content), error=failure)
        case Image():
            pass
    return block


def _changed(struct: T, **fields: Any) -> T:
    """The struct with these fields; the very same where each of them is what it was."""
    if all(getattr(struct, name) is value for name, value in fields.items()):
        return struct
    return replace(struct, **fields)


def _clean_value(value: Any) -> Any:
    """The very same where nothing in it holds one."""
    if isinstance(value, str):
        return without_approval_ids(value)
    if isinstance(value, dict):
        given: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
        clean = {without_approval_ids(key): _clean_value(each) for key, each in given.items()}
        return given if all(clean.get(key) is each for key, each in given.items()) else clean
    if isinstance(value, list):
        items: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
        cleaned = list(map(_clean_value, items))
        return items if all(map(operator.is_, cleaned, items)) else cleaned
    return value


def _may_hold_one(text: str) -> bool:
    return "-" in text and _HINT.search(text) is not None


_DIGITS: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's: nothing in it looks like anything else in it
_ID: Final = re.compile(r"AP-[0-7][0-9A-HJKMNP-TV-Z]{25}", re.ASCII)
_BEGINNING: Final = re.compile(r"AP-[0-7][0-9A-HJKMNP-TV-Z]{0,24}", re.ASCII)
SHOWN_OF_ID: Final = 8
SHORTEST_TYPED: Final = 6
"""Characters behind `ap-` that say which of the open approvals is meant."""
_FOLDED: Final = str.maketrans("OIL", "011")
_BITS: Final = 128
_DEEPEST: Final = 64
"""Nobody reads an argument below that; and whatever walks over it has room to."""


def new_approval_id() -> str:
    number = secrets.randbits(_BITS)
    digits = (_DIGITS[number >> shift & 31] for shift in range(125, -1, -5))
    return "ap-" + "".join(digits).lower()


def read_approval_id(text: str) -> str | None:
    """Read a whole id as somebody typed it. Case, O for 0 and I or L for 1 are forgiven."""
    return _read_typed(text, _ID)


def read_short_id(text: str) -> str | None:
    """The beginning of an id as somebody typed it, forgiven as a whole one is. None where it begins none."""
    return _read_typed(text, _BEGINNING)


def _read_typed(text: str, pattern: re.Pattern[str]) -> str | None:
    if not text.isascii() or text[:3].upper() != "AP-":
        return None
    typed = "AP-" + text[3:].upper().translate(_FOLDED)
    return typed.lower() if pattern.fullmatch(typed) else None


def short_id(approval_id: str) -> str:
    """As people see it: long enough that no two open ones look alike, and short enough to type."""
    return approval_id[: len("ap-") + SHOWN_OF_ID]


def action_hash(tool: str, args: Mapping[str, Any], definition: str = "") -> str:
    """Of exactly what will run: 1 is not 1.0, and two ways to write one letter are two texts. `definition` is the
    digest of a tool that somebody else defines and may define anew under the same name."""
    action = [tool, canonical_args(args)]
    if definition:
        action.append(definition)
    return hashlib.sha256(json.dumps(action).encode()).hexdigest()


def canonical_args(args: Mapping[str, Any]) -> str:
    """The arguments as the one text that is kept and hashed; `json.loads` gives them back as they were. Raises
    InvalidArguments for what would come back as something else: a Decimal, a NaN, a key that is no text."""
    try:
        text = json.dumps(dict(args), sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        text.encode()
        if not _same(json.loads(text), dict(args)):
            raise InvalidArguments("the arguments change when they are written as JSON; use text keys and plain values")
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArguments(f"these arguments cannot be shown for approval as they are: {error}") from error
    return text


def _same(read: Any, given: Any, room: int = _DEEPEST) -> bool:
    """Equal in value and in kind: Python takes True for 1 and 1.0 for 1."""
    if room == 0:
        raise ValueError(f"they are nested more than {_DEEPEST} deep")
    if type(read) is not type(given):
        return False
    if isinstance(given, dict):
        mine = cast("dict[str, Any]", read)
        theirs = cast("dict[str, Any]", given)
        return mine.keys() == theirs.keys() and all(_same(mine[key], theirs[key], room - 1) for key in theirs)
    if isinstance(given, list):
        pairs = zip(cast("list[Any]", read), cast("list[Any]", given), strict=True)
        return all(_same(mine, theirs, room - 1) for mine, theirs in pairs)
    return read == given
