"""A lookup of people's direct chats: the one in which a person wrote to us last."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from finclaw.approvals.chat_directory import Chat
from finclaw.ids import parts_of
from finclaw.kernel.envelope import Capabilities, Inbound, Sender
from finclaw.kernel.person import Person
from finclaw.kernel.port import Channel
from finclaw.kernel.record import SessionRecord
from finclaw.kernel.store_port import ConversationStore, PersonStore
from finclaw.pipeline.persons import PersonDirectory
from finclaw.routing.session_key import Place, place_of, session_key

UNREAD: Final = ("api", "subagent")
"""Channels at which nobody reads what did not answer them: programs, and turns of our own."""
_PAGE: Final = 100
_IDENTITY: Final = re.compile(r"[^:\s]+:[^:\s]+:\S+")


class Chats:
    """A lookup of direct chats in the store."""

    def __init__(
        self, agent: str, store: ConversationStore, channels: Mapping[str, Channel], persons: PersonDirectory
    ) -> None:
        self._agent = agent
        self._store = store
        self._channels = channels
        self._persons = persons

    def capabilities(self, channel: str) -> Capabilities:
        """The capabilities of a channel; of one that is not there any more, those that most have."""
        found = self._channels.get(channel)
        return Capabilities() if found is None else found.capabilities

    async def chat_of(self, known_as: Sequence[str]) -> Chat | None:
        """None: they never wrote to us directly, or only where a sender is just what a message says."""
        found = [session for who in known_as for session in await self._find_latest(who)]
        latest = max(found, key=lambda each: each.updated_at, default=None)
        return None if latest is None else _chat(latest.key, self._persons)

    async def find_session(self, who: str, persons: PersonStore) -> tuple[str, str] | None:
        """The session of that chat and the person's id, of somebody by id, identity or name; None: there is none."""
        person = await persons.find_person(who)
        if person is None and _IDENTITY.fullmatch(who):  # of whom nothing is known yet but what they wrote
            person = Person(id=who, identities=(who,))
        chat = None if person is None else await self.chat_of(person.identities)
        return None if person is None or chat is None else (chat.session, person.id)

    async def _find_latest(self, who: str) -> Sequence[SessionRecord]:
        """At most two, for a key names its person in one of two ways: as the conversation, or behind it."""
        channel, account, sender = parts_of(who)
        found = self._channels.get(channel)
        if found is None or channel in UNREAD or not found.capabilities.authenticated:
            return ()
        theirs = Inbound(text="", channel=channel, account=account, conversation=sender, sender=Sender(sender))
        key = session_key(self._agent, theirs)
        both = [await self._first(theirs, part) for part in (key, f"+{key.rpartition(':')[2]}")]
        return [session for session in both if session is not None]

    async def _first(self, theirs: Inbound, containing: str) -> SessionRecord | None:
        """The most recently used one that is theirs: an id may be part of another's."""
        after: str | None = None
        while True:
            page = await self._store.sessions(_PAGE, after, containing)
            for session in page.items:
                place = place_of(session.key)
                if place is not None and _is_with(place, self._agent, theirs):
                    return session
            if page.after is None:
                return None
            after = page.after


def _is_with(place: Place, agent: str, theirs: Inbound) -> bool:
    where = (place.agent, place.channel, place.account, place.peer)
    return place.chat_type == "direct" and where == (agent, theirs.channel, theirs.account, theirs.sender.id)


def _chat(key: str, persons: PersonDirectory) -> Chat | None:
    place = place_of(key)
    if place is None or place.peer is None:
        return None
    return Chat(
        session=key,
        channel=place.channel,
        account=place.account,
        conversation=place.conversation,
        sender=place.peer,
        thread=place.thread,
        person=persons.find(Inbound(text="", channel=place.channel, account=place.account, sender=Sender(place.peer))),
    )
