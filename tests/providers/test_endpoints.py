"""From a model to its endpoints: one for each key, in their order, each with the timeouts that its server needs."""

import asyncio

import pytest
from aiohttp import web
from tests.providers.model_server import ASKED, serving

from finclaw.clock import SystemClock
from finclaw.config.routes import open_provider
from finclaw.errors import ConfigError, ProviderTimeout
from finclaw.kernel.chunk import Model
from finclaw.pipeline.settings import PipelineSettings
from finclaw.providers.endpoints import ProviderEndpoint, list_endpoints
from finclaw.providers.http.address import FIRST_BYTE_PRIVATE_S, first_byte_timeout, is_private_address
from finclaw.providers.http.pool import CONNECT_SECONDS
from finclaw.providers.settings import Kind, ModelSettings, ProviderSettings, with_usual_keys
from finclaw.redaction import Secret

WORK, SPARE = Secret("w-1"), Secret("s-2")
KEYED = {"openai": ProviderSettings(keys={"work": WORK, "spare": SPARE})}
GPT = Model("openai", "gpt-5")


def credentials(found: list[ProviderEndpoint]) -> list[tuple[str, Secret | None]]:
    return [(endpoint.credential, endpoint.key) for endpoint in found]


def test_there_is_a_door_for_each_key_in_the_given_order() -> None:
    found = list(list_endpoints(GPT, KEYED, {}))
    assert credentials(found) == [("work", WORK), ("spare", SPARE)]
    assert {endpoint.base_url for endpoint in found} == {"https://api.openai.com/v1"}
    turned = {"openai": ProviderSettings(keys={"spare": SPARE, "work": WORK})}
    assert credentials(list(list_endpoints(GPT, turned, {}))) == [("spare", SPARE), ("work", WORK)]


def test_the_only_key_has_a_name_and_a_server_of_ones_own_needs_none() -> None:
    assert credentials(list(list_endpoints(GPT, {"openai": ProviderSettings(key=WORK)}, {}))) == [("default", WORK)]
    assert credentials(list(list_endpoints(Model("ollama", "qwen3"), {}, {}))) == [("default", None)]
    assert list(list_endpoints(Model("offline", "demo"), {}, {})) == [ProviderEndpoint("offline", "offline")]


def test_a_model_that_lives_elsewhere_is_shown_none_of_its_providers_keys() -> None:
    there = {"openai/gpt-5": ModelSettings(base_url="http://elsewhere.example.org/v1")}
    assert credentials(list(list_endpoints(GPT, KEYED, there))) == [("models.openai/gpt-5", None)]
    own = {"openai/gpt-5": ModelSettings(key=Secret("own"))}
    assert credentials(list(list_endpoints(GPT, KEYED, own))) == [("models.openai/gpt-5", Secret("own"))]


def test_no_key_is_found_out_before_anybody_is_asked() -> None:
    with pytest.raises(ConfigError, match="openai wants a key"):
        next(list_endpoints(GPT, {}, {}))


def test_no_door_shows_its_key() -> None:
    assert "w-1" not in repr(list(list_endpoints(GPT, KEYED, {}))) + repr(KEYED)


def test_key_and_keys_do_not_stand_beside_each_other() -> None:
    with pytest.raises(ConfigError, match="write every key under keys") as caught:
        ProviderSettings(key=WORK, keys={"spare": SPARE})
    assert "w-1" not in str(caught.value)


def test_the_usual_variable_is_not_looked_at_where_keys_are_given() -> None:
    assert with_usual_keys(KEYED, {"OPENAI_API_KEY": "o"}) == KEYED


# ── patience ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8000/v1",
        "http://[::1]:8000",
        "http://localhost:11434/v1",
        "http://LOCALHOST./v1",
        "http://10.1.2.3/v1",
        "http://172.16.0.9",
        "https://192.168.0.7:8443/v1",
        "http://[fd00::1]/v1",
        "http://169.254.1.1",
        "http://100.100.1.1",
        "http://vllm:8000/v1",
        "http://gpu.local/v1",
        "http://gpu.home.arpa",
    ],
)
def test_a_server_of_ones_own_may_take_longer_to_begin(url: str) -> None:
    assert is_private_address(url)
    assert first_byte_timeout("box", url) == 300


@pytest.mark.parametrize(
    "url",
    [
        "https://api.openai.com/v1",
        "https://8.8.8.8/v1",
        "https://[2606:4700::1111]/v1",
        "https://172.32.0.1",
        "https://not.locals",
        "https://127.0.0.1.example.org/v1",
        "https://localhost.example.org",
    ],
)
def test_others_may_not(url: str) -> None:
    assert first_byte_timeout("box", url) == 120


def test_what_is_set_counts_for_every_key() -> None:
    assert [endpoint.first_byte for endpoint in list_endpoints(GPT, KEYED, {})] == [120, 120]
    patient = {"openai": ProviderSettings(keys={"work": WORK, "spare": SPARE}, first_byte_s=7.5)}
    assert [endpoint.first_byte for endpoint in list_endpoints(GPT, patient, {})] == [7.5, 7.5]
    assert next(list_endpoints(Model("ollama", "qwen3"), {}, {})).first_byte == 300
    moved = {"ollama": ProviderSettings(base_url="https://gpu.example.org/v1")}
    assert next(list_endpoints(Model("ollama", "qwen3"), moved, {})).first_byte == 300


def test_a_pause_is_as_long_as_it_is_set_for_every_key() -> None:
    assert [endpoint.idle for endpoint in list_endpoints(GPT, KEYED, {})] == [60, 60]
    patient = {"openai": ProviderSettings(keys={"work": WORK, "spare": SPARE}, idle_s=240.0)}
    assert [(endpoint.first_byte, endpoint.idle) for endpoint in list_endpoints(GPT, patient, {})] == [
        (120, 240),
        (120, 240),
    ]


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_whoever_falls_silent_for_longer_is_given_up(kind: Kind) -> None:
    hold = asyncio.Event()

    async def falls_silent(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b": I am here\n\n")
        await hold.wait()
        return response

    async with serving(falls_silent) as url:
        box = {"box": ProviderSettings(kind=kind, base_url=url, key=WORK, idle_s=0.05)}
        provider = open_provider(Model("box", "one"), SystemClock(), box, {})
        with pytest.raises(ProviderTimeout, match=r"box fell silent for 0\.05 s"):
            await anext(aiter(provider.stream(ASKED)))
        hold.set()
        await provider.close()


async def test_whoever_is_silent_for_longer_is_given_up() -> None:
    hold = asyncio.Event()

    async def silent(request: web.Request) -> web.StreamResponse:
        await hold.wait()
        return web.Response()

    async with serving(silent) as url:
        box = {"box": ProviderSettings(kind="openai", base_url=url, first_byte_s=0.05)}
        provider = open_provider(Model("box", "one"), SystemClock(), box, {})
        with pytest.raises(ProviderTimeout):
            await anext(aiter(provider.stream(ASKED)))
        hold.set()
        await provider.close()


def test_the_watchdog_outwaits_every_model_and_the_deadline_comes_first() -> None:
    settings = PipelineSettings()
    assert settings.stall_abort_s > FIRST_BYTE_PRIVATE_S + CONNECT_SECONDS
    assert settings.stall_abort_s > settings.timeout_ms / 1_000
