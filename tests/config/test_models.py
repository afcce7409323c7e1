"""Providers, models and aliases in the settings file: sections whose names are the person's own."""

import json
from decimal import Decimal
from pathlib import Path

import pytest
from tests.cli.terminal import finclaw

from finclaw.config.load import load_settings
from finclaw.config.schema import Settings
from finclaw.errors import ConfigError
from finclaw.providers.settings import ModelSettings, ProviderSettings
from finclaw.redaction import Secret

TEXT = """\
providers:
  box:
    kind: openai
    base_url: http://box.example.org/v1
    key: env:BOX_KEY
  anthropic:
models:
  box/qwen3: {window: 32768, input_price: 0.10, output_price: "0.30", images: true}
aliases: {fast: box/qwen3}
"""


def load(state: Path, text: str, **environ: str) -> Settings:
    (state / "finclaw.yaml").write_text(text, encoding="utf-8")
    return load_settings(state=state, environ=environ)


def test_sections_by_name(tmp_path: Path) -> None:
    made = load(tmp_path, TEXT, BOX_KEY="hush")
    box = ProviderSettings(kind="openai", base_url="http://box.example.org/v1", key=Secret("hush"))
    assert made.providers == {"box": box, "anthropic": ProviderSettings()}
    qwen = ModelSettings(window=32_768, images=True, input_price=Decimal("0.1"), output_price=Decimal("0.30"))
    assert made.models == {"box/qwen3": qwen}
    assert made.aliases == {"fast": "box/qwen3"}


@pytest.mark.parametrize("text", ["providers:\nmodels:\n", "providers: {}\nmodels: {}\naliases: {}\n", ""])
def test_none_of_them_is_needed(tmp_path: Path, text: str) -> None:
    assert load(tmp_path, text) == Settings(state=tmp_path)


def test_a_key_in_its_usual_variable_needs_no_word(tmp_path: Path) -> None:
    assert load(tmp_path, "", OPENAI_API_KEY="o").providers == {"openai": ProviderSettings(key=Secret("o"))}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("providers: 3", "line 1: providers must be a section of `key: value` lines, not 3"),
        ("providers: {box: openai}", 'providers.box must be a section of `key: value` lines, not "openai"'),
        (
            "providers:\n  box:\n    knd: openai",
            "line 3: unknown key providers.box.knd; did you mean providers.box.kind?",
        ),
        ("providers: {box: {kind: gemini}}", "providers.box.kind must be one of anthropic, openai, offline or nothing"),
        ("providers:\n  box:\n    base_url: box", "line 3: providers.box.base_url is no address; give one that begins"),
        ("providers: {box: {base_url: 'http://[x/'}}", "providers.box.base_url is no address"),
        ("providers: {box: {base_url: 'file:///etc'}}", "providers.box.base_url is no address"),
        ("providers: {box: {key: sk-1234}}", "providers.box.key must not hold the secret itself"),
        ("providers: {box: {key: env:BOX_KEY}}", "providers.box.key refers to the environment variable BOX_KEY"),
        ("models: {a/b: {window: 0}}", "models.a/b.window must be a whole number, 1 or more or nothing, not 0"),
        ("models: {a/b: {window: many}}", "models.a/b.window must be a whole number"),
        ("models: {a/b: {input_price: cheap, output_price: 1}}", "models.a/b.input_price must be a number or nothing"),
        ("models:\n  a/b:\n    input_price: -1\n    output_price: 1", "line 3: models.a/b.input_price is -1; give US"),
        ("models: {a/b: {input_price: .inf, output_price: 1}}", "input_price"),
        ("models: {a/b: {input_price: .nan, output_price: 1}}", "input_price must be a number"),
        ("models: {a/b: {output_price: 1}}", "models.a/b.output_price is no price alone; declare both"),
        ("models: {a/b: {cache_read_price: 1}}", "models.a/b.cache_read_price is no price alone"),
        ("aliases: {fast: 3}", "aliases must be a section"),
        ("aliases: [fast]", "aliases must be a section"),
    ],
)
def test_each_complaint_says_where_and_what_to_do(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text + "\n")
    assert said in str(caught.value)
    assert "sk-1234" not in str(caught.value)


def test_every_problem_of_every_section_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, "providers: {a: {kind: x}, b: {kind: y}}\nmodels: {c/d: {window: 0}}\n")
    assert all(name in str(caught.value) for name in ("providers.a.kind", "providers.b.kind", "models.c/d.window"))


def test_what_counts_is_shown_without_its_secrets(tmp_path: Path) -> None:
    (tmp_path / "finclaw.yaml").write_text(TEXT, encoding="utf-8")
    told = finclaw("config", "show", "--json", "--state", tmp_path, BOX_KEY="hush-hush", OPENAI_API_KEY="hush-hush")
    assert "hush-hush" not in told.out + told.err
    shown = json.loads(told.out)
    assert shown["providers"]["value"]["box"]["key"] == "set, not shown"
    assert shown["providers"]["value"]["openai"] == {"key": "set, not shown"}
    assert shown["models"]["value"] == {
        "box/qwen3": {"window": 32_768, "images": True, "input_price": "0.1", "output_price": "0.30"}
    }
    assert shown["models"]["origin"].endswith("line 7")
    words = finclaw("config", "show", "--state", tmp_path, BOX_KEY="hush-hush")
    assert (words.code, "hush-hush" in words.out) == (0, False)
