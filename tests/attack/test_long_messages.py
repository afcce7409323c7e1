"""Security trial H6: no message, whatever it is made of, holds up the gateway. Bounded is the CPU time it costs.

The goal is 100 ms for 1 MiB. The tests allow more, because the machine is shared and the client's own work counts too;
what is not linear takes seconds or hours at this size.
"""

import io
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from tests.attack.long_texts import long_texts
from tests.machine import is_quick
from tests.web.conftest import AUTH, TOKEN

import finclaw
from finclaw.agent.settings import AgentSettings
from finclaw.channels.mailbox import MailboxChannel
from finclaw.pipeline.reply_sequencer import Preview
from finclaw.pipeline.settings import PipelineSettings
from finclaw.providers.settings import ModelSettings
from finclaw.redaction import Secret
from finclaw.redaction.redact import redact_for_display
from finclaw.taint.addresses import addresses_in
from finclaw.taint.sources import unquoted_part
from finclaw.testing import ScriptedProvider
from finclaw.text import language_of
from finclaw.tools.control_tokens import extract_control_tokens
from finclaw.web.principal import CHANNEL
from finclaw.web.server import serve_web
from finclaw.web.settings import WebServerSettings

MIB = 1_048_576
LONGEST = PipelineSettings().max_text
ALLOWED = 0.25
"""Seconds of CPU time on a quiet machine. Seen: 61 ms at most, 20 ms mostly; a coverage run takes up to four times."""


class Client:
    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = f"{url}/api/v1/messages"
        self._number = 0

    async def cost_of(self, text: str) -> tuple[float, dict[str, Any]]:
        """The CPU time from sending to the end, and how it ended."""
        self._number += 1
        body = {"message_id": str(self._number), "conversation": f"c{self._number}", "text": text}
        data, headers = io.BytesIO(msgspec.json.encode(body)), {**AUTH, "Content-Type": "application/json"}
        began = time.process_time()
        async with self._session.post(self._url, data=data, headers=headers) as response:
            taken = await response.json()
            assert response.status == 202, taken
        async with self._session.get(f"{self._url}/{taken['inbound_id']}?wait=60", headers=AUTH) as response:
            ended = await response.json()
        return time.process_time() - began, ended


@asynccontextmanager
async def gateway(state: Path, provider: ScriptedProvider | None) -> AsyncGenerator[Client]:
    settings = finclaw.Settings(
        state=state,
        agent=AgentSettings(model="offline/demo" if provider is None else "house/large"),
        models={"house/large": ModelSettings(window=10_000_000)},
        web=WebServerSettings(port=0),
    )
    async with (
        finclaw.build(settings, channels=[MailboxChannel(CHANNEL)], provider=provider) as app,
        serve_web(app, settings.web, Secret(TOKEN)) as server,
        aiohttp.ClientSession() as session,
    ):
        client = Client(session, server.url)
        await client.cost_of("hello")  # so that nothing is loaded or compiled for the first time below
        yield client


async def test_a_request_of_a_mebibyte_is_refused_kindly_and_cheaply(tmp_path: Path) -> None:
    async with gateway(tmp_path, None) as client:
        for name, text in long_texts(MIB, bytes_of=MIB - 200).items():
            cost, ended = await client.cost_of(text)
            assert is_quick(cost, ALLOWED), f"{name}: {cost:.3f} s"
            if len(text) > LONGEST:
                assert (ended["outcome"], ended["turn_id"]) == ("refused", None)
                assert "pipeline.max_text" in ended["reason"]
        _, ended = await client.cost_of("가" * (LONGEST + 1))
        assert "너무 깁니다" in ended["reply"]
        _, ended = await client.cost_of("a" * (LONGEST + 1))
        assert "shorter message" in ended["reply"]


@pytest.mark.parametrize("demo", [True, False])
async def test_the_longest_message_that_is_taken_costs_little(tmp_path: Path, demo: bool) -> None:
    texts = long_texts(LONGEST, bytes_of=MIB - 200)
    async with gateway(tmp_path, None if demo else ScriptedProvider(*["fine"] * (len(texts) + 2))) as client:
        for name, text in texts.items():
            cost, ended = await client.cost_of(text)
            assert is_quick(cost, ALLOWED), f"{name}: {cost:.3f} s"
            assert ended["outcome"] in ("answered", "command", "skipped"), (name, ended)


async def test_a_command_with_a_long_tail_costs_little(tmp_path: Path) -> None:
    async with gateway(tmp_path, None) as client:
        for command in ("/approvals ", "/help ", "/", "/whoami", "<@bot> /approve ", "/price ", "/think "):
            for tail in ("A", "a ", "9", "가 ", "/", " “", " ‘'", "/think "):
                cost, _ = await client.cost_of(command + tail * (100_000 // len(tail)))
                assert is_quick(cost, ALLOWED), f"{command} {tail}: {cost:.3f} s"


@pytest.mark.parametrize(
    ("command", "text"), [("/price", "at most 2,000 characters"), ("/시세", "2,000자까지")], ids=["en", "ko"]
)
async def test_a_command_with_too_long_arguments_says_so(tmp_path: Path, command: str, text: str) -> None:
    async with gateway(tmp_path, None) as client:
        _, ended = await client.cost_of(command + " AAPL" * 500)
        assert (ended["outcome"], text in ended["reply"]) == ("refused", True), ended


READERS: dict[str, Callable[[str], object]] = {
    "language": language_of,
    "control tokens": extract_control_tokens,
    "quoted part": unquoted_part,
    "addresses": lambda text: addresses_in(text, bare=True),
    "secrets": redact_for_display,
    "preview of all at once": lambda text: Preview().feed(text),
    "preview behind a fence": lambda text: Preview().feed("```\n" + text),
}


@pytest.mark.parametrize("reader", READERS)
def test_each_reader_of_a_text_is_quick(reader: str) -> None:
    read = READERS[reader]
    read("Remember that AAPL is at https://a.b/c.")
    for name, text in long_texts(LONGEST).items():
        began = time.process_time()
        read(text)
        cost = time.process_time() - began
        assert is_quick(cost, ALLOWED), f"{name}: {cost:.3f} s"


@pytest.mark.parametrize("before", ["", "`", "```py\n", "So it is.\n"])
def test_a_preview_that_grows_word_by_word_is_linear(before: str) -> None:
    """Near miss: half a second for 50,000 closing marks, four times as much for twice as many."""
    for name, text in long_texts(50_000).items():
        preview = Preview()
        preview.feed(before)
        began = time.process_time()
        for start in range(0, len(text), 20):
            preview.feed(text[start : start + 20])
        cost = time.process_time() - began
        assert is_quick(cost, ALLOWED), f"{name}: {cost:.3f} s"
