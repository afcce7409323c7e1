"""The opening of a session for a turn, and what the session carries over to it.

It carries over the options that were set, an open question, and messages that were left out of a full lane.
"""

import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from msgspec import Struct, ValidationError, convert, to_builtins
from msgspec.structs import replace

from finclaw.errors import ModelUnknown
from finclaw.kernel.envelope import NO_OPTIONS, Inbound, TurnOptions
from finclaw.kernel.message import Message
from finclaw.kernel.port import Clock
from finclaw.kernel.record import Accepted, Claim
from finclaw.kernel.store_port import Inbox, Store, retry_until_committed
from finclaw.sessions.settings import SessionSettings
from finclaw.transcript.conversation import RecentConversations

log = logging.getLogger(__name__)

MOST_LINES: Final = 20
MOST_QUESTIONS: Final = 10_000
"""Questions that are remembered; the answer to an older one is a message like any other."""
_SEPARATOR: Final = "\x1f"
"""Between a kept line and its sources. No line holds one: `shorten` turns white space into blanks."""
STATE: Final = "session/options"
"""The name under which the store keeps them. No extension can have it, because of the slash."""
SenderKey = tuple[str, str, str, str | None, str]
_Owner = tuple[str, SenderKey]


class LeftOut:
    """One person's messages that were left out of a full line: the last ones in a line each, and the ids of all."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self._lines: deque[tuple[str, str, list[str]]] = deque(maxlen=MOST_LINES)

    def add(self, inbound_id: str, packed: str) -> None:
        """Add a line as `pack_line` made it."""
        line, *sources = packed.split(_SEPARATOR)
        self.ids.append(inbound_id)
        self._lines.append((inbound_id, line, sources))

    def remove(self, told: Collection[str]) -> None:
        self.ids = [inbound_id for inbound_id in self.ids if inbound_id not in told]
        self._lines = deque([line for line in self._lines if line[0] not in told], MOST_LINES)

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(source for _, _, sources in self._lines for source in sources))

    def tell(self) -> str:
        lines = [f"- {line}" for _, line, _ in self._lines]
        earlier = len(self.ids) - len(lines)
        if earlier:
            lines.insert(0, f"- (and {earlier} earlier)")
        told = "\n".join(lines)
        return f"[{len(self.ids)} messages of mine were left out because too many waited; in short:]\n{told}"


def pack_line(line: str, sources: Iterable[str]) -> str:
    """Return what the store keeps of a message that was left out: its line and the sources of its text."""
    return _SEPARATOR.join((line, *sources))


class OpenQuestion(Struct):
    """A question that a turn has asked its sender."""

    asked: str
    at: datetime
    reply: str = ""


class CarriedOver:
    """A copy in memory of what the store carries over, so that a message for which there is nothing costs nothing.

    A row is in the store from the commit that ended its message to the commit of the turn that has told of it.
    """

    def __init__(self, store: Inbox | None = None) -> None:
        self._store = store
        self._questions: OrderedDict[_Owner, OpenQuestion] = OrderedDict()
        self._left_out: dict[_Owner, LeftOut] = {}

    async def load(self) -> None:
        """Read all of it from disk. What was accepted since a question, and not answered yet, is its answer."""
        if self._store is None:
            return
        self._questions.clear()
        self._left_out.clear()
        for accepted, ended_at, line in await self._store.carried_over():
            self.add(accepted, ended_at, line)
        if self._questions:
            for accepted in await self._store.unfinished():
                self.take_answer(accepted)

    def add(self, accepted: Accepted, ended_at: datetime, line: str | None) -> None:
        """What a commit has written: a message that was left out, with its line, or one whose turn has asked."""
        owner = _owner(accepted)
        if line is not None:
            self._left_out.setdefault(owner, LeftOut()).add(accepted.id, line)
            return
        self._questions[owner] = OpenQuestion(accepted.id, ended_at)
        self._questions.move_to_end(owner)
        if len(self._questions) > MOST_QUESTIONS:
            self._questions.popitem(last=False)

    def remove(self, accepted: Accepted, told: Collection[str]) -> None:
        """What the commit of a turn of this sender has told of."""
        owner = _owner(accepted)
        question = self._questions.get(owner)
        if question is not None and question.asked in told:
            del self._questions[owner]
        kept = self._left_out.get(owner)
        if kept is not None:
            kept.remove(frozenset(told))
            if not kept.ids:
                del self._left_out[owner]

    def drop(self, session: str) -> None:
        for copy in (self._questions, self._left_out):
            for owner in [each for each in copy if each[0] == session]:
                del copy[owner]

    def may_answer(self, accepted: Accepted) -> bool:
        """Whether its sender was asked something and has not answered: this may be the answer."""
        return self._find_question(accepted) is not None

    def take_answer(self, accepted: Accepted) -> str:
        """Take the first message of a sender who was asked as the answer. Gives the id of the message whose turn has
        asked; empty: it answers nothing. It may be asked again for the same message."""
        question = self._find_question(accepted)
        if question is None:
            return ""
        question.reply = accepted.id
        return question.asked

    def _find_question(self, accepted: Accepted) -> OpenQuestion | None:
        if not self._questions:  # nearly always: then no key is made
            return None
        question = self._questions.get(_owner(accepted))
        if question is None or accepted.inbound.unasked or accepted.inbound.kind not in ("message", "action"):
            return None
        is_later = accepted.id != question.asked and accepted.accepted_at >= question.at
        if not is_later or question.reply not in ("", accepted.id):
            return None
        return question

    def find_left_out(self, accepted: Accepted) -> LeftOut | None:
        """What was left out of the sender's messages, for their turn that begins."""
        return self._left_out.get(_owner(accepted)) if self._left_out else None


