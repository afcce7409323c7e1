"""The directory of persons: who is behind a message.

Only those of whom more is known than one identity are held in memory. Everybody else is a person by their identity,
which takes no row to know.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import convert
from msgspec.structs import asdict

from finclaw.approvals.people import People
from finclaw.errors import SessionError
from finclaw.gateway import PersonRecord
from finclaw.ids import identity
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.person import ContactHistory, Person
from finclaw.kernel.store_port import PersonStore
from finclaw.pipeline.person_fields import check_fields
from finclaw.text import Language


async def open_directory(store: PersonStore, people: People) -> "PersonDirectory":
    """With the settings' people in the store, and the owner: they are there before anybody has written."""
    await store.seed_people(people.entries())
    return PersonDirectory(await store.known_people())


class PersonDirectory:
    """A directory of persons by their identities and ids."""

    def __init__(self, known: Iterable[Person] = ()) -> None:
        self._by_identity: dict[str, Person] = {}
        self._by_id: dict[str, Person] = {}
        self.languages: dict[str, Language | None] = {}
        """The language that each person last wrote in, by id. None: they have written no words."""
        for person in known:
            self.put(person)

    def put(self, person: Person) -> None:
        self._by_id[person.id] = person
        self._by_identity.update(dict.fromkeys(person.identities, person))

    def remove(self, person: Person) -> None:
        self._by_id.pop(person.id, None)
        self.languages.pop(person.id, None)
        for each in person.identities:
            self._by_identity.pop(each, None)

    def get(self, id: str) -> Person:
        """By the id; somebody of whom no more is known is that id."""
        return self._by_id.get(id) or Person(id=id)

    def find(self, inbound: Inbound) -> Person:
        """The person behind a message; of a helper's task the one for whom it runs."""
        limits = inbound.limits
        if limits is not None and limits.pool == "subagent":
            id = limits.person or f"{inbound.account}:{inbound.sender.id}"  # an older release did not say it
            return self._by_id.get(id) or Person(id=id, identities=(id,))
        who = identity(inbound.channel, inbound.account, inbound.sender.id)
        return self._by_identity.get(who) or Person(id=who, name=inbound.sender.name, identities=(who,))


class PersonService:
    """Persons as the operator sees and changes them."""

    def __init__(self, store: PersonStore, people: People, directory: PersonDirectory) -> None:
        self._store = store
        self._people = people
        self._directory = directory

    async def list_people(self, limit: int, after: str = "") -> Sequence[PersonRecord]:
        return [self._record(person) for person in await self._store.people(limit, after)]

    async def find(self, who: str) -> PersonRecord | None:
        """By an identity, an id, or a name that only one person has."""
        found = await self._store.find_person(who)
        return None if found is None else self._record(found, await self._store.contact_history(found))

    async def change(self, who: str, fields: Mapping[str, str]) -> PersonRecord:
        """Raises ConfigError for a value that is none, SessionError for somebody who is not there."""
        checked = check_fields(fields)
        person = await self._store.find_person(who)
        if person is None:
            raise SessionError(f"there is no person {who!r}; `finclaw people list` shows those there are")
        changed = convert({**asdict(person), **checked}, Person)
        await self._store.save_person(changed)
        self._directory.put(changed)
        return self._record(changed)

    async def save(self, person: Person) -> None:
        """Keep what a person has said of themselves, such as their language. Idempotent."""
        await self._store.save_person(person)
        self._directory.put(person)

    async def drop(self, person: Person) -> None:
        """Hold nothing of a person who was erased. Whoever the settings name is known again by these alone."""
        self._directory.remove(person)
        await self._store.seed_people(self._people.entries())
        for known in await self._store.known_people():
            self._directory.put(known)

    def _record(self, person: Person, contact: ContactHistory | None = None) -> PersonRecord:
        return PersonRecord(person=person, roles=self._people.roles(person.identities), contact=contact)
