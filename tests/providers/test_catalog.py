"""What is known of models: the data file, what the settings add, and what is said of one that nobody knows."""

import json
import subprocess
import sys
from dataclasses import replace
from decimal import Decimal

import msgspec
import pytest

from finclaw.clock import SystemClock
from finclaw.config.routes import open_provider
from finclaw.demo.assistant import OfflineProvider
from finclaw.errors import ConfigError
from finclaw.kernel.chunk import Features, Model, Price, Usage
from finclaw.kernel.port import Provider
from finclaw.providers.anthropic.provider import AnthropicProvider
from finclaw.providers.catalog import FILE, Catalog, load_listed
from finclaw.providers.openai.provider import OpenAIProvider
from finclaw.providers.settings import WELL_KNOWN, ModelSettings, ProviderSettings, with_usual_keys
from finclaw.redaction import Secret

KEY = Secret("hush")


# ── the data file ───────────────────────────────────────────────────────────────────────────────────────────


def test_every_line_is_whole_and_says_since_when_and_from_where() -> None:
    for line in load_listed():
        assert line.provider in WELL_KNOWN
        assert line.window >= 4_096
        assert line.max_output >= 1_024
        assert line.as_of >= "2026"
        assert line.source


def test_a_price_in_the_file_is_stated_whole_and_in_text() -> None:
    for line in json.loads(FILE.read_bytes()):
        assert set(line["price"]) == {"input", "output", "cache_read", "cache_write"}
        assert all(isinstance(each, str) for each in line["price"].values())
    for line in load_listed():
        assert line.price is not None
        assert line.price.cache_read <= line.price.input <= line.price.output


USUAL_CACHE_PRICES = {
    "anthropic": ({"0.1"}, {"1.25"}),
    "openai": ({"0.1", "0.25", "0.5"}, {"1", "1.25"}),
}
"""Of reading and of writing, in parts of the input's."""


def test_an_unusual_price_of_the_cache_is_explained_beside_it() -> None:
    """A slip looks just like one, and a budget is kept by it."""
    for line in load_listed():
        if line.price is None or not line.price.input:
            continue
        reads, writes = USUAL_CACHE_PRICES[line.provider]
        unusual = str((line.price.cache_read / line.price.input).normalize()) not in reads
        unusual |= str((line.price.cache_write / line.price.input).normalize()) not in writes
        assert unusual == ("cache cost" in line.note), f"{line.provider}/{line.name}: {line.price}"


def test_no_name_is_there_twice() -> None:
    names = [(line.provider, name) for line in load_listed() for name in (line.name, *line.also)]
    aliases = [alias for line in load_listed() for alias in line.aliases]
    assert len(names) == len(set(names))
    assert len(aliases) == len(set(aliases))
    assert not any("/" in alias for alias in aliases)


@pytest.mark.spec("MT-09", "N-02")
def test_a_model_has_its_limits_and_features_from_the_file() -> None:
    model = Catalog().find("openai/gpt-4o")
    assert (model.provider, model.name, model.window, model.max_output) == ("openai", "gpt-4o", 128_000, 16_384)
    assert model.features == Features(
        tools=True, images=True, thinking=False, caching=True, temperature=True, max_completion_tokens=True
    )
    opus = Catalog().find("anthropic/claude-opus-5-5").features
    assert (opus.adaptive_thinking, opus.thinks_without_tools, opus.thinking_off) == (True, False, "never")
    assert Catalog().find("openai/gpt-6-luna").features.thinks_without_tools
    assert Catalog().find("anthropic/claude-opus-5-5").vocabulary == "claude"
    assert not Catalog().find("anthropic/claude-opus-5-5").features.temperature


