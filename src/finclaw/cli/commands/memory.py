"""`finclaw memory`: notes that people asked to be remembered, for the operator, who has to answer for them."""

import asyncio
from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from finclaw.builtins.memory import name as EXTENSION
from finclaw.builtins.memory.notes import MIGRATIONS, NoteStore, OwnedNote
from finclaw.cli.arguments import add_actions, add_json_option, settings_from
from finclaw.cli.formatting import fit_line, json_line, local_time, plural, short, table, terminal_columns
from finclaw.cli.write_file import write_file
from finclaw.errors import ConfigError, SessionError
from finclaw.storage.sqlite.extension import EXTENSIONS, ExtensionDatabase
from finclaw.text import escape_json

T = TypeVar("T")


def arguments(parser: ArgumentParser) -> None:
    add_actions(
        parser,
        (
            ("list", "list what people asked to be remembered", _list_arguments),
            ("forget", "forget notes of a person, for good", _forget_arguments),
            ("export", "write notes as JSON, such as for a person who asks what is known of them", _export_arguments),
        ),
    )


def _user_option(parser: ArgumentParser, *, required: bool) -> None:
    parser.add_argument(
        "--user", required=required, metavar="USER", help="this person's, as `finclaw memory list` names them"
    )


def _list_arguments(parser: ArgumentParser) -> None:
    _user_option(parser, required=False)
    add_json_option(parser)


def _forget_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("ids", nargs="*", metavar="ID", help="the notes' numbers")
    parser.add_argument("--all", action="store_true", help="every note of this person")
    _user_option(parser, required=True)
    add_json_option(parser)


def _export_arguments(parser: ArgumentParser) -> None:
    _user_option(parser, required=False)
    parser.add_argument("-o", "--output", default="-", metavar="FILE", help="where to (default: standard output)")
    parser.add_argument("--force", action="store_true", help="replace the file if it is there")
    add_json_option(parser)


def run(args: Namespace) -> int:
    directory = settings_from(args).state / EXTENSIONS
    match args.action:
        case "forget":
            return _forget(args, directory)
        case "export":
            return _export(args, directory)
        case _:
            return _list(args, directory)


def _list(args: Namespace, directory: Path) -> int:
    found = _use_notes(directory, lambda notes: notes.everybodys(args.user), ())
    if args.json:
        print(escape_json(_as_json(found).decode()))
    elif not found:
        print("nothing is remembered" if args.user is None else f"nothing is remembered of {args.user}")
    else:
        head = ("USER", "ID", "SAVED", "NOTE")
        rows = [(short(each.owner, 60), str(each.note.number), *_describe_note(each)) for each in found]
        print("\n".join(fit_line(line, terminal_columns()) for line in table([head, *rows], right=(1,))))
    return 0


def _describe_note(owned: OwnedNote) -> tuple[str, str]:
    return local_time(owned.note.saved_at), short(owned.note.text, 200)


def _forget(args: Namespace, directory: Path) -> int:
    numbers = [_number(each) for each in args.ids]
    if bool(numbers) == args.all:
        raise ConfigError("say which notes to forget: their numbers, or --all")

    async def forget(notes: NoteStore) -> list[int] | int:
        if args.all:
            return await notes.clear(args.user)
        return [number for number in numbers if await notes.forget(args.user, number)]

    gone = _use_notes(directory, forget, [])
    count = gone if isinstance(gone, int) else len(gone)
    missing = [] if isinstance(gone, int) else sorted(set(numbers) - set(gone))
    if args.json:
        print(json_line({"user": args.user, "forgotten": count, "missing": missing}))
    else:
        print(f"{plural(count, 'note')} of {args.user} forgotten")
    if missing:
        raise SessionError(f"{args.user} has no note {', '.join(map(str, missing))}; see `finclaw memory list`")
    return 0


def _export(args: Namespace, directory: Path) -> int:
    found = _use_notes(directory, lambda notes: notes.everybodys(args.user), ())
    if args.output == "-":
        print(escape_json(_as_json(found).decode()))
        return 0
    write_file(Path(args.output), _as_json(found) + b"\n", force=args.force)
    view = json_line({"notes": len(found), "file": args.output})
    print(view if args.json else f"{plural(len(found), 'note')} written to {args.output}")
    return 0


def _as_json(found: Sequence[OwnedNote]) -> bytes:
    notes = [{"user": each.owner, **msgspec.to_builtins(each.note)} for each in found]
    return msgspec.json.encode({"notes": [{"id": note.pop("number"), **note} for note in notes]})


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise ConfigError(f"{text!r} is no note's number; `finclaw memory list` shows them")
    return int(text)


def _use_notes(directory: Path, work: Callable[[NoteStore], Awaitable[T]], nothing: T) -> T:
    """On the database itself, also beside a running gateway: it keeps nothing of it in its head."""
    if not (directory / f"{EXTENSION}.db").exists():
        return nothing  # asking makes nothing

    async def with_database() -> T:
        database = ExtensionDatabase(directory, EXTENSION, MIGRATIONS, threaded=False)
        try:
            return await work(NoteStore(database))
        finally:
            await database.close()

    return asyncio.run(with_database())
