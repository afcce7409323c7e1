"""Other ways to the same end as the security trial's H13, H14 and H16: what must not come out, and to whom."""

import asyncio
import base64
import html
import io
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec
import pytest
from msgspec import Struct
from tests.cli.terminal import clean_environment
from tests.walks.house import House, in_virtual_time
from tests.web.gateway import MemoryGateway, answer

from finclaw.cli.client import announce_gateway
from finclaw.cli.commands.trace import trace_of
from finclaw.errors import ProviderError, ToolError
from finclaw.kernel.event import MessageAccepted, MessageEnded, PreviewUpdated
from finclaw.kernel.port import Tool, ToolScope
from finclaw.redaction import Secret
from finclaw.testing import call, fails, reply, say
from finclaw.tools.define import tool
from finclaw.web.server import serve_web
from finclaw.web.settings import WebServerSettings
from finclaw.web.token import obtain_token

VALUE: Final = "zQ7+wK/tulip=Harbor&93"
"""With no prefix that anybody knows, and with what addresses and JSON write in another way."""

FORMS: Final[dict[str, Callable[[str], str]]] = {
    "plain": str,
    "in an address": lambda each: f"https://a.example/?key={quote(each, safe='')}&b=1",
    "in an address, in small letters": lambda each: re.sub("%..", lambda found: found[0].lower(), quote(each, safe="")),
    "escaped twice": lambda each: quote(quote(each, safe=""), safe=""),
    "in JSON": lambda each: json.dumps({"key": each}),
    "in JSON with slashes": lambda each: json.dumps(each).replace("/", "\\/"),
    "in JSON as Go writes it": lambda each: each.replace("&", "\\u0026"),
    "in JSON as Gson writes it": lambda each: each.replace("&", "\\u0026").replace("=", "\\u003d"),
    "in JSON as .NET writes it": lambda each: each.replace("&", "\\u0026").replace("+", "\\u002B"),
    "in JSON in JSON": lambda each: json.dumps(json.dumps({"key": each})),
    "in HTML": html.escape,
    "in base64": lambda each: base64.b64encode(each.encode()).decode(),
    "in base64 behind a name": lambda each: base64.b64encode(f"user:{each}".encode()).decode(),
    "in base64 behind two letters": lambda each: base64.b64encode(f"ab{each}xyz".encode()).decode(),
    "in base64 for addresses": lambda each: base64.urlsafe_b64encode(f"x{each}".encode()).decode().rstrip("="),
    "in hexadecimal": lambda each: each.encode().hex(),
    "in capital hexadecimal": lambda each: each.encode().hex().upper(),
    "as bytes": lambda each: repr(each.encode()),
    "between words": lambda each: f"key{each}end",
}


class Words(Struct):
    how: str


def saying(words: str) -> list[Tool]:
    @tool("act__tell", "Tells.", group="finance")
    async def tell(args: Words, scope: ToolScope) -> str:
        if args.how == "result":
            return f"it is {words}"
        if args.how == "error":
            raise ToolError(f"not with {words}", suggestion=f"try {words}")
        try:
            raise KeyError(words)
        except KeyError as error:
            raise RuntimeError(f"broken by {words}") from error

    return [tell]


async def everywhere(gateway: Any, lines: io.StringIO) -> dict[str, str]:
    stories = [await gateway.app.turn(turn.turn_id) for turn in await gateway.app.turns(50)]
    traces = [msgspec.json.encode(trace_of(story)).decode() for story in stories if story is not None]
    return {
        "a reply": "\n".join(gateway.said),
        "an event": "\n".join(map(repr, gateway.events)),
        "the log": lines.getvalue(),
        "a trace": "\n".join(traces),
        "an outcome": repr([story.outcome for story in stories if story is not None]),
        "a result": repr(gateway.results) if gateway.provider.requests else "",
    }