@pytest.mark.spec("N-02")
def test_the_file_knows_who_refuses_words_to_stop_at_and_the_settings_may_know_better() -> None:
    refuse = {f"{line.provider}/{line.name}" for line in load_listed() if "stop_sequences" not in line.features}
    assert "openai/gpt-6-astra" in refuse
    assert refuse == {
        f"openai/{line.name}" for line in load_listed() if line.provider == "openai" and "thinking" in line.features
    }
    assert Catalog().find("anthropic/claude-opus-5-5").features.stop_sequences
    assert Catalog({"box/m": ModelSettings(window=8_192)}).find("box/m").features.stop_sequences
    taught = Catalog({"openai/gpt-6-astra": ModelSettings(stop_sequences=True)}).find("openai/gpt-6-astra")
    assert taught.features.stop_sequences


def test_a_dated_name_is_sent_as_it_is_written() -> None:
    dated = Catalog().find("anthropic/claude-haiku-4-5-20251001")
    plain = Catalog().find("anthropic/claude-haiku-4-5")
    assert dated.name == "claude-haiku-4-5-20251001"
    assert (dated.window, dated.price) == (plain.window, plain.price)


def test_the_file_is_read_only_when_asked() -> None:
    code = (
        "import finclaw.app, finclaw.providers.catalog as c; assert c.load_listed.cache_info().currsize == 0; "
        "c.Catalog().find('offline/demo'); assert c.load_listed.cache_info().currsize == 1"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# ── what it costs ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("PC-03", "CO-01", "CO-03")
def test_the_price_of_a_call_counts_each_kind_of_token() -> None:
    model = Catalog().find("anthropic/claude-sonnet-4-6")
    assert model.price == Price(Decimal(3), Decimal(15), Decimal("0.30"), Decimal("3.75"))
    usage = Usage(input=1_000, output=500, cache_read=20_000, cache_write=4_000)
    assert model.cost(usage) == Decimal("0.0030") + Decimal("0.0075") + Decimal("0.006") + Decimal("0.015")
    assert model.cost(Usage(input=1_000_000)) == 3


CACHED = Usage(cache_read=1_000_000), Usage(cache_write=1_000_000)


@pytest.mark.spec("CO-02", "DX-49")
def test_a_price_alone_says_what_the_cache_costs_at_most() -> None:
    price = Price(Decimal(2), Decimal(8))
    assert [price.cost(each) for each in CACHED] == [2, 2]
    assert [price.saved(each) for each in CACHED] == [0, 0]
    assert Price(Decimal(2), Decimal(8), Decimal(0), Decimal(1)).cache_read == 0
    read = msgspec.json.decode(b'{"input": "2", "output": "8", "cache_write": "0"}', type=Price)
    assert (read.cache_read, read.cache_write) == (2, 0)
    assert msgspec.json.decode(msgspec.json.encode(price), type=Price) == price


@pytest.mark.spec("CO-02", "DX-49")
@pytest.mark.parametrize(
    ("name", "read", "write"),
    [
        pytest.param("ollama/qwen3", "1", "1", id="nobody knows what it charges"),
        pytest.param("work/claude-next", "0.1", "1.25", id="the kind whose maker says so"),
    ],
)
def test_a_cache_price_that_nobody_stated_is_not_free(name: str, read: str, write: str) -> None:
    providers = {"work": ProviderSettings(kind="anthropic")}
    declared = ModelSettings(window=8_192, input_price=Decimal(1), output_price=Decimal(2))
    model = Catalog({name: declared}, providers=providers).find(name)
    assert [model.cost(each) for each in CACHED] == [Decimal(read), Decimal(write)]
    stated = replace(declared, cache_read_price=Decimal("0.5"), cache_write_price=Decimal(0))
    model = Catalog({name: stated}, providers=providers).find(name)
    assert [model.cost(each) for each in CACHED] == [Decimal("0.5"), 0]


@pytest.mark.spec("DX-49")
def test_a_model_without_a_price_is_unpriced_and_not_free() -> None:
    unpriced = Catalog({"ollama/qwen3": ModelSettings(window=8_192)}).find("ollama/qwen3")
    assert (unpriced.price, unpriced.priced, unpriced.cost(Usage(10, 10))) == (None, False, 0)
    free = ModelSettings(window=8_192, input_price=Decimal(0), output_price=Decimal(0))
    assert Catalog({"ollama/qwen3": free}).find("ollama/qwen3").priced
    assert Catalog().find("offline/demo").priced


# ── what the settings add ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("N-02")
def test_settings_override_what_they_name_and_leave_the_rest() -> None:
    declared = ModelSettings(window=50_000, images=False, input_price=Decimal(9), output_price=Decimal(10))
    model = Catalog({"anthropic/claude-haiku-4-5": declared}).find("anthropic/claude-haiku-4-5")
    shipped = Catalog().find("anthropic/claude-haiku-4-5")
    assert (model.window, model.max_output, model.features.images) == (50_000, shipped.max_output, False)
    assert model.features.caching
    assert model.price == Price(Decimal(9), Decimal(10), Decimal("0.9"), Decimal("11.25"))
    kept = Catalog({"openai/gpt-5": ModelSettings(max_output=1_000)}).find("openai/gpt-5")
    assert (kept.max_output, kept.price) == (1_000, Catalog().find("openai/gpt-5").price)


@pytest.mark.spec("N-02")
def test_how_a_model_thinks_is_data_and_anybody_may_declare_it() -> None:
    declared = ModelSettings(
        window=8_192, thinking=True, adaptive_thinking=True, thinks_without_tools=True, thinking_off="disabled"
    )
    features = Catalog({"ollama/qwen3": declared}).find("ollama/qwen3").features
    assert features == Features(
        thinking=True, adaptive_thinking=True, thinks_without_tools=True, thinking_off="disabled"
    )
    changed = ModelSettings(thinks_without_tools=False, thinking_off="unasked", tools=True)
    features = Catalog({"openai/gpt-6-luna": changed}).find("openai/gpt-6-luna").features
    assert (features.thinks_without_tools, features.thinking_off, features.thinking) == (False, "unasked", True)


def test_no_line_says_of_a_model_what_cannot_be() -> None:
    words = {"anthropic": {"unasked", "disabled", "between_tools", "never"}, "openai": {"unasked", "none", "never"}}
    for line in load_listed():
        thinks = "thinking" in line.features
        assert thinks or not {"adaptive_thinking", "thinks_without_tools"} & set(line.features), line.name
        assert line.thinking_off in (words[line.provider] if thinks else {"unasked"}), line.name
        # With tools it must not think, and without a word for that it always does.
        assert not ("thinks_without_tools" in line.features and line.thinking_off == "never"), line.name
        assert not ("adaptive_thinking" in line.features and "temperature" in line.features), line.name


@pytest.mark.spec("MT-09", "N-02")
def test_an_unknown_model_works_with_declared_limits() -> None:
    model = Catalog({"openrouter/meta/llama-4": ModelSettings(window=64_000, max_output=8_000)}).find(
        "openrouter/meta/llama-4"
    )
    assert model == Model("openrouter", "meta/llama-4", window=64_000, max_output=8_000)
    claude = Catalog({"anthropic/claude-next": ModelSettings(window=64_000)}).find("anthropic/claude-next")
    assert (claude.vocabulary, claude.features.caching) == ("claude", True)


def test_somebodys_own_door_to_a_known_api_has_its_models_but_not_its_prices() -> None:
    providers = {"work": ProviderSettings(kind="anthropic", base_url="https://models.example.org")}
    model = Catalog(providers=providers).find("work/claude-opus-5")
    assert (model.provider, model.window, model.price) == ("work", 1_000_000, None)
    assert model.features.thinking


def test_an_alias_of_ones_own_wins_and_may_lead_to_another() -> None:
    catalog = Catalog(aliases={"opus": "anthropic/claude-opus-5", "best": "opus"})
    assert catalog.resolve("best") == "anthropic/claude-opus-5"
    assert Catalog(aliases={"best": "opus"}).find("best").name == "claude-opus-5-5"


def test_all_of_them_with_where_they_come_from() -> None:
    models = {"ollama/qwen3": ModelSettings(window=8_192), "openai/gpt-5": ModelSettings(images=False)}
    known = {
        f"{each.model.provider}/{each.model.name}": each
        for each in Catalog(models, {"fast": "ollama/qwen3", "opus": "openai/gpt-5", "broken": "nothing"}).all()
    }
    assert len(known) == len(load_listed()) + 1
    assert (known["ollama/qwen3"].origin, known["ollama/qwen3"].aliases) == ("your settings", ("fast",))
    assert known["openai/gpt-5"].origin.endswith("with your settings")
    assert known["openai/gpt-5"].aliases == ("opus",)
    assert known["anthropic/claude-opus-5-5"].aliases == ()


# ── what is said of one that nobody knows ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("sonet", "'sonet' names no model and no alias (did you mean sonnet?)"),
        ("claude-opus-5", "did you mean anthropic/claude-opus-5"),
        ("anthropic/claude-sonet-4-6", "is not in the catalog (did you mean anthropic/claude-sonnet-4-6"),
        ("Anthropic/Claude-Opus-5", "did you mean anthropic/claude-opus-5"),
        ("fsat", "did you mean fast?"),
        ("zzzz", "write `provider/model`, or add it under `aliases`; `finclaw models list` shows what there is"),
        ("box/zzzz", "`models: {box/zzzz: {window: TOKENS}}`"),
        ("round", "the alias round leads back to itself: round → about → round"),
        ("", "'' names no model"),
    ],
)
def test_near_names_are_suggested(reference: str, said: str) -> None:
    aliases = {"fast": "ollama/qwen3", "round": "about", "about": "round"}
    with pytest.raises(ConfigError) as caught:
        Catalog({"ollama/qwen3": ModelSettings(window=8_192)}, aliases).find(reference)
    assert said in str(caught.value)


