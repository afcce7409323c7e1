"""Several keys of one provider in the settings file: references only, by names of one's own, and never shown."""

import json
from pathlib import Path

import pytest
from tests.cli.terminal import finclaw

from finclaw.config.load import load_settings
from finclaw.config.schema import Settings
from finclaw.errors import ConfigError
from finclaw.redaction import Secret

TEXT = """\
providers:
  openai:
    first_byte_s: 200
    keys:
      work: env:WORK
      spare: file:spare.key
agent: {model: openai/gpt-5}
"""


def load(state: Path, text: str, **environ: str) -> Settings:
    (state / "finclaw.yaml").write_text(text, encoding="utf-8")
    return load_settings(state=state, environ=environ)


def keep_spare(state: Path, key: str) -> None:
    (state / "spare.key").write_text(key, encoding="utf-8")
    (state / "spare.key").chmod(0o600)


def test_keys_are_found_where_they_are_kept_and_stay_in_order(tmp_path: Path) -> None:
    keep_spare(tmp_path, "s-2\n")
    openai = load(tmp_path, TEXT, WORK="w-1", OPENAI_API_KEY="usual").providers["openai"]
    assert list(openai.credentials.items()) == [("work", Secret("w-1")), ("spare", Secret("s-2"))]
    assert (openai.key, openai.first_byte_s) == (None, 200)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "providers:\n  box:\n    keys: sk-1234",
            "line 3: providers.box.keys must be a section of `name: env:VARIABLE`",
        ),
        ("providers: {box: {keys: [sk-1234]}}", "providers.box.keys must be a section"),
        ("providers:\n  box:\n    keys:\n      a: sk-1234", "line 4: providers.box.keys.a must not hold the secret"),
        ("providers: {box: {keys: {a: {b: sk-1234}}}}", "providers.box.keys.a must not hold the secret itself"),
        ("providers: {box: {keys: {a: }}}", "providers.box.keys.a must not hold the secret itself"),
        (
            "providers: {box: {keys: {a: env:NOWHERE}}}",
            "providers.box.keys.a refers to the environment variable NOWHERE",
        ),
        ("providers:\n  box:\n    key: env:A\n    keys: {b: env:B}", "line 4: providers.box.keys stands beside key"),
        ("providers: {box: {first_byte_s: 0}}", "providers.box.first_byte_s must be a number, more than 0 or nothing"),
        ("providers: {box: {idle_s: 0}}", "providers.box.idle_s must be a number, more than 0 or nothing"),
        ("providers: {box: {idle_s: .nan}}", "providers.box.idle_s must be a number, more than 0 or nothing"),
        ("providers:\n  box:\n    idle_s: 2m", "line 3: providers.box.idle_s must be a number, more than 0 or nothing"),
        ("providers: {box: {idle: 90}}", "did you mean providers.box.idle_s?"),
    ],
)
def test_each_complaint_says_where_and_repeats_no_secret(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text + "\n", A="hush-a", B="hush-b")
    assert said in str(caught.value)
    assert not any(secret in str(caught.value) for secret in ("sk-1234", "hush-a", "hush-b"))


@pytest.mark.parametrize("text", ["providers: {box: {keys: }}", "providers: {box: {keys: {}}}"])
def test_no_keys_are_none(tmp_path: Path, text: str) -> None:
    assert load(tmp_path, text + "\n").providers["box"].credentials == {}


@pytest.mark.parametrize(
    "command",
    [
        ("config", "show"),
        ("config", "show", "--json"),
        ("config", "check"),
        ("config", "check", "--json"),
        ("models", "list"),
        ("models", "list", "--json"),
        ("doctor",),
        ("doctor", "--json"),
    ],
)
def test_no_command_shows_a_key(tmp_path: Path, command: tuple[str, ...]) -> None:
    keep_spare(tmp_path, "hush-2")
    (tmp_path / "finclaw.yaml").write_text(TEXT, encoding="utf-8")
    told = finclaw(*command, "--state", tmp_path, WORK="hush-1")
    assert told.out
    assert "hush" not in told.out + told.err


def test_the_names_are_shown(tmp_path: Path) -> None:
    keep_spare(tmp_path, "hush-2")
    (tmp_path / "finclaw.yaml").write_text(TEXT, encoding="utf-8")
    told = finclaw("config", "show", "--json", "--state", tmp_path, WORK="hush-1")
    shown = json.loads(told.out)["providers"]["value"]["openai"]
    assert shown == {"keys": {"work": "set, not shown", "spare": "set, not shown"}, "first_byte_s": 200}
