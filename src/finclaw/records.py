"""The records of a gateway: turns, spend, sessions and conversations, to look at, to repair and to remove."""

from collections.abc import Sequence
from datetime import timedelta

from finclaw.channels.unreachable import memory_key, read_unreachable
from finclaw.clock import local_day
from finclaw.config.schema import Settings
from finclaw.erasure import Forgetting
from finclaw.gateway import UnreachableChat
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.erasure import Erased, SenderId
from finclaw.kernel.fact import Fact, SessionFact
from finclaw.kernel.message import Message
from finclaw.kernel.port import Clock
from finclaw.kernel.record import (
    Cost,
    CostsBy,
    Counts,
    IntegrityFinding,
    Pruned,
    SessionPage,
    Today,
    TurnRecord,
    TurnTrace,
    Unsolicited,
)
from finclaw.kernel.store_port import Store
from finclaw.routing.session_key import session_key
from finclaw.sessions.conversation import RecentConversations
from finclaw.sessions.kept_options import KeptOptions
from finclaw.spend_lines import today_of


class RecordService:
    """The part of a gateway that answers from the store."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        clock: Clock,
        recent: RecentConversations,
        forgetting: Forgetting,
        options: KeptOptions,
    ) -> None:
        self.options = options
        self.settings, self.forgetting = settings, forgetting
        self._store, self._clock, self._recent, self._agent = store, clock, recent, settings.agent.name

    async def unasked(self, whose: Inbound, after: str | None) -> Unsolicited:
        """What was told, behind this place, to the session that this message would belong to."""
        return await self._store.unasked(session_key(self._agent, whose), after)

    async def turns(self, limit: int) -> Sequence[TurnRecord]:
        return await self._store.turns(limit)

    async def turn(self, turn_id: str) -> TurnTrace | None:
        return await self._store.turn(turn_id)

    async def counts(self) -> Counts:
        return await self._store.counts()

    async def unreachable(self) -> Sequence[UnreachableChat]:
        """Chats that take nothing from us any more, as their channels remember them."""
        names = self.settings.channels
        return tuple(read_unreachable([(name, await self._store.recall(memory_key(name), "")) for name in names]))

    async def costs(self, days: int, by: CostsBy) -> Sequence[Cost]:
        return await self._store.costs(local_day(self._clock.now()) - timedelta(days=days - 1), by)

    async def today(self) -> Today:
        now = self._clock.now()
        return today_of(
            now, await self._store.costs(local_day(now), "agent"), self._agent, self.settings.budget.agent_day_usd
        )

    async def sessions(self, limit: int, after: str | None = None, containing: str = "") -> SessionPage:
        return await self._store.sessions(limit, after, containing)

    async def has_session(self, key: str) -> bool:
        page = await self._store.sessions(500, containing=key)
        while page.after is not None and all(each.key != key for each in page.items):
            page = await self._store.sessions(500, page.after, key)
        return any(each.key == key for each in page.items)

    async def messages(self, session: str) -> Sequence[Message]:
        return await self._store.messages(session)

    async def reset(self, session: str) -> None:
        """As the command `/reset` does: a turn that runs there is superseded."""
        await self._store.reset(session)
        self.options.drop(session)

    async def erase_session(self, session: str, *, dry_run: bool = False) -> Erased:
        return await self.forgetting.erase_session(session, dry_run=dry_run)

    async def forget_person(self, person: SenderId, *, dry_run: bool = False) -> Erased:
        return await self.forgetting.forget_person(person, dry_run=dry_run)

    async def prepare_backup(self) -> str:
        return await self.forgetting.copy_for_backup()

    async def facts(self, session: str) -> Sequence[SessionFact]:
        return await self._store.facts(session)

    async def restore(self, session: str, messages: Sequence[Message], facts: Sequence[Fact] = ()) -> None:
        await self._store.restore(session, messages, facts)

    async def repair(self, session: str, *, dry_run: bool = False) -> Sequence[IntegrityFinding]:
        return await self._store.repair(session, dry_run=dry_run)

    async def prune(self, older_than: timedelta, *, dry_run: bool = False) -> Pruned:
        pruned = await self._store.prune(self._clock.now() - older_than, dry_run=dry_run)
        if pruned.sessions and not dry_run:
            self._recent.clear()  # a new session of a removed one's name counts its versions from the beginning
            await self.options.load()
        return pruned
