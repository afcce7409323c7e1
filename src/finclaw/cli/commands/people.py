"""`finclaw people`: who uses the gateway, on which channels they are known, and how they like to be answered."""

from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import msgspec

from finclaw.cli.arguments import add_json_option, parse_text, settings_to_look, start_actions
from finclaw.cli.attach import StateClient, attach
from finclaw.cli.extension_database import use_database
from finclaw.cli.formatting import fit_table, print_result, short, table
from finclaw.clock import SystemClock
from finclaw.errors import ConfigError, SessionError
from finclaw.finance.watchlist import MIGRATIONS, Watching, Watchlists
from finclaw.gateway import PersonRecord
from finclaw.kernel.extension import EXTENSIONS, Database
from finclaw.kernel.person import ContactHistory, Person
from finclaw.pipeline.persons import COLORS, COMPLIANCE, check_fields
from finclaw.web.view import PeopleView, PersonBody

_FIELDS: Final = {
    "name": ("NAME", "what they are called"),
    "language": ("TAG", "a language tag, such as ko or en-GB"),
    "timezone": ("ZONE", "of the IANA database, such as Asia/Seoul"),
    "currency": ("CODE", "ISO 4217, such as KRW"),
    "market": ("CODE", "the home market, such as KRX"),
    "colors": ("COLORS", f"of charts: {' or '.join(COLORS)}"),
    "compliance": ("LEVEL", f"stricter rules about advice: {', '.join(COMPLIANCE)}"),
}
_HEAD: Final = ("PERSON", "NAME", "ROLES", "LANGUAGE", "TIME ZONE", "CURRENCY", "MARKET")


def arguments(parser: ArgumentParser) -> None:
    add_action = start_actions(parser)
    add_json_option(add_action("list", "list everybody who has written, and those whom the settings name", _list))
    _add_who(add_action("show", "show a person with all their identities", _show))
    action = add_action("set", "say how a person likes to be answered; an empty value takes it back", _set)
    _add_who(action)
    for name, (metavar, about) in _FIELDS.items():
        action.add_argument(f"--{name}", type=parse_text, metavar=metavar, help=about)


def _add_who(parser: ArgumentParser) -> None:
    parser.add_argument("who", type=parse_text, metavar="WHO", help="an id or name of the list, or as /whoami shows it")
    add_json_option(parser)


def run(args: Namespace) -> None:
    settings = settings_to_look(args)
    with attach(settings, make=args.act is _set) as client:
        args.act(args, client, settings.state)


def _set(args: Namespace, client: StateClient, state: Path) -> None:
    given = {name: str(value) for name in _FIELDS if (value := getattr(args, name)) is not None}
    if not given:
        raise ConfigError(f"say what to set: {', '.join(f'--{name}' for name in _FIELDS)}")
    body = PersonBody(args.who, check_fields(given))
    _print_one(client.call("POST", "/api/v1/people", PersonRecord, body), args, state)


def _show(args: Namespace, client: StateClient, state: Path) -> None:
    found = client.call("GET", f"/api/v1/people?{urlencode({'who': args.who})}", PeopleView).items
    if not found:
        raise SessionError(f"there is no person {args.who!r}, or several have that name; see `finclaw people list`")
    _print_one(found[0], args, state)


def _list(args: Namespace, client: StateClient, _: Path) -> None:
    found = [] if client.is_empty else list(_all(client))
    lines = ["nobody is known yet; the owner is there after the first start"]
    if found:
        lines = fit_table([_HEAD, *map(_row, found)])
    print_result(args, {"items": found}, lines)


def _all(client: StateClient) -> Iterator[PersonRecord]:
    after = ""
    while page := client.call("GET", f"/api/v1/people?{urlencode({'after': after})}", PeopleView).items:
        yield from page
        after = page[-1].person.id


def _row(record: PersonRecord) -> tuple[str, ...]:
    person = record.person
    known = (person.language, person.timezone, person.currency, person.market)
    return (short(person.id, 60), short(person.name, 40), ", ".join(record.roles), *known)


def _print_one(record: PersonRecord, args: Namespace, state: Path) -> None:
    def read(database: Database) -> Awaitable[tuple[str, ...]]:
        return Watchlists(database, SystemClock()).symbols(record.person)

    watching = use_database(state / EXTENSIONS, Watching.name, MIGRATIONS, read, ())
    rows = [*_lines(record.person), ("roles", ", ".join(record.roles) or "none"), *_contact_lines(record.contact)]
    rows.append(("watching", short(", ".join(watching), 500) or "nothing"))
    print_result(args, {**msgspec.to_builtins(record), "watching": watching}, table(rows))


def _contact_lines(contact: ContactHistory | None) -> Iterator[tuple[str, str]]:
    if contact is None or contact.first_at is None or contact.last_at is None:
        return
    yield "messages", str(contact.messages)
    yield "first contact", f"{contact.first_at:%Y-%m-%d %H:%M} UTC"
    yield "last contact", f"{contact.last_at:%Y-%m-%d %H:%M} UTC"
    if contact.topics:
        yield "topics", short(", ".join(contact.topics), 200)
    if contact.satisfaction is not None:
        yield "liked", f"{contact.satisfaction:.0%} of the replies they reacted to"


def _lines(person: Person) -> Iterator[tuple[str, str]]:
    yield "person", short(person.id, 200)
    for name in _FIELDS:
        yield name, short(getattr(person, name), 200) or "not set"
    for who in person.identities:
        yield "known as", short(who, 200)