@pytest.mark.parametrize("form", FORMS)
@in_virtual_time
async def test_h13_a_secret_is_hidden_by_value_in_every_form(house: House, lines: io.StringIO, form: str) -> None:
    """From a result, an error, an exception with a cause, a provider, a layer, and the model's own words by letters."""
    words = FORMS[form](Secret(VALUE).reveal())
    raising = list[str]()

    async def layer(ctx: Any) -> Any:
        if raising:
            raise RuntimeError(f"no: {words}")
        return await ctx.next()

    script = [
        *(reply(call("act__tell", {"how": how})) for how in ("result", "error", "broken")),
        reply(say(f"It is {words}, I think.", chunks=400)),
        *[fails(ProviderError(f"401: {words}"))] * 12,
    ]
    async with house.open(*script, tools=saying(words), layers=[("turn", layer)]) as gateway:
        await gateway.ask("go")
        await gateway.ask("again")
        raising.append("")
        await gateway.ask("and now?")
        found = [place for place, text in (await everywhere(gateway, lines)).items() if words in text or VALUE in text]
        assert found == []


# ── H16 ─────────────────────────────────────────────────────────────────────────────────────────────────────────

SEQUENCES: Final = {
    "title": "\x1b]0;owned\x07",
    "clipboard": "\x1b]52;c;ZXZpbA==\x1b\\",
    "link": "\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "clear": "\x1b[2J\x1b[H",
    "C1": "\x9b2J\x9d0;owned\x9c\x90q\x9c",
    "bell": "\x07",
    "back": "approved\x08\x08\x08\x08\x08\x08\x08\x08denied",
    "return": "safe\rowned",
    "right to left": "\u202eabc\u2066",
    "answer back": "\x05\x1b[c\x1b[6n",
    "delete": "\x7f\x00\x0e\x0f",
    "line separators": "a\u2028b\u2029c\x85d\x0bc\x0ce",
}
FORBIDDEN: Final = ("\x1b]", "\x1b[2J", "\x1b[c", "\x1b[6n", "\x1b\\", "\x07", "\x08", "\x05", "\x00", "\x0e", "\x7f")


async def at_a_terminal(state: Path, *words: str) -> bytes:
    """What a command of ours writes to a terminal of its own."""
    master, slave = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "finclaw", *words, "--state", str(state),
        stdin=subprocess.DEVNULL, stdout=slave, stderr=slave, env={**clean_environment(), "TERM": "xterm"},
    )  # fmt: skip
    os.close(slave)

    def read() -> bytes:
        got = b""
        with suppress(OSError):
            while piece := os.read(master, 65_536):
                got += piece
        os.close(master)
        return got

    async with asyncio.timeout(20):
        got = await asyncio.to_thread(read)
        await process.wait()
    return got


def obeyed(raw: bytes) -> list[str]:
    text = raw.decode(errors="replace")
    found = [each for each in FORBIDDEN if each in text]
    found += [f"{ord(c):x}" for c in text if 0x80 <= ord(c) <= 0x9F or c in "\u202e\u2066\u2028\u2029"]
    return found + (["a lone return"] if "\rowned" in text else [])


@pytest.mark.parametrize("words", [["ask", "hello"], ["ask", "--json", "hello"], ["ask", "--verbose", "hello"]])
async def test_h16_no_sequence_reaches_a_terminal_in_pieces_or_whole(tmp_path: Path, words: list[str]) -> None:
    """The model's words come in pieces that part each sequence, and then as a whole; the reason has them too."""
    gateway = MemoryGateway()
    token, _ = obtain_token(tmp_path)
    every = " | ".join(SEQUENCES.values())
    async with serve_web(gateway, WebServerSettings(port=0), token) as server:
        with announce_gateway(tmp_path, server.url):
            asking = asyncio.create_task(at_a_terminal(tmp_path, *words))
            inbound_id = await asyncio.wait_for(gateway.next_id(), 20)
            gateway.events.emit(
                MessageAccepted(inbound_id=inbound_id, ticket=1, channel="web", account="owner", conversation="main")
            )
            for at, letter in enumerate(every):
                gateway.events.emit(PreviewUpdated(inbound_id=inbound_id, turn_id="t", at=at, text=letter))
                await asyncio.sleep(0)
            await asyncio.sleep(0.2)
            ended = msgspec.structs.replace(answer(every), reason=every, model=every)
            await gateway.end(inbound_id, ended)
            gateway.events.emit(MessageEnded(inbound_id=inbound_id, turn_id="t", outcome="answered", reply=every))
            raw = await asking
    assert b"owned" in raw, raw
    assert obeyed(raw) == [], raw
