"""Secrets come by reference, and no complaint repeats one."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from finclaw.config.document import read_document
from finclaw.config.fill import fill
from finclaw.config.load import SecretKeeper, load_settings
from finclaw.errors import ConfigError
from finclaw.redaction import Secret

VALUE = "sk-very-secret-value"


@dataclass(frozen=True, kw_only=True)
class Model:
    key: Secret | None = None


@dataclass(frozen=True, kw_only=True)
class Schema:
    model: Model = Model()


def load(tmp_path: Path, text: str, **environ: str) -> Secret | None:
    path = tmp_path / "finclaw.yaml"
    path.write_text(text)
    return fill(Schema, read_document(path), SecretKeeper(environ, tmp_path).fetch).model.key


def private(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def test_from_the_environment(tmp_path: Path) -> None:
    key = load(tmp_path, "model: {key: 'env:MODEL_KEY'}", MODEL_KEY=VALUE)
    assert key == Secret(VALUE)
    assert VALUE not in repr(key)


def test_from_a_file_beside_the_settings(tmp_path: Path) -> None:
    private(tmp_path / "key", VALUE + "\n")
    assert load(tmp_path, "model: {key: 'file:key'}") == Secret(VALUE)
    assert load(tmp_path, f"model: {{key: 'file:{tmp_path}/key'}}") == Secret(VALUE)


def test_whoever_follows_references_does_not_print_what_it_follows_them_to(tmp_path: Path) -> None:
    assert VALUE not in repr(SecretKeeper({"MODEL_KEY": VALUE}, tmp_path).fetch)


def test_none_is_none(tmp_path: Path) -> None:
    assert load(tmp_path, "model: {key: }") is None


@pytest.mark.parametrize("literal", [VALUE, "'env:'", "'file:'", "ENV:X", "12345", "[a]", "{a: b}"])
def test_a_literal_is_refused_with_the_line_to_write(tmp_path: Path, literal: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, f"model:\n  key: {literal}")
    assert "line 2: model.key must not hold the secret itself; write `key: env:KEY`" in str(caught.value)
    assert VALUE not in str(caught.value)


def test_a_variable_that_is_not_set(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="variable MODEL_KEY, which is not set; set it"):
        load(tmp_path, "model: {key: 'env:MODEL_KEY'}", MODEL_KEY="")


@pytest.mark.parametrize("mode", [0o604, 0o644, 0o606])
def test_a_file_for_everybody(tmp_path: Path, mode: int) -> None:
    path = private(tmp_path / "key", VALUE, mode)
    with pytest.raises(ConfigError, match=f"everybody can open; run: chmod 600 {path}"):
        load(tmp_path, "model: {key: 'file:key'}")


def test_a_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load(tmp_path, "model: {key: 'file:key'}")
    (tmp_path / "key").mkdir()
    with pytest.raises(ConfigError, match="not a plain file"):
        load(tmp_path, "model: {key: 'file:key'}")


def test_a_file_without_a_secret(tmp_path: Path) -> None:
    private(tmp_path / "key", " \n")
    with pytest.raises(ConfigError, match="is empty; put the secret into it"):
        load(tmp_path, "model: {key: 'file:key'}")
    (tmp_path / "key").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is not text"):
        load(tmp_path, "model: {key: 'file:key'}")


def test_a_referred_variable_may_have_our_prefix(tmp_path: Path) -> None:
    (tmp_path / "finclaw.yaml").write_text("agent: {name: 'env:FINCLAW_KEY'}\n")
    load_settings(state=tmp_path, environ={"FINCLAW_KEY": VALUE})


def test_who_only_looks_needs_no_secret_and_reads_none(tmp_path: Path) -> None:
    """A terminal has not always the keys of the gateway beside it."""
    file = tmp_path / "finclaw.yaml"
    file.write_text("providers: {a: {kind: openai, keys: {one: env:NOT_SET, two: file:not-there}}}")
    with pytest.raises(ConfigError, match="NOT_SET"):
        load_settings(state=tmp_path, environ={})
    looked = load_settings(state=tmp_path, environ={"NOT_SET": VALUE}, only_looking=True)
    assert [key.reveal() for key in looked.providers["a"].keys.values()] == ["", ""]


def test_who_only_looks_is_told_all_the_same_that_a_secret_stands_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "finclaw.yaml").write_text(f"providers: {{a: {{kind: openai, key: {VALUE}}}}}")
    with pytest.raises(ConfigError, match="must not hold the secret"):
        load_settings(state=tmp_path, environ={}, only_looking=True)


def test_keys_of_market_data_come_by_reference_too(tmp_path: Path) -> None:
    (tmp_path / "finclaw.yaml").write_text("market_data: {keys: {opendart.key: 'env:DART'}}\n")
    settings = load_settings(state=tmp_path, environ={"DART": VALUE})
    assert settings.market_data.keys == {"opendart.key": Secret(VALUE)}
    (tmp_path / "finclaw.yaml").write_text(f"market_data: {{keys: {{opendart.key: {VALUE}}}}}\n")
    with pytest.raises(ConfigError) as caught:
        load_settings(state=tmp_path, environ={})
    assert VALUE not in str(caught.value)