def test_limits_without_a_window_are_none() -> None:
    with pytest.raises(ConfigError, match="say how much it takes in"):
        Catalog({"ollama/qwen3": ModelSettings(max_output=100)}).find("ollama/qwen3")


# ── who answers ─────────────────────────────────────────────────────────────────────────────────────────────


def opened(
    reference: str,
    providers: dict[str, ProviderSettings] | None = None,
    models: dict[str, ModelSettings] | None = None,
) -> Provider:
    model = Catalog(models, {}, providers).find(reference)
    return open_provider(model, SystemClock(), providers or {}, models or {})


def endpoint_of(provider: Provider) -> tuple[str, str | None]:
    """Where it sends and with which key: there is nothing else to tell by without sending."""
    key: Secret | None = getattr(provider, "_key")  # noqa: B009
    return getattr(provider, "_url"), None if key is None else key.reveal()  # noqa: B009


def test_each_kind_is_opened_where_it_lives() -> None:
    assert isinstance(opened("offline/demo"), OfflineProvider)
    claude = opened("anthropic/claude-opus-5", {"anthropic": ProviderSettings(key=KEY)})
    assert isinstance(claude, AnthropicProvider)
    assert endpoint_of(claude) == ("https://api.anthropic.com/v1/messages", "hush")
    gpt = opened("openai/gpt-5", {"openai": ProviderSettings(key=KEY)})
    assert isinstance(gpt, OpenAIProvider)
    assert endpoint_of(gpt) == ("https://api.openai.com/v1/chat/completions", "hush")


