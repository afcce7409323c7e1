"""An extension's secrets come by reference like our own: followed at the start, and shown nowhere."""

import asyncio
import logging
import pickle
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec import Struct, field
from tests.attack.canary import KEY
from tests.attack.canary_settings import COMMANDS
from tests.cli.in_process import typed
from tests.cli.terminal import finclaw
from tests.walks.house import House, in_virtual_time

from finclaw.agent.settings import AgentSettings, ExtensionRef
from finclaw.composition.extensions import load_registrar
from finclaw.composition.gateway import build
from finclaw.config.load import load_settings
from finclaw.config.schema import Settings
from finclaw.errors import ConfigError, ExtensionError
from finclaw.extensions.loading import find
from finclaw.kernel.extension import ExtensionApi
from finclaw.redaction import Secret

VALUE = "hunter2-not-of-any-form"

pytestmark = pytest.mark.spec("DX-32")


class WeatherSettings(Struct, forbid_unknown_fields=True):
    key: Secret
    city: str = "Seoul"
    spare: Secret | None = None
    headers: dict[str, Secret] = field(default_factory=dict[str, Secret])


class Weather:
    """Keeps what it was told."""

    name = "weather"
    told: WeatherSettings
    as_written: Mapping[str, object]

    def register(self, api: ExtensionApi) -> None:
        Weather.told = api.read_settings(WeatherSettings)
        Weather.as_written = dict(api.settings)


def told(state: Path, settings: str, **environ: str) -> WeatherSettings:
    (state / "finclaw.yaml").write_text(f"agent: {{extensions: [{{use: '{__name__}:Weather', settings: {settings}}}]}}")
    load_registrar(load_settings(state=state, environ=environ))
    return Weather.told


def test_it_is_followed_to_the_environment_and_to_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{VALUE}\n")
    (tmp_path / "key").chmod(0o600)
    settings = told(tmp_path, "{key: 'file:key', spare: 'env:SPARE', headers: {a: 'env:SPARE'}}", SPARE="x")
    assert settings == WeatherSettings(Secret(VALUE), spare=Secret("x"), headers={"a": Secret("x")})
    assert Weather.as_written == {"key": "file:key", "spare": "env:SPARE", "headers": {"a": "env:SPARE"}}
    assert told(tmp_path, "{key: 'file:key', spare: }").spare is None


def test_a_variable_with_our_prefix_may_hold_it(tmp_path: Path) -> None:
    assert told(tmp_path, "{key: 'env:FINCLAW_WEATHER_KEY'}", FINCLAW_WEATHER_KEY="x").key == Secret("x")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ("{key: 'env:NONE'}", "settings.key refers to the environment variable NONE, which is not set; set it"),
        ("{key: 'file:none'}", "settings.key refers to {state}/none, which cannot be read: No such file or directory"),
        ("{key: 'file:open'}", "settings.key refers to {state}/open, which everybody can open; run: chmod 600"),
        (f"{{key: {VALUE}}}", "settings.key must not hold the secret itself; write `key: env:KEY` and set"),
        ("{key: 4711}", "settings.key must not hold the secret itself; write `key: env:KEY` and set that variable"),
        ("{key: }", "settings.key must not hold the secret itself"),
        ("{key: 'env:HOME', spare: [x]}", "settings.spare must not hold the secret itself"),
        ("{key: 'env:HOME', headers: {a: x}}", "settings.headers[...] must not hold the secret itself"),
    ],
)
def test_what_cannot_be_followed_is_the_operators_to_mend(tmp_path: Path, settings: str, says: str) -> None:
    (tmp_path / "open").write_text(VALUE)
    (tmp_path / "open").chmod(0o644)
    with pytest.raises(ConfigError) as caught:
        told(tmp_path, settings, HOME="/home")
    assert str(caught.value).startswith("extension 'weather': " + says.format(state=tmp_path))
    assert VALUE not in str(caught.value)
    assert "4711" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ("{}", "its settings do not fit: Object missing required field `key`; there are: key, city, spare, headers"),
        ("{key: 'env:HOME', ctiy: x}", "its settings do not fit: Object contains unknown field `ctiy`; there are:"),
        ("{key: 'env:HOME', city: 1}", "its settings do not fit: Expected `str`, got `int` - at `$.city`; there are:"),
    ],
)
def test_whatever_else_does_not_fit_is_told_as_before(tmp_path: Path, settings: str, says: str) -> None:
    with pytest.raises(ExtensionError) as caught:
        told(tmp_path, settings, HOME="/home")
    assert says in str(caught.value)


def test_a_program_of_ones_own_gives_the_secret_itself(tmp_path: Path) -> None:
    def loaded(key: object) -> None:
        ref = ExtensionRef(f"{__name__}:Weather", {"key": key})
        load_registrar(Settings(state=tmp_path, agent=AgentSettings(extensions=(ref,))))

    loaded(Secret(VALUE))
    assert Weather.told.key.reveal() == VALUE
    with pytest.raises(ConfigError, match=r"settings\.key must be a finclaw\.Secret here; env:NAME and file:PATH are"):
        loaded("env:HOME")


