"""The opening of a session for a turn: its conversation from memory or disk, and renewed where it was idle for long."""

import logging
from collections.abc import Sequence
from datetime import datetime

from finclaw.delivery.commit_retry import retry_until_committed
from finclaw.kernel.message import Message
from finclaw.kernel.port import Clock
from finclaw.kernel.record import Accepted, Claim
from finclaw.kernel.store_port import ConversationStore
from finclaw.kernel.turn_options import NO_OPTIONS, TurnOptions
from finclaw.sessions.conversation import RecentConversations
from finclaw.sessions.kept_options import KeptOptions
from finclaw.sessions.settings import SessionSettings

log = logging.getLogger(__name__)


class SessionOpening:
    """What is known of a session before its turn begins."""

    def __init__(
        self,
        store: ConversationStore,
        recent: RecentConversations,
        clock: Clock,
        settings: SessionSettings | None = None,
        options: KeptOptions | None = None,
    ) -> None:
        """`options`: what people have set for their sessions; None: nobody has."""
        self._options = options
        settings = settings or SessionSettings()
        self._store = store
        self._recent = recent
        self._clock = clock
        self._idle_limit = settings.idle_limit

    def find_options(self, session: str) -> TurnOptions:
        """What somebody has set for the session, such as a model or a queue mode."""
        return NO_OPTIONS if self._options is None else self._options.find(session)

    def find_copy(self, session: str) -> tuple[int, Sequence[Message]] | None:
        """Our copy of the conversation and its version. The store knows whether it is current."""
        return self._recent.get(session)

    def may_be_idle(self, session: str) -> bool:
        """Whether it may have to be renewed before its next turn is claimed."""
        if self._idle_limit is None:
            return False
        copy = self.find_copy(session)
        return copy is None or self._is_idle(copy[1], self._clock.now())

    async def renew_if_idle(self, accepted: Accepted) -> bool:
        """Start a conversation anew in which nothing was said for long before a person wrote this message.

        Gives whether it did, so that they can be told.

        By the time of acceptance: a turn that a crash left finds the conversation as it had found it.
        """
        if self._idle_limit is None or accepted.inbound.unasked or accepted.claim is not None:
            return False
        copy = self.find_copy(accepted.session)
        messages = await self._store.messages(accepted.session) if copy is None else copy[1]
        if is_idle := self._is_idle(messages, accepted.accepted_at):
            log.info("the session was idle, and starts anew")
            await retry_until_committed(lambda: self._store.reset(accepted.session), self._clock, "a new start")
            if self._options is not None:
                self._options.drop(accepted.session)
        return is_idle

    def _is_idle(self, messages: Sequence[Message], now: datetime) -> bool:
        limit = self._idle_limit
        return limit is not None and len(messages) > 0 and now - messages[-1].created_at > limit

    async def read_base(self, claim: Claim) -> Sequence[Message]:
        """What was said before a turn with a head start. Our copy may have had to go since."""
        if claim.base is not None:
            return claim.base
        version, messages = self.find_copy(claim.session) or (None, ())
        return messages if version == claim.version else await self._store.messages(claim.session)
