"""The ways to every model that can be asked: by each key, shared where they are the same, and all closed at the end."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from finclaw.agent.settings import AgentSettings
from finclaw.clock import SystemClock
from finclaw.config.routes import ModelRoutes
from finclaw.config.schema import Settings
from finclaw.errors import ConfigError, ModelUnknown
from finclaw.kernel.chunk import Chunk, ModelRequest
from finclaw.providers.settings import ModelSettings, ProviderSettings
from finclaw.redaction import Secret

PROVIDERS = {
    "openai": ProviderSettings(keys={"work": Secret("w-1"), "spare": Secret("s-2")}),
    "anthropic": ProviderSettings(key=Secret("a-1")),
    "box": ProviderSettings(kind="openai", base_url="http://127.0.0.1:1/v1", total_s=45.0),
}
MODELS = {"box/one": ModelSettings(window=8_192), "box/two": ModelSettings(window=8_192)}


class Brought:
    name = "mine"

    def __init__(self) -> None:
        self.closed = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        raise AssertionError("nobody asks")
        yield

    async def close(self) -> None:
        self.closed += 1


def routes(model: str, *fallbacks: str, brought: Brought | None = None) -> ModelRoutes:
    agent = AgentSettings(model=model, fallbacks=fallbacks)
    aliases = {"local": "box/one"}
    settings = Settings(state=Path("/nowhere"), agent=agent, providers=PROVIDERS, models=MODELS, aliases=aliases)
    return ModelRoutes(settings, brought, SystemClock())


def told(routes: ModelRoutes) -> list[tuple[str, str]]:
    return [(f"{each.model.provider}/{each.model.name}", each.credential) for each in routes.default]


@pytest.mark.spec("RT-06")
def test_the_chosen_model_comes_first_by_all_its_keys_then_the_fallbacks_by_theirs() -> None:
    assert told(routes("openai/gpt-5", "anthropic/claude-opus-5", "local")) == [
        ("openai/gpt-5", "work"),
        ("openai/gpt-5", "spare"),
        ("anthropic/claude-opus-5", "default"),
        ("box/one", "default"),
    ]


def test_how_long_an_answer_may_take_is_its_providers_to_say() -> None:
    found = routes("box/one", "openai/gpt-5")
    assert [each.within for each in found.default] == [45.0, None, None]
    assert [each.within for each in found.pick("box/two")] == [45.0]


def test_the_same_door_is_opened_once() -> None:
    made = routes("box/one", "box/two", "openai/gpt-5")
    one, two, work, spare = made.default
    assert one.provider is two.provider
    assert work.provider is not spare.provider, "another key is another door"
    assert made.pick("box/two")[0].provider is one.provider
    assert made.pick("openai/gpt-5")[1].provider is spare.provider


def test_a_picked_model_has_its_own_keys_and_nobody_instead() -> None:
    made = routes("box/one", "anthropic/claude-opus-5")
    assert [(each.model.name, each.credential) for each in made.pick("openai/gpt-5")] == [
        ("gpt-5", "work"),
        ("gpt-5", "spare"),
    ]
    assert [each.model.name for each in made.pick("local")] == ["one"]


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("openai/gtp-5", "did you mean openai/gpt-5"),
        ("lokal", "did you mean local"),
        ("", "names no model"),
        ("/", "not in the catalog"),
        ("openai/" + "x" * 1_000_000, "a text of 1,000,007 characters names no model"),
    ],
)
def test_what_cannot_be_picked_is_said_with_a_suggestion(reference: str, said: str) -> None:
    with pytest.raises(ModelUnknown, match=said) as failed:
        routes("box/one").pick(reference)
    assert failed.value.model == reference


def test_a_setting_that_names_nobody_is_named() -> None:
    with pytest.raises(ConfigError, match=r"^agent\.model: "):
        routes("nobody/x")
    with pytest.raises(ConfigError, match=r"^agent\.fallbacks: "):
        routes("box/one", "nobody/x")


async def test_a_provider_that_was_brought_along_answers_for_the_chosen_model_alone() -> None:
    brought = Brought()
    made = routes("whatever/mine", "box/one", brought=brought)
    assert [each.provider is brought for each in made.default] == [True, False]
    assert [each.provider for each in made.pick("whatever/mine")] == [brought]
    assert made.pick("box/two")[0].provider is not brought
    with pytest.raises(ModelUnknown):
        made.pick("whatever/other")
    await made.close()
    assert brought.closed == 1


async def test_closing_forgets_what_was_opened() -> None:
    made = routes("box/one")
    before = made.pick("box/two")[0].provider
    await made.close()
    await made.close()
    assert made.pick("box/two")[0].provider is not before
