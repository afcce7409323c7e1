"""Request and response bodies of the routes for sessions and persons; the command line reads the same shapes."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from finclaw.gateway import PersonRecord, QueuedMessage
from finclaw.kernel.message import Message
from finclaw.kernel.record import IntegrityFinding

Key = Annotated[str, Meta(pattern=r"\A[!-~]{1,4000}\Z")]
"""As sessions are named: whatever is not ASCII, or means something in a key, is percent-encoded."""


class ForkBody(Struct, frozen=True, forbid_unknown_fields=True):
    into: Key


class RepairBody(Struct, frozen=True, forbid_unknown_fields=True):
    dry_run: bool = False


class PruneBody(Struct, frozen=True, forbid_unknown_fields=True):
    older_than_days: Annotated[int, Meta(ge=1, le=100_000)]
    dry_run: bool = False


class ForgetBody(Struct, frozen=True, forbid_unknown_fields=True):
    person: Annotated[str, Meta(min_length=5, max_length=1_000)]
    """`channel:account:sender`, as `/whoami` shows it."""
    dry_run: bool = False


class QueueView(Struct, frozen=True):
    """What a session has open: the message that is being answered, then those that wait, in order."""

    session: str
    items: Sequence[QueuedMessage]


class BackupView(Struct, frozen=True):
    directory: str
    """In the state directory; it holds a copy of the database and of all conversations."""


class MessagesView(Struct, frozen=True):
    session: str
    items: Sequence[Message]
    after: str | None


class SessionView(Struct, frozen=True):
    """A session after it was changed."""

    session: str
    messages: int


class RepairView(Struct, frozen=True):
    session: str
    findings: Sequence[IntegrityFinding]
    dry_run: bool


class PrunedView(Struct, frozen=True, kw_only=True):
    """The result of a removal. `older_than_days` is what counted, which may be more than what was asked for."""

    messages: int
    sessions: int
    older_than_days: int
    dry_run: bool


class PeopleView(Struct, frozen=True):
    items: Sequence[PersonRecord]


class PersonBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A change of a person."""

    who: Annotated[str, Meta(min_length=1, max_length=1_000)]
    """An identity, an id, or a name that only one person has."""
    fields: dict[str, Annotated[str, Meta(max_length=200)]]
    """Such as `{"timezone": "Asia/Seoul"}`; an empty value is taken back."""
