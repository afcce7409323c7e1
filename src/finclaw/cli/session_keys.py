"""The lookup of a session by what was typed: a whole key, a name for `--session`, or a part that fits only one."""

import difflib
from collections.abc import Iterator
from urllib.parse import quote

from finclaw.cli.attach import StateClient
from finclaw.cli.formatting import one_line
from finclaw.config.schema import Settings
from finclaw.errors import ConfigError, SessionError
from finclaw.kernel.record import SessionRecord
from finclaw.routing.session_key import place_of, session_key
from finclaw.web.principal import CHANNEL, OWNER, MessageBody, inbound

_SHOWN = 5


def all_sessions(client: StateClient, containing: str = "") -> Iterator[SessionRecord]:
    page = client.list_sessions(500, containing=containing)
    yield from page.items
    while page.after is not None:
        page = client.list_sessions(500, page.after, containing)
        yield from page.items


def new_key(settings: Settings, given: str) -> str:
    """The key that a new session gets: a whole key as it is, and a name as `finclaw ask --session` would make it."""
    if place_of(given) is not None:
        return given
    if not 1 <= len(given) <= 200 or not given.isprintable():
        raise ConfigError("a new session wants a name of 1 to 200 printable characters, or a whole key")
    body = MessageBody(message_id="", text="", conversation=given)
    return session_key(settings.agent.name, inbound(OWNER, body))


def name_of(key: str) -> str:
    """What to give to `--session` for it; empty for a session that only its own channel reaches."""
    place = place_of(key)
    ours = place is not None and (place.channel, place.account, place.peer) == (CHANNEL, OWNER.name, OWNER.name)
    return place.conversation if ours and place is not None else ""


def find_key(client: StateClient, settings: Settings, given: str, *, guess: bool = False) -> str:
    """The one session that is meant. `guess` lets a part stand for it, which is for looking and never for changing."""
    for key in dict.fromkeys((given, _own_key(settings, given))):
        if key and any(each.key == key for each in all_sessions(client, key)):
            return key
    part = quote(given, safe=":%+") if given else ""
    near = [each.key for each in client.list_sessions(_SHOWN + 1, containing=part).items] if part else []
    if guess and len(near) == 1:
        return near[0]
    raise SessionError(_explain_unknown(client, given, near))


def _own_key(settings: Settings, given: str) -> str:
    try:
        return new_key(settings, given)
    except ConfigError:
        return ""


def _explain_unknown(client: StateClient, given: str, near: list[str]) -> str:
    shown = one_line(given, 60)
    if near:
        more = ", …" if len(near) > _SHOWN else ""
        which = "it is part of" if len(near) == 1 else "it is part of several:"
        return f"there is no session {shown!r}; {which} {', '.join(near[:_SHOWN])}{more}; give the whole key"
    close = _suggest_keys(client, given)
    hint = f"did you mean {close}?" if close else "`finclaw sessions list` shows them all"
    return f"there is no session {shown!r}; {hint}"


def _suggest_keys(client: StateClient, given: str) -> str:
    recent = [each.key for each in client.list_sessions(500).items]
    names = {name: name for key in recent if (name := name_of(key))} | {key: key for key in recent}
    found = difflib.get_close_matches(given, names, n=3, cutoff=0.6)
    return " or ".join(one_line(each, 120) for each in found)
