"""What can be typed about what a gateway has been given: skills, and what people asked it to remember. Only words."""

from argparse import ArgumentParser
from pathlib import Path

from finclaw.cli.keeping import Words


def _json(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _add(parser: ArgumentParser) -> None:
    parser.add_argument("path", type=Path, metavar="PATH", help="a folder with a SKILL.md; it is copied")
    parser.add_argument("--force", action="store_true", help="replace the skill of that name")
    _json(parser)


def _remove(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the skill, as `finclaw skills list` has it")
    parser.add_argument("--force", action="store_true", help="also one that was put there by hand")
    _json(parser)


def _user(parser: ArgumentParser, *, required: bool) -> None:
    parser.add_argument(
        "--user", required=required, metavar="USER", help="this person's, as `finclaw memory list` names them"
    )


def _notes(parser: ArgumentParser) -> None:
    _user(parser, required=False)
    _json(parser)


def _forget(parser: ArgumentParser) -> None:
    parser.add_argument("ids", nargs="*", metavar="ID", help="the notes' numbers")
    parser.add_argument("--all", action="store_true", help="every note of this person")
    _user(parser, required=True)
    _json(parser)


def _export(parser: ArgumentParser) -> None:
    _user(parser, required=False)
    parser.add_argument("-o", "--output", default="-", metavar="FILE", help="where to (default: standard output)")
    parser.add_argument("--force", action="store_true", help="replace the file if it is there")
    _json(parser)


SKILLS: tuple[Words, ...] = (
    ("list", "list the skills: what each is about, its hash, and whether it is used", _json),
    ("add", "copy a skill's folder into the gateway's own, and show what is in it", _add),
    ("remove", "take a skill away", _remove),
)
MEMORY: tuple[Words, ...] = (
    ("list", "list what people asked to be remembered", _notes),
    ("forget", "forget notes of a person, for good", _forget),
    ("export", "write notes as JSON, such as for a person who asks what is known of them", _export),
)
BELONGINGS: tuple[tuple[str, str, tuple[Words, ...]], ...] = (
    ("skills", "list, add and remove what the agent knows how to do", SKILLS),
    ("memory", "look at what people asked to be remembered, forget it, and hand it out", MEMORY),
)
