"""`finclaw config`: every problem, every setting, where it came from, and never a secret."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.cli.terminal import finclaw

from finclaw.config.describe import describe, effective
from finclaw.config.fill import Given, put
from finclaw.config.schema import Settings
from finclaw.redaction import Secret


def test_what_is_valid_is_said(tmp_path: Path) -> None:
    ended = finclaw("config", "check", "--state", tmp_path)
    assert (ended.code, ended.err) == (0, "")
    assert "none is needed" in ended.out
    (tmp_path / "finclaw.yaml").write_text("web: {port: 1}\n")
    assert finclaw("config", "check", "--state", tmp_path).out == f"{tmp_path}/finclaw.yaml is valid\n"
    assert json.loads(finclaw("config", "check", "--json", "--state", tmp_path).out)["valid"]


def test_every_problem_has_its_line(tmp_path: Path) -> None:
    file = tmp_path / "other.yaml"
    file.write_text("web:\n  prot: 1\n  port: x\nlog: {level: loud}\n")
    ended = finclaw("config", "check", "--config", file, "--state", tmp_path, FINCLAW_WEB__PROT="1")
    assert ended.code == 1
    assert [line.partition(":")[0].removeprefix(f"{tmp_path}/") for line in ended.out.splitlines()] == [
        "the environment variable FINCLAW_WEB__PROT sets nothing; did you mean FINCLAW_WEB__PORT?",
        "other.yaml line 2",
        "other.yaml line 3",
        "other.yaml line 4",
    ]
    told = json.loads(finclaw("config", "check", "--json", "--config", file, "--state", tmp_path).out)
    assert (told["valid"], len(told["problems"])) == (False, 3)


def test_a_file_that_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    ended = finclaw("config", "check", "--config", tmp_path / "none.yaml", "--state", tmp_path)
    assert ended.code == 1
    assert "finclaw init" in ended.out


@pytest.mark.spec("DX-32")
def test_a_variable_that_an_extension_refers_to_must_be_there(tmp_path: Path) -> None:
    """It runs no extension for that, so it need not even be installed; that it is not comes after."""
    (tmp_path / "finclaw.yaml").write_text(
        "agent:\n  extensions:\n  - nowhere\n  - use: weather\n    settings:\n      key: env:WEATHER_KEY\n"
        "      city: 'env: of Seoul'\n"
        "      servers: {far: {headers: {A: env:FAR_KEY, B: env:BOTH}}, near: [x, env:NEAR]}\n"
    )
    ended = finclaw("config", "check", "--state", tmp_path, BOTH="x", NEAR="")
    assert ended.code == 1
    where, key = f"{tmp_path}/finclaw.yaml line", "agent.extensions[2].settings"
    assert ended.out.splitlines() == [
        f"{where} 6: {key}.key refers to the environment variable WEATHER_KEY, which is not set; set it",
        f"{where} 8: {key}.servers.far.headers.A refers to the environment variable FAR_KEY, which is not set; set it",
        f"{where} 8: {key}.servers.near[2] refers to the environment variable NEAR, which is not set; set it",
    ]
    rest = finclaw("config", "check", "--state", tmp_path, BOTH="x", NEAR="x", WEATHER_KEY="x", FAR_KEY="x")
    assert (rest.code, ["'nowhere'" in rest.out, "'weather'" in rest.out]) == (1, [True, True])
    with (tmp_path / "finclaw.yaml").open("a") as file:
        file.write("web: {prot: 1}\n")
    told = finclaw("config", "check", "--state", tmp_path, BOTH="x", NEAR="x", WEATHER_KEY="x").out.splitlines()
    assert [line.partition(": ")[2].split()[0] for line in told] == ["unknown", f"{key}.servers.far.headers.A"]


def test_every_setting_with_its_origin(tmp_path: Path) -> None:
    (tmp_path / "finclaw.yaml").write_text("web:\n  port: 9000\n  max_body: 2000\n")
    environ = {"FINCLAW_WEB__PORT": "9001", "FINCLAW_HOME": str(tmp_path)}
    shown = json.loads(finclaw("config", "show", "--json", cwd=None, **environ).out)
    assert shown["web.port"]["value"] == 9001
    assert shown["web.port"]["default"] == 8787
    assert shown["web.port"]["origin"] == "FINCLAW_WEB__PORT"
    assert shown["web.max_body"]["origin"] == f"{tmp_path}/finclaw.yaml line 3"
    assert shown["log.level"]["origin"] == "default"
    assert shown["state"] == shown["state"] | {"value": str(tmp_path), "origin": "FINCLAW_HOME"}
    assert [*shown] == [each.key for each in describe(Settings)]
    words = finclaw("config", "show", "--state", tmp_path).out
    assert words.splitlines()[0].split() == ["state", "=", str(tmp_path), "the", "command", "line"]
    assert "0 takes any free port" in words


def test_every_setting_is_explained() -> None:
    assert [each.key for each in describe(Settings) if not each.doc] == []


@dataclass(frozen=True, slots=True, kw_only=True)
class _Keys:
    """As a provider will have them."""

    api_key: Secret | None = None
    """What the provider gave you."""
    other: Secret | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _WithSecret:
    keys: _Keys = _Keys()


def test_a_secret_is_never_shown() -> None:
    tree: dict[str, Given] = {}
    put(tree, ("keys", "api_key"), Given("env:KEY", "finclaw.yaml line 2"))
    shown = list(effective(_WithSecret(keys=_Keys(api_key=Secret("hush"))), tree, {}))
    assert [(each.value, each.origin) for each in shown] == [
        ("set, not shown", "finclaw.yaml line 2"),
        ("not set", "default"),
    ]
    assert shown[0].setting.doc == "What the provider gave you."
    assert "hush" not in repr(shown)


HOLDING_SECRETS = """
providers:
  mine:
    kind: openai
    base_url: https://me:plum-in-password@models.example/v1?api-version=2026&code=plum-in-query#plum=plum-in-fragment
agent:
  extensions:
    - use: finclaw.builtins.mcp.extension
      settings:
        servers:
          notes:
            command: [notes-server, --token, plum-after-option, --api-key=plum-assigned, API_TOKEN=plum-in-word,
                      --verbose, "https://notes.example/?k=plum-in-argument", --read-only]
            env: {NOTES: plum-in-environment, TZ: env:TZ}
          far:
            url: https://far.example/mcp?session=plum-in-url
"""


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_secrets_that_stand_in_the_file_all_the_same_are_not_shown(tmp_path: Path, more: tuple[str, ...]) -> None:
    """A near miss of the security trial: literal `env` values, arguments of commands, and queries of addresses."""
    (tmp_path / "finclaw.yaml").write_text(HOLDING_SECRETS)
    shown = finclaw("config", "show", *more, "--state", tmp_path, TZ="Asia/Seoul")
    assert shown.code == 0, shown.err
    assert "plum" not in shown.out.replace("#plum=", "")
    for plain in ("notes-server", "--verbose", "--read-only", "env:TZ", "models.example/v1", "far.example/mcp"):
        assert plain in shown.out, plain
