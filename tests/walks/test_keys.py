"""Keys over a real line: who is refused with one is asked with the next, and no key is seen anywhere."""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
from aiohttp import web
from tests.providers.model_server import serving
from tests.providers.protocols import WIRES, Said
from tests.walks.house import Gateway

import finclaw
from finclaw.agent.settings import AgentSettings
from finclaw.kernel.event import ModelFellBack, ModelRetried
from finclaw.providers.settings import ModelSettings, ProviderSettings
from finclaw.redaction import Secret
from finclaw.testing import FakeClock, MemoryChannel, ScriptedProvider

OPENAI = next(wire for wire in WIRES if wire.name == "openai")
KEYS = {"work": Secret("sk-hush-work"), "spare": Secret("sk-hush-spare")}


@dataclass
class Server:
    """Answers whom it knows, and tells everybody else the status of their key."""

    statuses: dict[str, int]
    asked: list[str] = field(default_factory=list[str])

    async def answer(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        key = request.headers["authorization"].removeprefix("Bearer ")
        self.asked.append(key)
        if status := self.statuses.get(key):
            return web.json_response({"error": {"message": "no", "type": "some_error"}}, status=status)
        return web.Response(body=b"".join(OPENAI.parts(Said("Here.")).events), content_type="text/event-stream")


@asynccontextmanager
async def opened(state: Path, url: str) -> AsyncGenerator[Gateway]:
    clock = FakeClock()
    channel = MemoryChannel(clock)
    settings = finclaw.Settings(
        state=state,
        agent=AgentSettings(model="box/one", fallbacks=("offline/demo",)),
        providers={"box": ProviderSettings(kind="openai", base_url=f"{url}/v1", keys=KEYS)},
        models={"box/one": ModelSettings(window=32_000)},
    )
    async with finclaw.build(settings, channels=[channel], clock=clock, threaded=False) as app:
        gateway = Gateway(app, channel, ScriptedProvider(clock=clock))
        app.events.observe(gateway.events.append)
        yield gateway


def written_into(state: Path, words: bytes) -> list[Path]:
    return [path for path in state.rglob("*") if path.is_file() and words in path.read_bytes()]


@pytest.mark.spec("RT-06")
@pytest.mark.parametrize("status", [401, 402, 403, 429])
async def test_the_next_key_answers(tmp_path: Path, status: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    server = Server({"sk-hush-work": status})
    async with serving(server.answer) as url, opened(tmp_path, url) as gateway:
        assert (await gateway.ask("hello")).reply == "Here."
        assert (await gateway.ask("hello")).reply == "Here."
        assert server.asked == ["sk-hush-work", "sk-hush-spare", "sk-hush-spare"], "one is left alone for a while"
        retried = [event for event in gateway.events if isinstance(event, ModelRetried)]
        assert [(event.model, event.credential) for event in retried] == [("box/one", "spare")]
        assert not [event for event in gateway.events if isinstance(event, ModelFellBack)]
        seen = "".join(map(repr, gateway.events)) + caplog.text + "".join(gateway.said)
        assert "hush" not in seen
        assert b"hush" not in msgspec.json.encode(await gateway.app.turns(9))
    assert not written_into(tmp_path, b"sk-hush")


async def test_when_no_key_helps_the_fallback_answers(tmp_path: Path) -> None:
    server = Server({"sk-hush-work": 401, "sk-hush-spare": 402})
    async with serving(server.answer) as url, opened(tmp_path, url) as gateway:
        outcome = await gateway.ask("hello")
        assert (outcome.reply or "").endswith("(one was not available just now; demo answered instead.)")
        assert server.asked == ["sk-hush-work", "sk-hush-spare"]


@pytest.mark.spec("RT-02")
async def test_a_400_cools_no_key(tmp_path: Path) -> None:
    server = Server({"sk-hush-work": 400})
    async with serving(server.answer) as url, opened(tmp_path, url) as gateway:
        for _ in range(3):
            assert (await gateway.ask("hello")).kind == "failed"
        server.statuses.clear()
        assert (await gateway.ask("hello")).reply == "Here."
        assert server.asked == ["sk-hush-work"] * 4
