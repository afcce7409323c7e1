"""`finclaw sessions`: list, show, export, import, copy, repair and delete conversations."""

import difflib
import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from textwrap import indent
from urllib.parse import quote, urlencode

import msgspec

from finclaw.cli import formatting
from finclaw.cli.arguments import (
    add_erasure_options,
    add_json_option,
    add_output_options,
    parse_count,
    parse_text,
    settings_to_look,
    start_actions,
)
from finclaw.cli.attach import LONG, StateClient, attach, session_path
from finclaw.cli.commands.forget import confirm, erase_typed_lines, needs_confirmation, report_erased
from finclaw.cli.formatting import clean, json_line, local_time, one_line, plural, print_result, table
from finclaw.cli.write_file import write_file
from finclaw.config.schema import Settings
from finclaw.errors import ConfigError, SessionError
from finclaw.kernel.message import Block, Image, Message, Text, Thinking, ToolCall, ToolResult, as_seen
from finclaw.kernel.record import Erased, SessionPage, SessionRecord
from finclaw.redaction import hide_known_secrets
from finclaw.redaction.redact import redact_for_display
from finclaw.sessions.session_key import place_of, session_key
from finclaw.text import escape_json, fix_surrogates
from finclaw.transcript.conversation_file import read_conversation
from finclaw.web.principal import CHANNEL, OWNER, MessageBody, inbound
from finclaw.web.view import ForkBody, MessagesView, RepairBody, RepairView, SessionView


def arguments(parser: ArgumentParser) -> None:
    add_action = start_actions(parser)
    action = add_action("list", "list sessions, the most recently used first", _list)
    action.add_argument("--containing", type=parse_text, default="", metavar="TEXT", help="only keys with this in them")
    _add_page_options(action, "place, which the page before printed")
    action = add_action("show", "print a conversation, the newest message last", _show)
    _add_key(action)
    _add_page_options(action, "message's id; without it the latest are shown")
    action = add_action("export", "write a conversation to a file", _export)
    _add_key(action)
    add_output_options(action)
    action = add_action("import", "make a session from such a file", _import)
    action.add_argument("file", metavar="FILE", help="what `finclaw sessions export` wrote; - reads standard input")
    about = "the new session (default: the one it was)"
    action.add_argument("--as", type=parse_text, dest="key", metavar="KEY", help=about)
    add_json_option(action)
    action = add_action("fork", "copy a conversation into a new session", _fork)
    _add_key(action)
    about = "the new session: a name for --session, or a whole key"
    action.add_argument("into", type=parse_text, metavar="NEWKEY", help=about)
    add_json_option(action)
    action = add_action("reset", "start a conversation anew, as /reset does; its records stay", _reset)
    _add_key(action)
    add_json_option(action)
    action = add_action("delete", "erase a conversation with its turns, traces and answers, for good", _delete)
    _add_key(action)
    add_erasure_options(action)
    action = add_action("repair", "repair broken conversations, and say what was wrong", _repair)
    action.add_argument("key", type=parse_text, metavar="KEY", nargs="?", help="the session (default: all of them)")
    action.add_argument("--dry-run", action="store_true", help="only show what is broken")
    add_json_option(action)


def _add_key(parser: ArgumentParser) -> None:
    about = "the session: its key, or the name you gave to --session"
    parser.add_argument("key", type=parse_text, metavar="KEY", help=about)


def _add_page_options(parser: ArgumentParser, what: str) -> None:
    parser.add_argument("--limit", type=parse_count, default=50, metavar="N", help="at most this many (default 50)")
    parser.add_argument("--after", type=parse_text, metavar="PLACE", help=f"continue after this {what}")
    add_json_option(parser)


def run(args: Namespace) -> int | None:
    settings = settings_to_look(args)
    if args.act is _import:
        return _import(settings, args)
    with attach(settings) as client:
        return args.act(client, settings, args)


def _list(client: StateClient, _: Settings, args: Namespace) -> None:
    page = _list_page(client, args.limit, args.after, args.containing)
    lines = ["there are no more sessions" if args.after else "there are no sessions"]
    if page.items:
        lines = _session_table(page.items)
    if page.items and page.after is not None:
        lines.append(f"there are more: --after {page.after}")
    print_result(args, page, lines)


def _show(client: StateClient, settings: Settings, args: Namespace) -> None:
    key = find_key(client, settings, args.key, guess=True)
    messages = read_conversation(client.fetch("GET", f"{session_path(key)}/export"))[1]
    first = max(0, len(messages) - args.limit)
    if args.after is not None:
        first = next((number for number, each in enumerate(messages, start=1) if each.id == args.after), -1)
    if first < 0:
        raise SessionError("--after names no message of this session; `--json` shows their ids")
    shown = [as_seen(each) for each in messages[first : first + args.limit]]
    more = shown[-1].id if shown and first + args.limit < len(messages) else None
    if args.json:
        print(json_line(MessagesView(key, shown, more)))
        return
    print(f"{key}  ({plural(len(messages), 'message')})")
    if shown:
        print(f"\n{conversation(shown, formatting.terminal_columns() or 0)}")
    if len(shown) < len(messages):
        next_page = "" if more is None else f", --after {more} the next"
        print(f"\n{len(shown)} of {len(messages)} messages; --limit N shows more{next_page}")


