"""Approvals: a person's decision about one exact action, what was asked, of whom, and what became of it."""

import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Literal, cast

from msgspec import Struct

from finclaw.errors import InvalidArguments
from finclaw.kernel.envelope import ChatType, Sender
from finclaw.kernel.text import Language

ApprovalState = Literal["pending", "granted", "denied", "expired", "used", "failed"]
ApprovalVerdict = Literal["granted", "denied"]
ApprovalScope = Literal["once", "session", "always"]

RefusalReason = (
    Literal["unknown", "expired", "already_granted", "already_denied", "already_used", "failed", "scope"]
    | Literal["not_an_approver", "own_request", "our_own_words", "forwarded", "elsewhere", "unauthenticated"]
    | Literal["ambiguous", "too_short"]
)

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


class Addressee(Struct, frozen=True, kw_only=True):
    """An approver who reads in a chat of their own: the card goes there, too, under this message id."""

    name: str
    session: str
    channel: str
    account: str
    conversation: str
    sender: str
    thread: str | None = None
    message_id: str
    card: str
    """What they are shown."""


class Approval(Struct, frozen=True, kw_only=True):
    """One action that waits for a person, waited for one, or was decided. `hash` binds the word to the arguments."""

    id: str
    tool: str
    args: Mapping[str, Any]
    hash: str
    definition: str = ""
    """The digest of the tool's definition, where somebody else defines it, as an MCP server does."""
    session: str
    inbound_id: str
    turn_id: str
    call_id: str
    requester: Sender
    channel: str
    account: str
    conversation: str
    thread: str | None = None
    chat_type: ChatType = "direct"
    approvers: tuple[str, ...]
    """Who may decide: identities (see `identity`) or `role:NAME`. Nobody: it can only expire."""
    sent_to: tuple[Addressee, ...] = ()
    """Those of them who are asked in chats of their own."""
    scopes: tuple[ApprovalScope, ...] = ("once",)
    """How far an approval may reach. What moves money takes `once` alone."""
    asked_at: datetime
    expires_at: datetime
    quote: Mapping[str, Any] | None = None
    """Prices as they were shown, where they matter."""
    sources: tuple[str, ...] = ()
    """Strangers' texts that the turn had read before it asked."""
    lapsed: str = ""
    """Who had said yes to this for good and may no longer do so: it is asked for again."""
    language: Language = "en"
    card: str = ""
    """What the person was shown."""
    state: ApprovalState = "pending"
    scope: ApprovalScope | None = None
    decided_by: str | None = None
    decided_at: datetime | None = None
    reason: str = ""
    reminded_at: datetime | None = None
    used_by: str | None = None
    """The turn that ran the action, or was the only one that could."""

    @property
    def asked_by(self) -> str:
        return identity(self.channel, self.account, self.requester.id)


class Decision(Struct, frozen=True, kw_only=True):
    """A decision about an approval. `by` is their identity, as their channel authenticated it."""

    verdict: ApprovalVerdict
    by: str
    scope: ApprovalScope = "once"
    reason: str = ""


class Grant(Struct, frozen=True, kw_only=True):
    """A grant: approval of this tool with exactly these arguments for this person, in one session or in all."""

    id: str
    """Of the approval that gave it."""
    tool: str
    hash: str
    requester: str
    session: str | None
    """None: in every session."""
    granted_by: str
    granted_at: datetime


class Standing(Struct, frozen=True, kw_only=True):
    """A grant as it is shown to people: what it lets pass, for whom and until when."""

    id: str
    tool: str
    args: Mapping[str, Any]
    requester: str
    session: str | None
    granted_by: str
    granted_at: datetime
    expires_at: datetime


class Refusal(Struct, frozen=True):
    """The reason why a decision did not count. Nothing was written."""

    why: RefusalReason
    approval: Approval | None = None


def identity(channel: str, account: str, sender: str) -> str:
    """One person in one channel: `channel:account:sender-id`. Two channels never make the same one."""
    return f"{_escape(channel)}:{_escape(account)}:{sender}"


def parts_of(who: str) -> tuple[str, str, str]:
    """The inverse of `identity`: channel, account, sender."""
    channel, account, sender = who.split(":", 2)
    return _unescape(channel), _unescape(account), sender


def _unescape(part: str) -> str:
    return part.replace("%3A", ":").replace("%25", "%")


def _escape(part: str) -> str:
    return part.replace("%", "%25").replace(":", "%3A")


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