@dataclass(slots=True)
class MessageCarry:
    """What one message gets carried over to its turn, and what of itself it leaves for the next one."""

    copy: CarriedOver | None = None  # of all sessions, once the message has come to its lane
    told: tuple[str, ...] = ()
    """Messages that were carried over to its turn: what they had asked or said, the model knows now."""
    kept_line: str | None = None
    """Of one that was left out of a full line: what its sender's next turn is told of it."""

    def update_copy(self, accepted: Accepted, now: datetime, *, asks: bool = False, told: tuple[str, ...] = ()) -> None:
        """After the commit that ended the message, with what that has written."""
        if self.copy is None:
            return
        if told:
            self.copy.remove(accepted, told)
        if asks or self.kept_line is not None:
            self.copy.add(accepted, now, self.kept_line)


class KeptOptions:
    """A copy in memory of the options of all sessions that have some, so that looking them up costs a turn nothing.

    They are on disk with the other state of a session: a reset, an erasure and a removal take them away there, and
    whoever does one of these calls `drop` or `load`. What is carried over to a next turn goes with them.
    """

    def __init__(self, store: Store, check_model: Callable[[str], object] | None = None) -> None:
        """`check_model` raises ModelUnknown for one that the settings have no more: it is not used then."""
        self._store = store
        self.carried_over = CarriedOver(store)
        self._check_model = check_model
        self._by_session: dict[str, TurnOptions] = {}

    async def load(self) -> None:
        """Read all of them from disk. One that an other release wrote and this one cannot read counts as none."""
        await self.carried_over.load()
        found: dict[str, TurnOptions] = {}
        for session, value in (await self._store.recall_sessions(STATE)).items():
            try:
                found[session] = self._without_lost_model(session, convert(value, TurnOptions))
            except ValidationError as error:
                log.warning("the options of session %r cannot be read and are not used: %s", session, error)
        self._by_session = found

    def _without_lost_model(self, session: str, options: TurnOptions) -> TurnOptions:
        try:
            if options.model is not None and self._check_model is not None:
                self._check_model(options.model)
        except ModelUnknown as error:
            log.warning("session %r is answered by the usual model again: %s", session, error)
            return replace(options, model=None)
        return options

    def find(self, session: str) -> TurnOptions:
        return self._by_session.get(session, NO_OPTIONS)

    async def keep(self, session: str, options: TurnOptions) -> None:
        """Replace the options of a session; they are on disk when it returns."""
        await self._store.remember(STATE, session, to_builtins(options) or None)
        self._by_session.pop(session, None)
        if options != NO_OPTIONS:
            self._by_session[session] = options

    def drop(self, session: str) -> None:
        self._by_session.pop(session, None)
        self.carried_over.drop(session)


def key_of_sender(inbound: Inbound) -> SenderKey:
    """One person in one place: nothing is ever merged across these."""
    return inbound.channel, inbound.account, inbound.conversation, inbound.thread, inbound.sender.id


def _owner(accepted: Accepted) -> _Owner:
    return accepted.session, key_of_sender(accepted.inbound)


class SessionOpening:
    """The opening of a session for a turn: its conversation from memory or disk, reset if it was idle for long."""

    def __init__(
        self,
        store: Store,
        recent: RecentConversations,
        clock: Clock,
        settings: SessionSettings | None = None,
        options: KeptOptions | None = None,
    ) -> None:
        self._store = store
        self._recent = recent
        self._clock = clock
        self._idle_limit = (settings or SessionSettings()).idle_limit
        self._options = options or KeptOptions(store)

    def find_options(self, session: str) -> TurnOptions:
        """Return what somebody has set for the session, such as a model or a queue mode."""
        return self._options.find(session)

    def find_copy(self, session: str) -> tuple[int | None, Sequence[Message]]:
        """Return the version of our copy of the conversation, None without one. The store knows if it is current."""
        return self._recent.get(session) or (None, ())

    def may_be_idle(self, session: str) -> bool:
        """Whether it may have to be renewed before its next turn is claimed."""
        if self._idle_limit is None:
            return False
        version, messages = self.find_copy(session)
        return version is None or self._is_idle(messages, self._clock.now())

    async def renew_if_idle(self, accepted: Accepted) -> bool:
        """Reset a conversation that was idle for long before this message was accepted; return whether it did.

        The time of acceptance counts, so that a turn repeated after a crash finds the conversation as it was.
        """
        if self._idle_limit is None or accepted.inbound.unasked or accepted.claim is not None:
            return False
        version, messages = self.find_copy(accepted.session)
        if version is None:
            messages = await self._store.messages(accepted.session)
        if not self._is_idle(messages, accepted.accepted_at):
            return False
        log.info("the session was idle, and starts anew")
        await retry_until_committed(lambda: self._store.reset(accepted.session), self._clock, "a new start")
        self._options.drop(accepted.session)
        return True

    def _is_idle(self, messages: Sequence[Message], now: datetime) -> bool:
        limit = self._idle_limit
        return limit is not None and len(messages) > 0 and now - messages[-1].created_at > limit

    async def read_base(self, claim: Claim) -> Sequence[Message]:
        """Return what was said before a turn that was claimed on accept. Our copy may have had to go since."""
        if claim.base is not None:
            return claim.base
        version, messages = self.find_copy(claim.session)
        if version == claim.version:
            return messages
        return await self._store.messages(claim.session)
