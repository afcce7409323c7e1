"""`finclaw memory`: notes that people asked to be remembered, for the operator, who has to answer for them."""

from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from finclaw.builtins.memory import name as EXTENSION
from finclaw.builtins.memory.notes import MIGRATIONS, NoteStore, OwnedNote
from finclaw.cli.arguments import add_json_option, add_output_options, settings_from, start_actions
from finclaw.cli.extension_database import use_database
from finclaw.cli.formatting import fit_table, local_time, plural, print_result, short
from finclaw.cli.write_file import write_file
from finclaw.errors import ConfigError, SessionError
from finclaw.kernel.extension import EXTENSIONS
from finclaw.text import escape_json

T = TypeVar("T")


def arguments(parser: ArgumentParser) -> None:
    add_action = start_actions(parser)
    action = add_action("list", "list what people asked to be remembered", _list)
    _add_user(action)
    add_json_option(action)
    action = add_action("forget", "forget notes of a person, for good", _forget)
    action.add_argument("ids", nargs="*", metavar="ID", help="the notes' numbers")
    action.add_argument("--all", action="store_true", help="every note of this person")
    _add_user(action, required=True)
    add_json_option(action)
    about = "write notes as JSON, such as for a person who asks what is known of them"
    action = add_action("export", about, _export)
    _add_user(action)
    add_output_options(action)


def _add_user(parser: ArgumentParser, *, required: bool = False) -> None:
    about = "this person's, as `finclaw memory list` names them"
    parser.add_argument("--user", required=required, metavar="USER", help=about)


def run(args: Namespace) -> None:
    args.act(args, settings_from(args).state / EXTENSIONS)


def _list(args: Namespace, directory: Path) -> None:
    found = _read_notes(args, directory)
    if args.json:
        print(escape_json(_as_json(found).decode()))
    elif found:
        print("\n".join(fit_table([("USER", "ID", "SAVED", "NOTE"), *map(_row, found)], right=(1,))))
    else:
        print("nothing is remembered" + ("" if args.user is None else f" of {args.user}"))


def _row(each: OwnedNote) -> tuple[str, ...]:
    note = each.note
    return (short(each.owner, 60), str(note.number), local_time(note.saved_at), short(note.text, 200))


def _forget(args: Namespace, directory: Path) -> None:
    numbers = [_number(each) for each in args.ids]
    if bool(numbers) == args.all:
        raise ConfigError("say which notes to forget: their numbers, or --all")

    async def forget_each(notes: NoteStore) -> set[int]:
        return {number for number in numbers if await notes.forget(args.user, number)}

    gone: set[int] = set()
    if args.all:
        count = _use_notes(directory, lambda notes: notes.clear(args.user), 0)
    else:
        gone = _use_notes(directory, forget_each, gone)
        count = len(gone)
    missing = sorted(set(numbers) - gone)
    view = {"user": args.user, "forgotten": count, "missing": missing}
    print_result(args, view, [f"{plural(count, 'note')} of {args.user} forgotten"])
    if missing:
        raise SessionError(f"{args.user} has no note {', '.join(map(str, missing))}; see `finclaw memory list`")


def _export(args: Namespace, directory: Path) -> None:
    found = _read_notes(args, directory)
    if args.output == "-":
        print(escape_json(_as_json(found).decode()))
        return
    write_file(Path(args.output), _as_json(found) + b"\n", force=args.force)
    view = {"notes": len(found), "file": args.output}
    print_result(args, view, [f"{plural(len(found), 'note')} written to {args.output}"])


def _read_notes(args: Namespace, directory: Path) -> Sequence[OwnedNote]:
    return _use_notes(directory, lambda notes: notes.everybodys(args.user), ())


def _as_json(found: Sequence[OwnedNote]) -> bytes:
    notes = [{"user": each.owner, **msgspec.to_builtins(each.note)} for each in found]
    return msgspec.json.encode({"notes": [{"id": note.pop("number"), **note} for note in notes]})


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise ConfigError(f"{text!r} is no note's number; `finclaw memory list` shows them")
    return int(text)


def _use_notes(directory: Path, work: Callable[[NoteStore], Awaitable[T]], nothing: T) -> T:
    return use_database(directory, EXTENSION, MIGRATIONS, lambda database: work(NoteStore(database)), nothing)