def test_another_type_of_ones_own_is_refused(tmp_path: Path) -> None:
    class Odd(Struct):
        where: Path

    class Extension:
        name = "odd"

        def register(self, api: ExtensionApi) -> None:
            api.read_settings(Odd)

    async def start() -> None:
        async with build(Settings(state=tmp_path), extensions=[Extension()]):
            pytest.fail("it started")

    with pytest.raises(ExtensionError, match="there are: where"):  # nothing was given at all
        asyncio.run(start())


# ── shown nowhere ───────────────────────────────────────────────────────────────────────────────────────────

LEAKY = """
from msgspec import Struct
from finclaw import Secret

class Settings(Struct):
    token: Secret

def register(api):
    settings = api.read_settings(Settings)
    api.logger.warning("settings %s %r %s", settings, settings, f"{settings.token:>20}")
    def run(args):
        print(settings, [settings.token], settings.token.reveal() == "VALUE")
        raise RuntimeError(settings)
    api.cli.command("leak", "", run, lambda _: None)
""".replace("VALUE", VALUE)


@pytest.fixture
def leaky(tmp_path: Path) -> Path:
    (tmp_path / "leaky.py").write_text(LEAKY)
    (tmp_path / "finclaw.yaml").write_text(
        "agent: {extensions: [{use: ./leaky.py, settings: {token: 'env:LEAKY_TOKEN', place: home}}]}"
    )
    return tmp_path


def test_an_extension_cannot_print_it_by_accident(leaky: Path) -> None:
    ended = finclaw("leak", "--state", leaky, LEAKY_TOKEN=VALUE)
    assert ended.out == "Settings(token=Secret(***)) [Secret(***)] True\n"
    assert VALUE not in ended.err
    assert "RuntimeError: Settings(token=Secret(***))" in ended.err


@pytest.mark.parametrize("command", ["config show", "config show --json", "extensions", "doctor", "ask hi --verbose"])
def test_no_command_shows_it(leaky: Path, command: str) -> None:
    ended = finclaw(*command.split(), "--state", leaky, LEAKY_TOKEN=VALUE)
    assert VALUE not in ended.out + ended.err
    if command.startswith("config"):
        assert '"place":"home"' in ended.out


@pytest.mark.parametrize("name", ["key", "api_key", "API-Key", "tokens", "password", "client_secret"])
def test_a_bare_one_is_not_shown_either(leaky: Path, name: str) -> None:
    """It starts nothing; but whoever looks for the reason may show the screen to somebody."""
    settings = f"{{{name}: {VALUE}, deep: {{list: [{{{name}: {VALUE}}}]}}, monkey: {name}}}"
    (leaky / "finclaw.yaml").write_text(f"agent: {{extensions: [{{use: ./leaky.py, settings: {settings}}}]}}")
    for command in ("config show", "config show --json"):
        ended = finclaw(*command.split(), "--state", leaky)
        assert ended.code == 0
        assert VALUE not in ended.out
        assert len(re.findall(rf'"{name}":"(set, not shown|\[secret\])"', ended.out)) == 2
        assert f'"monkey":"{name}"' in ended.out


def test_a_missing_one_is_one_line_and_the_gateway_does_not_start(leaky: Path) -> None:
    for command in ("ask hi", "extensions", "leak"):
        ended = finclaw(*command.split(), "--state", leaky)
        says = "finclaw: extension 'leaky': settings.token refers to the environment variable LEAKY_TOKEN, which is"
        assert (ended.code, ended.line()) == (2, f"{says} not set; set it")


@pytest.mark.parametrize("given", [KEY, f"env:{KEY}", f"file:/no/{KEY}", f"[{KEY}]", f"{{a: {KEY}}}"])
def test_no_complaint_repeats_what_looks_like_one(leaky: Path, given: str) -> None:
    (leaky / "finclaw.yaml").write_text(f"agent: {{extensions: [{{use: ./leaky.py, settings: {{token: {given}}}}}]}}")
    for command in COMMANDS:
        ended = typed(*command, "--state", leaky)
        assert KEY[:11] not in ended.out + ended.err, command


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path / "state")


@in_virtual_time
async def test_neither_the_log_nor_the_settings_hold_it(
    house: House, caplog: pytest.LogCaptureFixture, leaky: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    settings = load_settings(state=leaky, environ={"LEAKY_TOKEN": VALUE})
    assert VALUE not in repr(settings)
    assert [each.settings for each in find(settings.agent.extensions)] == [
        {"token": "env:LEAKY_TOKEN", "place": "home"}
    ]
    async with house.open("Hello.", agent=settings.agent) as gateway:
        await gateway.ask("hi")
    assert "Settings(token=Secret(***))" in caplog.text
    assert VALUE not in caplog.text


def test_it_cannot_be_written_away() -> None:
    with pytest.raises(TypeError):
        pickle.dumps(WeatherSettings(Secret(VALUE)))