def _export(client: StateClient, settings: Settings, args: Namespace) -> None:
    key = find_key(client, settings, args.key, guess=True)
    content = hide_known_secrets(client.fetch("GET", f"{session_path(key)}/export").decode())
    if args.output == "-":
        if sys.stdout.isatty():  # somebody's text must not move the cursor or turn the direction
            content = escape_json(content)
        sys.stdout.flush()
        sys.stdout.buffer.write(content.encode())
        return
    write_file(Path(args.output), content.encode(), force=args.force)
    count = content.count("\n") - 1
    view = {"session": key, "messages": count, "file": fix_surrogates(args.output)}
    print_result(args, view, [f"{args.output}: {plural(count, 'message')} of {key}"])


def _import(settings: Settings, args: Namespace) -> None:
    try:
        content = sys.stdin.buffer.read() if args.file == "-" else Path(args.file).read_bytes()
    except OSError as error:
        advice = "give a file that `sessions export` wrote"
        raise ConfigError(f"cannot read {args.file}: {error.strerror}; {advice}") from error
    try:
        session, messages = read_conversation(content)
    except SessionError as error:
        raise SessionError(f"{args.file}: {error}") from error
    if args.key is not None:
        session = new_key(settings, args.key)
    elif place_of(session) is None:
        raise SessionError(f"{args.file}: line 1 names no session that can be here; choose one with --as NAME")
    with attach(settings, make=True) as client:
        client.call("POST", f"{session_path(session)}/import", SessionView, content, timeout=LONG)
    _report_session(args, session, len(messages), "imported")


def _fork(client: StateClient, settings: Settings, args: Namespace) -> None:
    key = find_key(client, settings, args.key, guess=True)
    into = new_key(settings, args.into)
    # The gateway copies what it keeps: an export would be redacted.
    copy = client.call("POST", f"{session_path(key)}/fork", SessionView, ForkBody(into), timeout=LONG)
    _report_session(args, into, copy.messages, f"copied from {key}")


def _report_session(args: Namespace, key: str, count: int, how: str) -> None:
    lines = [f"{key}: {plural(count, 'message')} {how}"]
    if name := name_of(key):
        lines.append(f"go on with:  finclaw chat --session {shlex.quote(name)}")
    print_result(args, SessionView(key, count), lines)


def _reset(client: StateClient, settings: Settings, args: Namespace) -> None:
    key = find_key(client, settings, args.key)
    view = client.call("POST", f"{session_path(key)}/reset", SessionView)
    lines = (
        f"{key} starts anew; what was asked and answered before stays on record until `finclaw prune` removes it",
        f"erase it now:  finclaw sessions delete {shlex.quote(name_of(key) or key)}",
    )
    print_result(args, view, lines)


def _delete(client: StateClient, settings: Settings, args: Namespace) -> int | None:
    asks = needs_confirmation(args)
    key = find_key(client, settings, args.key)
    if asks and not confirm(_erase(client, key, dry_run=True)):
        print("nothing was erased")
        return 1
    erased = _erase(client, key, dry_run=args.dry_run)
    if not args.dry_run and name_of(key):
        erase_typed_lines(settings.state)
    report_erased(erased, args)


def _erase(client: StateClient, key: str, *, dry_run: bool) -> Erased:
    path = f"{session_path(key)}?dry_run={str(dry_run).lower()}"
    return client.call("DELETE", path, Erased, timeout=LONG)


def _repair(client: StateClient, settings: Settings, args: Namespace) -> None:
    keys = [each.key for each in all_sessions(client)] if args.key is None else [find_key(client, settings, args.key)]
    body = RepairBody(args.dry_run)
    reports = [client.call("POST", f"{session_path(key)}/repair", RepairView, body) for key in keys]
    broken = [report for report in reports if report.findings]
    lines: list[str] = []
    for report in broken:
        lines.append(one_line(report.session, 4_000))
        for each in report.findings:
            at = f" ({one_line(each.message_id, 100)})" if each.message_id else ""
            lines.append(f"  {each.kind}: {one_line(each.text, 500)}{at}")
    repaired = "would be repaired" if args.dry_run else "repaired"
    lines.append(f"{len(reports)} checked, {f'{len(broken)} {repaired}' if broken else 'all whole'}")
    print_result(args, {"checked": len(reports), "broken": broken}, lines)


# ── lookup of a session by what was typed: a whole key, a name for --session, or a part that fits only one ──────


_SHOWN = 5


def all_sessions(client: StateClient, containing: str = "") -> Iterator[SessionRecord]:
    page = _list_page(client, 500, containing=containing)
    yield from page.items
    while page.after is not None:
        page = _list_page(client, 500, page.after, containing)
        yield from page.items


