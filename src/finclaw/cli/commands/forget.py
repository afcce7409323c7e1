"""`finclaw forget`: erase everything that one person said, at any age."""

import os
import sys
from argparse import ArgumentParser, Namespace
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from finclaw.approvals.people import LOCAL
from finclaw.cli.arguments import add_erasure_options, add_state_options, parse_text, settings_to_look
from finclaw.cli.attach import LONG, StateClient, attach
from finclaw.cli.chat.keyboard import HISTORY_FILE
from finclaw.cli.chat.unread import FILE_NAME as SEEN
from finclaw.cli.formatting import plural, print_result
from finclaw.errors import ConfigError
from finclaw.kernel.record import Erased, SenderId
from finclaw.web.view import ForgetBody


def arguments(parser: ArgumentParser) -> None:
    add_state_options(parser)
    about = "who, as /whoami shows it, such as web:owner:owner"
    parser.add_argument("person", type=parse_text, metavar="CHANNEL:ACCOUNT:SENDER", help=about)
    add_erasure_options(parser)


def run(args: Namespace) -> int:
    settings = settings_to_look(args)
    person = SenderId.parse(args.person)
    asks = needs_confirmation(args)
    with attach(settings) as client:
        if asks and not confirm(_forget(client, person, dry_run=True)):
            print("nothing was erased")
            return 1
        erased = _forget(client, person, dry_run=args.dry_run)
        if not args.dry_run and str(person) in LOCAL:
            erase_typed_lines(settings.state)
    report_erased(erased, args)
    return 0


def _forget(client: StateClient, person: SenderId, *, dry_run: bool) -> Erased:
    return client.call("POST", "/api/v1/forget", Erased, ForgetBody(str(person), dry_run), timeout=LONG)


# ── confirmation and report of an erasure, for finclaw sessions delete, prune and restore too ───────────────────


_YES: Final = ("y", "yes", "예", "네")
_SHOWN: Final = 10
_KEPT: Final = (
    "kept, without words: ids and digests that recognise a second delivery, and the sums in `finclaw costs`",
    "not reached: backups, exports, and what providers and platforms keep",
)


def needs_confirmation(
    args: Namespace, refusal: str = "this erases for good; say --yes, or look first with --dry-run"
) -> bool:
    """Whether a person is to be asked. Raises ConfigError where nobody could answer."""
    if args.yes or getattr(args, "dry_run", False):
        return False
    at_terminal = all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))  # pyright: ignore
    if args.json or not at_terminal:
        raise ConfigError(refusal)
    return True


def ask_to_go_on() -> bool:
    try:
        return input("Go on? [y/N] ").strip().lower() in _YES
    except EOFError:
        return False


def confirm(expected: Erased) -> bool:
    print(f"{_amount(expected)} will be erased for good:")
    shown = [*expected.sessions, *(f"{key}  (only the person's part; others wrote there)" for key in expected.shared)]
    if len(shown) > _SHOWN:
        shown[_SHOWN:] = ["…"]
    print("\n".join(f"  {line}" for line in shown))
    return ask_to_go_on()


def report_erased(erased: Erased, args: Namespace) -> None:
    lines = [f"{_amount(erased)} {'would be' if args.dry_run else 'were'} erased"]
    if erased.shared:
        lines.append(f"conversations with others that start anew: {', '.join(erased.shared)}")
    unknown = "whose extension is not loaded or cannot erase; look at it yourself"
    lines += (f"not searched: extensions/{name}.db, {unknown}" for name in erased.not_searched)
    if not args.dry_run:
        lines += _KEPT
    print_result(args, {**msgspec.to_builtins(erased), "dry_run": args.dry_run}, lines)


def _amount(erased: Erased) -> str:
    conversations = plural(len(erased.sessions) + len(erased.shared), "conversation", ",")
    return f"{plural(erased.messages, 'message', ',')} with their answers in {conversations}"


def erase_typed_lines(state: Path) -> None:
    """The lines that were typed in `finclaw chat`, which any of its conversations may have had."""
    for path in (state / HISTORY_FILE, state / SEEN):
        with suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            with open(descriptor, "wb") as file:
                file.write(bytes(os.fstat(descriptor).st_size))
                file.flush()
                os.fsync(descriptor)
            path.unlink()
