"""The ports of storage: what a store of messages, conversations, units, extension state and approvals must promise.

Every method that writes returns after the commit is on disk. StoreFailed: nothing of it happened as far as this process
goes on; only if the machine dies before the next commit may it turn out whole. Never in part. A commit goes through
even when its caller is cancelled; whoever waits again finds it done.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from finclaw.errors import SessionError, StoreFailed
from finclaw.kernel.approval import Approval, ApprovalState, Decision, Grant, Refusal
from finclaw.kernel.envelope import Attachment, Inbound, Outbound
from finclaw.kernel.fact import Fact, SessionFact
from finclaw.kernel.message import Message, TurnEvent
from finclaw.kernel.person import ContactHistory, Person
from finclaw.kernel.port import Clock
from finclaw.kernel.record import (
    Accepted,
    Blob,
    Claim,
    ClaimOnAccept,
    Cost,
    CostsBy,
    Counts,
    Erased,
    Finish,
    InboundRecord,
    IntegrityFinding,
    JoinedOutcome,
    OutboxItem,
    PartOf,
    Pruned,
    Reserve,
    SenderId,
    SessionPage,
    Spend,
    StopMark,
    TurnCalls,
    TurnRecord,
    TurnTrace,
    Unsolicited,
)
from finclaw.kernel.scope import Outcome

log = logging.getLogger(__name__)

T = TypeVar("T")

COMMIT_FIRST_WAIT: Final = 0.5
COMMIT_LONGEST_WAIT: Final = 30.0


class Inbox(Protocol):
    async def accept(
        self,
        inbound: Inbound,
        session: str,
        then: Callable[[Accepted], None],
        claim_on_accept: ClaimOnAccept | None = None,
    ) -> Accepted:
        """Idempotent by platform id. `then` runs once per new message after the commit, also if the caller is gone.

        With a head start the turn may be claimed as well; a store may leave that to `claim`. Raises InboundConflict
        for a known id with another body.
        """
        ...

    async def end(
        self,
        inbound_id: str,
        outcome: Outcome,
        units: Sequence[OutboxItem],
        then: Callable[[], None],
        spend: Sequence[Spend] = (),
        *,
        begun: bool = True,
        joined: Sequence[JoinedOutcome] = (),
        kept_line: str | None = None,
    ) -> bool:
        """Record the one outcome with what the sender is told. False if it had one: nothing is written then.

        Messages that joined its turn end with it, as in `Finish.joined`, or go back to their places.
        With a `kept_line` it is carried over to its sender's next turn.
        `then` runs after a commit that did it, also if the caller is gone. A turn that was claimed but not `begun`, for
        the message ended before it, is as if it had never been.
        """
        ...

    async def unfinished(self) -> Sequence[Accepted]:
        """Everything accepted and not ended, in ticket order within each session."""
        ...

    async def carried_over(self) -> Sequence[tuple[Accepted, datetime, str | None]]:
        """What the next turns of senders have to know of: messages with their end and kept line, or (None) asked."""
        ...

    async def nothing_runs(self) -> None:
        """Whatever a crash left running is received again, its tries still counted: `begun` tells of one life only."""

    async def mark_stopped(self, inbound_ids: Sequence[str], mark: StopMark) -> None:
        """Keep that these are stopped: those that have not ended come back from a crash with the mark. Replies that
        nobody has begun to send become `superseded`, but no confirmation of an order.
        """

    async def find_target(self, inbound: Inbound) -> Accepted | None: ...  # what an edit or a deletion is about

    async def amend(self, inbound_id: str, inbound: Inbound) -> Accepted | None:
        """Put other words in the place of those of a message that waits. None, and nothing, if its turn has begun."""
        ...

    async def find(self, inbound_id: str) -> InboundRecord | None: ...

    async def unasked(self, session: str, after: str | None) -> Unsolicited:
        """What the session was told behind this place. None, or a place nobody knows: nothing, just where to begin."""
        ...


class ConversationStore(Protocol):
    async def claim(
        self,
        accepted: Accepted,
        first: Sequence[TurnEvent],
        known_version: int | None,
        then: Callable[[Claim], None] | None = None,
        reserve: Reserve | None = None,
    ) -> Claim:
        """Begin the turn or, after a crash, take it up again: attempts rise, the log so far comes back.

        Messages that had joined it come back with it, or go back to their places if its model had not seen them.

        `then` runs after the commit, also if the caller is gone. `reserve` is for a turn whose model call comes next.
        """
        ...

    async def record(
        self,
        claim: Claim,
        seq: int,
        events: Sequence[TurnEvent],
        then: Callable[[], None],
        calls: TurnCalls | None = None,
    ) -> None:
        """Append to the turn's log, from `seq` on; `then` as above. Raises Superseded: a newer writer has the session.

        `calls` replaces what was reserved before, and its spend is entered, in the same commit.
        """

    async def join(
        self, claim: Claim, accepted: Accepted, seq: int, events: Sequence[TurnEvent], then: Callable[[], None]
    ) -> bool:
        """Make a later message of the session part of a turn that runs, before its model sees it.

        `events` go into the turn's log as with `record`; the last appends the message's words. False, and nothing is
        written, for one that has ended or was tried before: it has a turn of its own. Raises Superseded as above.
        """
        ...

    async def finish(self, finish: Finish, then: Callable[[], None]) -> bool:
        """Fold and end, all at once, with `then` as in `Inbox.end`. False if it had ended. Raises Superseded.

        What an aborted turn has appended and nobody has begun to send becomes `superseded`.
        """
        ...

    async def mark_attempt(self, inbound_id: str) -> None: ...  # a try, as by a claim, before its turn has come

    async def release(self, inbound_id: str, calls: TurnCalls | None = None) -> None:
        """Put a message back that was claimed or had set out, as if it had not been tried. `calls` as in `record`."""

    async def messages(self, session: str) -> Sequence[Message]: ...
    async def facts(self, session: str, subject: str | None = None, limit: int = 1_000) -> Sequence[SessionFact]:
        """What tools have told a session, the newest first. Finish writes them; reset and erasure remove them."""
        ...

    async def turns(self, limit: int) -> Sequence[TurnRecord]: ...

    async def turn(self, turn_id: str) -> TurnTrace | None:
        """By its own id or that of a message it answered. None: there is no such turn."""
        ...

    async def last_turn(self, session: str) -> TurnTrace | None:
        """The newest turn that has ended and was not undone, of the conversation as it is since its last reset."""
        ...

    async def reset(self, session: str) -> None:
        """Forget the conversation and raise the epoch: whoever was writing it cannot any more."""

    async def sessions(self, limit: int, after: str | None = None, containing: str = "") -> SessionPage:
        """A page of sessions, the most recently used first; only those whose key contains the text."""
        ...

    async def restore(self, session: str, messages: Sequence[Message], facts: Sequence[Fact] = ()) -> None:
        """Give a session these messages, as an import or a fork does. Raises SessionError unless it was empty.

        Its facts are those of the messages, and before them `facts`: others that it had been told.
        """

    async def repair(self, session: str, *, dry_run: bool = False) -> Sequence[IntegrityFinding]:
        """Make a broken conversation whole and say what was wrong. A turn that runs there goes on."""
        ...

    async def prune(self, before: datetime, *, dry_run: bool = False) -> Pruned:
        """Remove what ended before that time: messages with their turns and units, and sessions left with nothing."""
        ...


class Outbox(Protocol):
    async def pending(self) -> Sequence[OutboxItem]:
        """Units that still want sending, in the order in which their messages were accepted."""
        ...

    async def settle(self, *units: OutboxItem, lazy: bool = False) -> None:
        """Record new states, all at once. A lazy one (a receipt) rides with the next group."""

    def plan(
        self, accepted: Accepted, outbounds: Sequence[Outbound], turn_id: str | None, first: int = 0
    ) -> tuple[OutboxItem, ...]:
        """Freeze what a person will get into units, numbered from `first` on. Writes nothing."""
        ...

    async def append_items(
        self, claim: Claim, items: Sequence[OutboxItem], then: Callable[[tuple[OutboxItem, ...]], None]
    ) -> None:
        """Add to the outbox while the turn runs; `Finish` then plans only what is behind. What is part of the answer
        has its `span`; previews and notes have none.

        Idempotent by turn, sequence and text range: `then` gets those that are new; behind a lost one they are lost.
        Raises Superseded as `record` does, and SessionError for one that is not the next, or shows other words.
        """

    async def find_item(self, item_id: str) -> OutboxItem | None: ...
    async def ask_again(self, stale: OutboxItem, then: Callable[[Accepted], None]) -> Accepted | None:
        """An answer too old to send: expire it and, in the same commit, accept its question anew.

        Only once: None when the question had been asked again already. `then` as in `Inbox.accept`.
        """
        ...


class StateStore(Protocol):
    """What extensions remember: one value each, or one each per session (`session` empty: for the extension itself)."""

    async def recall(self, extension: str, session: str) -> Any:
        """The value, as JSON gives it back; None when there is none."""
        ...

    async def recall_sessions(self, extension: str) -> Mapping[str, Any]:
        """All its values that are of a session, by the session."""
        ...

    async def remember(self, extension: str, session: str, value: Any) -> None:
        """On disk when it returns. None forgets. Raises SessionError for what JSON cannot hold.

        Raises Superseded in a turn whose session was reset meanwhile: what it knows of that is forgotten.
        """


class ApprovalStore(Protocol):
    """What each method writes it has written when it returns. Raises StoreFailed: nothing of it happened.

    `then` runs for every message that a commit has added, after that commit, also if the caller is gone.
    """

    async def ask(self, approval: Approval) -> Approval:
        """Keep it. Idempotent by turn and call: a turn that was taken up again gets the one it had asked for."""
        ...

    async def approval(self, approval_id: str) -> Approval | None: ...

    async def approvals(
        self, states: Collection[ApprovalState] = ("pending",), session: str | None = None, limit: int = 100
    ) -> Sequence[Approval]:
        """The newest first. One that is past its time is `expired`, whether or not that has been written yet."""
        ...

    async def decide(
        self, approval_id: str, decision: Decision, inbound: Inbound | None, then: Callable[[Accepted], None]
    ) -> Approval | Refusal:
        """Pending and in time becomes granted or denied; a message enters the requester's session with it.

        A scope beyond `once` leaves a Grant. Who may decide has been settled before; whether it is still open is
        settled here.
        """
        ...

    async def use(self, approval_id: str, turn_id: str, action: str) -> bool:
        """Take the one right to run the action whose hash this is. False: not granted, too late, or not yours.

        True again for the same turn, which may have died between this and the beginning of the tool: only its own
        log knows whether the tool began (`ToolStarted`), and who calls looks there first.
        """
        ...

    async def fail(self, approval_id: str, turn_id: str) -> bool:
        """The action was granted and could not be run, or nobody knows how it ended."""
        ...

    async def expire(
        self, words: Callable[[Approval], Inbound], then: Callable[[Accepted], None]
    ) -> Sequence[Approval]:
        """Those whose time is over. The requester of one that nobody decided is told in the same commit, once."""
        ...

    async def remind(
        self, words: Callable[[Approval], Inbound], then: Callable[[Accepted], None]
    ) -> Sequence[Approval]:
        """Those that have waited for half of their time, each once; the words go out with the same commit."""
        ...

    async def find_grant(self, tool: str, action: str, requester: str, session: str) -> Grant | None:
        """The yes under which this person may do exactly this here without asking again."""
        ...

    async def grants(self, limit: int = 100) -> Sequence[Grant]: ...

    async def revoke(self, grant_id: str) -> bool:
        """False: there is no such grant any more."""
        ...


class PersonStore(Protocol):
    """Persons and their identities. Whoever a turn is claimed for gets a person of their own with that commit."""

    async def find_person(self, who: str) -> Person | None:
        """By an identity, by the id of a person, or by a name that only one has."""
        ...

    async def people(self, limit: int = 1_000, after: str = "") -> Sequence[Person]:
        """By id, those behind `after`."""
        ...

    async def contact_history(self, person: Person) -> ContactHistory: ...
    async def last_texts(self, person: Person) -> Sequence[str]:
        """The beginnings of the last messages that the person wrote, the newest first."""
        ...

    async def known_people(self) -> Sequence[Person]:
        """Those of whom more is known than one identity: they have several, or preferences."""
        ...

    async def save_person(self, person: Person) -> None:
        """Write name and preferences, and the identity that the id is if the person is new. Others are not touched."""

    async def seed_people(self, entries: Sequence[tuple[str, Sequence[str]]]) -> None:
        """Make each entry (a name and identities) one person, in one commit. Idempotent.

        A person who is there keeps their id and preferences. Whoever loses their last identity becomes part of the one
        who got it, with what they have spent. An identity that no entry names stays with its person.
        """


class BlobStore(Protocol):
    """Files by their SHA-256, each there as long as something refers to it. What refers to none is not accepted."""

    async def put_blob(self, data: bytes, media_type: str = "") -> Blob:
        """Keep a file; the same content is kept once. It waits an hour for its first use.

        Raises BlobRefused: too large, too many pixels, or no image although it is said to be one.
        """
        ...

    async def keep_attachments(self, inbound_id: str, kept: Sequence[Attachment]) -> None: ...  # with the message
    async def read_blob(self, sha256: str) -> bytes | None: ...
    async def sweep_blobs(self) -> int: ...  # files that went: what a crash has left, and what nobody has used


class ErasureStore(Protocol):
    """Raises SessionError, and erases nothing of a session, where a message waits for its answer. Idempotent."""

    async def erase_session(self, session: str, *, dry_run: bool = False) -> Erased:
        """A session with its turns, answers and approvals, and the sessions of helpers that its turns started."""
        ...

    async def erase_person(self, person: SenderId, part_of: PartOf, *, dry_run: bool = False) -> Erased:
        """What was said under one identity, the identity itself, and with their last one the person."""
        ...

    async def scrub(self) -> None:
        """Overwrite what earlier removals left in free pages and in the journal. Raises StoreFailed."""


class UpkeepStore(ErasureStore, Protocol):
    """What is done to a state as a whole."""

    async def copy_into(self, directory: Path) -> None:
        """Copy the database, all conversations and blobs, as they are at one instant, into a directory that is there.

        Whoever writes meanwhile goes on. Raises StoreFailed.
        """


class Store(Inbox, ConversationStore, Outbox, StateStore, ApprovalStore, PersonStore, BlobStore, UpkeepStore, Protocol):
    """One database behind these ports, because Finish writes to several of them in one commit."""

    async def counts(self) -> Counts: ...
    async def costs(self, since: date, by: CostsBy) -> Sequence[Cost]:
        """What model calls cost from this day on: days in their order, else the dearest first."""
        ...

    def watch_writes(self, tell: Callable[[SessionError | None], None]) -> None:
        """Call `tell` when the store fails to write, and with None when it can write again."""

    async def check_writable(self) -> SessionError | None:
        """Why the store cannot write now, by its last commit or by a probe; None: it can."""
        ...

    async def close(self) -> None: ...


DEDUPE_DAYS: Final = 30
"""A platform may deliver a message again within this time; it is recognised by the record of the first."""


async def retry_until_committed(commit: Callable[[], Awaitable[T]], clock: Clock, what: str) -> T:
    """Retry a commit with backoff until the store takes it: a full disk must not lose what this process holds.

    Only the session that waits is held up; others go on.
    """
    wait = COMMIT_FIRST_WAIT
    while True:
        try:
            return await commit()
        except StoreFailed as error:
            log.error("cannot record %s, trying again in %g s: %s", what, wait, error)
            await clock.sleep(wait)
            wait = min(wait * 2, COMMIT_LONGEST_WAIT)