def test_a_server_of_ones_own_needs_no_key() -> None:
    local = opened("ollama/qwen3", models={"ollama/qwen3": ModelSettings(window=8_192)})
    assert endpoint_of(local) == ("http://127.0.0.1:11434/v1/chat/completions", None)
    box = {"box": ProviderSettings(kind="openai", base_url="http://box.example.org/v1/")}
    assert endpoint_of(opened("box/gpt-5", box)) == ("http://box.example.org/v1/chat/completions", None)


def test_a_model_that_lives_elsewhere_is_not_shown_its_providers_key() -> None:
    providers = {"openai": ProviderSettings(key=KEY)}
    there = ModelSettings(window=8_192, base_url="http://elsewhere.example.org/v1")
    assert endpoint_of(opened("openai/mine", providers, {"openai/mine": there}))[1] is None
    own = ModelSettings(window=8_192, base_url="http://elsewhere.example.org/v1", key=Secret("other"))
    assert endpoint_of(opened("openai/mine", providers, {"openai/mine": own}))[1] == "other"


@pytest.mark.parametrize(
    ("reference", "providers", "said"),
    [
        ("anthropic/claude-opus-5", {}, "set the environment variable ANTHROPIC_API_KEY, or write under `providers`"),
        ("openai/gpt-5", {}, "`openai: {key: env:OPENAI_API_KEY}`, or `file:PATH`"),
        (
            "mine/claude-opus-5",
            {"mine": ProviderSettings(kind="anthropic")},
            "mine wants a key, and there is none; write",
        ),
        (
            "mine/claude-opus-5",
            {"mine": ProviderSettings(kind="anthropic", base_url="https://proxy.example.org")},
            "mine wants a key, and there is none; write under `providers` in the settings: `mine: {key: env:MINE_KEY}`",
        ),
        (
            "anthropic/claude-opus-5",
            {"anthropic": ProviderSettings(base_url="https://proxy.example.org")},
            "`anthropic: {key: env:ANTHROPIC_KEY}`",
        ),
    ],
)
def test_a_missing_key_says_which_variable_and_where(
    reference: str, providers: dict[str, ProviderSettings], said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        opened(reference, providers)
    assert said in str(caught.value)


@pytest.mark.parametrize("url", ["https://proxy.example.org", "http://8.8.8.8:1", "https://api.anthropic.com.evil.org"])
@pytest.mark.parametrize("name", ["house", "anthropic"])
def test_the_makers_key_is_proposed_for_no_other_address(url: str, name: str) -> None:
    """User trial M19: the advice would have handed the real key to somebody else's server."""
    with pytest.raises(ConfigError) as caught:
        opened(f"{name}/claude-opus-5", {name: ProviderSettings(kind="anthropic", base_url=url)})
    assert "ANTHROPIC_API_KEY" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8080", "http://localhost:8080", "http://gpu.local", "http://[::1]:1"]
)
def test_a_server_of_ones_own_that_speaks_like_anthropic_needs_no_key(url: str) -> None:
    """User trial M19."""
    box = {"box": ProviderSettings(kind="anthropic", base_url=url)}
    assert endpoint_of(opened("box/m", box, {"box/m": ModelSettings(window=8_192)}))[1] is None
    moved = ModelSettings(window=8_192, base_url=url)
    keyed = {"anthropic": ProviderSettings(key=KEY)}
    assert endpoint_of(opened("anthropic/mine", keyed, {"anthropic/mine": moved}))[1] is None


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("antropic/x", "there is no provider 'antropic' for the model 'x'; did you mean anthropic?"),
        ("zzzz/x", "there are anthropic, mute, offline, ollama, openai; or add one under `providers`"),
        ("mute/x", "providers.mute does not say what it speaks; add `kind: openai`"),
    ],
)
def test_a_provider_that_nobody_knows(reference: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        opened(reference, {"mute": ProviderSettings(key=KEY)}, {reference: ModelSettings(window=8_192)})
    assert said in str(caught.value)


def test_the_usual_variables_are_looked_at_and_what_was_given_wins() -> None:
    environ = {"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o", "OTHER": "x"}
    found = with_usual_keys({"openai": ProviderSettings(key=KEY)}, environ)
    assert found == {"openai": ProviderSettings(key=KEY), "anthropic": ProviderSettings(key=Secret("a"))}
    assert with_usual_keys({}, {"ANTHROPIC_API_KEY": ""}) == {}


def test_the_usual_key_does_not_go_to_another_address() -> None:
    moved = {"openai": ProviderSettings(base_url="http://127.0.0.1:1/v1")}
    assert with_usual_keys(moved, {"OPENAI_API_KEY": "o"}) == moved
