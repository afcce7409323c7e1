"""The text form of sessions and conversations for a terminal, without secrets: `--json` and `export` have all."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from textwrap import indent

import msgspec

from finclaw.cli.formatting import clean, one_line, wrap
from finclaw.kernel.message import Block, Image, Message, Text, Thinking, ToolCall, ToolResult
from finclaw.kernel.record import IntegrityFinding, SessionRecord
from finclaw.redaction.redact import redact_for_display
from finclaw.routing.session_key import place_of
from finclaw.web.principal import CHANNEL, OWNER

_LONGEST = 1_000
"""Characters of a tool's result that are worth a screen; `--json` and `export` have them all."""


def table(sessions: Sequence[SessionRecord]) -> str:
    """A name, which `--session` takes, stands last: how wide it is on the screen does not matter there."""
    keys = [one_line(each.key, 4_000) for each in sessions]
    room = max(len("SESSION"), *map(len, keys))
    lines = [f"{'SESSION':<{room}}  MESSAGES  TURNS  LAST USED         NAME"]
    for key, each in zip(keys, sessions, strict=True):
        used = f"{_time(each.updated_at):%Y-%m-%d %H:%M}"
        line = f"{key:<{room}}  {each.messages:>8}  {each.turns:>5}  {used}  {one_line(name_of(each.key))}"
        lines.append(line.rstrip())
    return "\n".join(lines)


def conversation(messages: Sequence[Message], columns: int) -> str:
    """`columns` is how wide the terminal is; 0 leaves lines as they are."""
    return "\n\n".join(_message(message, columns) for message in messages)


def _message(message: Message, columns: int) -> str:
    body = "\n".join(_block(block) for block in message.blocks)
    text = wrap(body, max(20, columns - 2)) if columns else body
    return f"{_time(message.created_at):%Y-%m-%d %H:%M:%S}  {_who(message)}\n{indent(text, '  ')}"


def _who(message: Message) -> str:
    source = one_line(message.source.name or message.source.id)
    if message.role == "user" and source:
        return f"user ({source})"
    if message.source.kind not in (message.role, "assistant", "tool"):
        return f"{message.role} (by {message.source.kind}{f' {source}' if source else ''})"
    return message.role


def _block(block: Block) -> str:
    match block:
        case Text(text):
            return clean(redact_for_display(text))
        case Image(media_type, data, blob):
            return f"(image) {one_line(media_type, 100)}, {blob[:12] if blob else f'{len(data):,} bytes'}"
        case Thinking(text, redacted=redacted):
            return "(thinking, not shown)" if redacted else f"(thinking) {clean(redact_for_display(text))}"
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


def findings(key: str, found: Sequence[IntegrityFinding]) -> Iterator[str]:
    yield one_line(key, 4_000)
    for each in found:
        which = f" ({one_line(each.message_id, 100)})" if each.message_id else ""
        yield f"  {each.kind}: {one_line(each.text, 500)}{which}"


def _time(moment: datetime) -> datetime:
    """In the zone of whoever looks."""
    return moment.astimezone()


def name_of(key: str) -> str:
    """What to give to `--session` for it; empty for a session that only its own channel reaches."""
    place = place_of(key)
    ours = place is not None and (place.channel, place.account, place.peer) == (CHANNEL, OWNER.name, OWNER.name)
    return place.conversation if ours and place is not None else ""
