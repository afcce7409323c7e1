"""Ids of approvals, as people type them, and the hash of the action that an approval is for."""

import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from typing import Any, Final, cast

from finclaw.errors import InvalidArguments

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
    """Nobody guesses it, and nobody misreads it."""
    number = secrets.randbits(_BITS)
    digits = (_DIGITS[number >> shift & 31] for shift in range(125, -1, -5))
    return "ap-" + "".join(digits).lower()


def read_approval_id(text: str) -> str | None:
    """An id as somebody typed it. Case, O for 0 and I or L for 1 are forgiven; anything else, and a part, is none."""
    if not text.isascii() or text[:3].upper() != "AP-":
        return None
    typed = "AP-" + text[3:].upper().translate(_FOLDED)
    return typed.lower() if _ID.fullmatch(typed) else None


def read_short_id(text: str) -> str | None:
    """The beginning of an id as somebody typed it, forgiven as a whole one is. None where it begins none."""
    if not text.isascii() or text[:3].upper() != "AP-":
        return None
    typed = "AP-" + text[3:].upper().translate(_FOLDED)
    return typed.lower() if _BEGINNING.fullmatch(typed) else None


def short_id(approval_id: str) -> str:
    """As people see it: long enough that no two open ones look alike, and short enough to type."""
    return approval_id[: len("ap-") + SHOWN_OF_ID]


def action_hash(tool: str, args: Mapping[str, Any], definition: str = "") -> str:
    """Of exactly what will run: 1 is not 1.0, and two ways to write one letter are two texts.

    `definition` is the digest of a tool that somebody else defines and may define anew under the same name.
    """
    action = [tool, canonical_args(args), *([definition] if definition else [])]
    return hashlib.sha256(json.dumps(action).encode()).hexdigest()


def canonical_args(args: Mapping[str, Any]) -> str:
    """The arguments as the one text that is kept and hashed; `json.loads` gives them back as they were.

    Raises InvalidArguments for what would come back as something else: a Decimal, a NaN, a key that is no text.
    """
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
        mine, theirs = cast("dict[str, Any]", read), cast("dict[str, Any]", given)
        return mine.keys() == theirs.keys() and all(_same(mine[key], theirs[key], room - 1) for key in theirs)
    if isinstance(given, list):
        pairs = zip(cast("list[Any]", read), cast("list[Any]", given), strict=True)
        return all(_same(mine, theirs, room - 1) for mine, theirs in pairs)
    return read == given