def _list_page(client: StateClient, limit: int, after: str | None = None, containing: str = "") -> SessionPage:
    query = {"limit": str(limit), "containing": containing}
    if after is not None:
        query["after"] = after
    return client.call("GET", f"/api/v1/sessions?{urlencode(query)}", SessionPage)


def new_key(settings: Settings, given: str) -> str:
    """The key that a new session gets: a whole key as it is, and a name as `finclaw ask --session` would make it."""
    if place_of(given) is not None:
        return given
    if not 1 <= len(given) <= 200 or not given.isprintable():
        raise ConfigError("a new session wants a name of 1 to 200 printable characters, or a whole key")
    body = MessageBody(message_id="", text="", conversation=given)
    return session_key(settings.agent.name, inbound(OWNER, body))


def find_key(client: StateClient, settings: Settings, given: str, *, guess: bool = False) -> str:
    """The one session that is meant. `guess` lets a part stand for it, which is for looking and never for changing."""
    keys = [given]
    with suppress(ConfigError):
        keys.append(new_key(settings, given))
    for key in filter(None, keys):
        if any(each.key == key for each in all_sessions(client, key)):
            return key
    part = quote(given, safe=":%+")
    near = [each.key for each in _list_page(client, _SHOWN + 1, containing=part).items] if given else []
    if guess and len(near) == 1:
        return near[0]
    raise SessionError(_explain_unknown(client, given, near))


def _explain_unknown(client: StateClient, given: str, near: list[str]) -> str:
    shown = one_line(given, 60)
    if near:
        which = "it is part of" if len(near) == 1 else "it is part of several:"
        if len(near) > _SHOWN:
            near[_SHOWN:] = ["…"]
        return f"there is no session {shown!r}; {which} {', '.join(near)}; give the whole key"
    recent = [each.key for each in _list_page(client, 500).items]
    names = [name for key in recent if (name := name_of(key))]
    close = difflib.get_close_matches(given, dict.fromkeys((*names, *recent)), n=3, cutoff=0.6)
    if close:
        return f"there is no session {shown!r}; did you mean {' or '.join(one_line(each, 120) for each in close)}?"
    return f"there is no session {shown!r}; `finclaw sessions list` shows them all"


# ── the text form of sessions and conversations, without secrets: `--json` and `export` have all ────────────────


_LONGEST = 1_000
"""Characters of a tool's result that are worth a screen; `--json` and `export` have them all."""


def _session_table(sessions: Sequence[SessionRecord]) -> list[str]:
    """A name, which `--session` takes, stands last: how wide it is on the screen does not matter there."""
    rows = [("SESSION", "MESSAGES", "TURNS", "LAST USED", "NAME")]
    for each in sessions:
        key = one_line(each.key, 4_000)
        used = f"{each.updated_at.astimezone():%Y-%m-%d %H:%M}"
        rows.append((key, str(each.messages), str(each.turns), used, one_line(name_of(each.key))))
    return table(rows, right=(1, 2))


def conversation(messages: Sequence[Message], columns: int) -> str:
    """`columns` is how wide the terminal is; 0 leaves lines as they are."""
    shown: list[str] = []
    for message in messages:
        text = "\n".join(map(_block, message.blocks))
        if columns:
            text = formatting.wrap(text, max(20, columns - 2))
        shown.append(f"{local_time(message.created_at)}  {_who(message)}\n{indent(text, '  ')}")
    return "\n\n".join(shown)


def _who(message: Message) -> str:
    source = one_line(message.source.name or message.source.id)
    if message.role == "user" and source:
        return f"user ({source})"
    if message.source.kind not in (message.role, "assistant", "tool"):
        return f"{message.role} (by {f'{message.source.kind} {source}'.rstrip()})"
    return message.role


def _block(block: Block) -> str:
    match block:
        case Text(text):
            return clean(redact_for_display(text))
        case Image(media_type, data, blob):
            return f"(image) {one_line(media_type, 100)}, {blob[:12] or f'{len(data):,} bytes'}"
        case Thinking(redacted=True):
            return "(thinking, not shown)"
        case Thinking(text):
            return f"(thinking) {clean(redact_for_display(text))}"
        case ToolCall(_, name, args, bad_args):
            given = msgspec.json.encode(args).decode() if bad_args is None else bad_args
            return f"→ {one_line(name, 100)} {_short(given)}"
        case ToolResult():
            status = "" if block.status == "ok" else f" [{block.status}]"
            return f"← {one_line(block.name, 100)}{status} {_short(block.content)}"


def _short(text: str) -> str:
    shown = clean(redact_for_display(text))
    if len(shown) <= _LONGEST:
        return shown
    return f"{shown[:_LONGEST]} … ({len(shown) - _LONGEST} characters more)"


def name_of(key: str) -> str:
    """What to give to `--session` for it; empty for a session that only its own channel reaches."""
    place = place_of(key)
    if place is None or (place.channel, place.account, place.peer) != (CHANNEL, OWNER.name, OWNER.name):
        return ""
    return place.conversation
