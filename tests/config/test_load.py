"""Where settings come from, and what is said when they do not fit."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.machine import examples

from finclaw.agent.settings import LocatedRef
from finclaw.config.load import load_settings
from finclaw.config.schema import Settings
from finclaw.errors import ConfigError
from finclaw.kernel.envelope import QueueMode
from finclaw.pipeline.settings import DIRECTIVES
from finclaw.sessions.settings import DropPolicy

Load = Callable[..., Settings]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def load(text: str | None = None, environ: Mapping[str, str] | None = None, **overrides: object) -> Settings:
        if text is not None:
            (tmp_path / "finclaw.yaml").write_text(text, encoding="utf-8")
        return load_settings(
            state=tmp_path,
            environ=environ or {},
            overrides={key.replace("__", "."): value for key, value in overrides.items()},
        )

    return load


def test_with_nothing_given_everything_has_a_default(load: Load, tmp_path: Path) -> None:
    assert load() == Settings(state=tmp_path)
    assert load("") == load("# only a comment\n") == load("web:\n") == Settings(state=tmp_path)


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(load: Load) -> None:
    text = "web: {port: 1, max_body: 2000}\nagent: {name: file}\n"
    environ = {"FINCLAW_WEB__PORT": "2", "FINCLAW_WEB__WAIT_LIMIT": "0.5", "PATH": "/bin"}
    made = load(text, environ, web__port=3, market=None)
    assert (made.web.port, made.web.max_body, made.web.wait_limit, made.agent.name) == (3, 2_000, 0.5, "file")
    assert load(text, environ).web.port == 2


def test_the_environment_speaks_text(load: Load) -> None:
    made = load(
        None,
        {
            "FINCLAW_PIPELINE__ENABLE_ACK": "false",
            "FINCLAW_AGENT__TEMPERATURE": "0.5",
            "FINCLAW_AGENT__NAME": "7",
            "FINCLAW_LOG__LEVEL": "debug",
        },
    )
    assert (made.pipeline.enable_ack, made.agent.temperature, made.agent.name) == (False, 0.5, "7")
    assert made.log.level == "debug"


@pytest.mark.spec("V-09")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("web:\n  prot: 1\n", "finclaw.yaml line 2: unknown key web.prot; did you mean web.port?"),
        ("markt: demo\n", "line 1: unknown key markt; did you mean market?"),
        ("commands:\n  prefx: x\n", "line 2: unknown key commands.prefx; did you mean commands.prefix?"),
        ("commands: {prefix: ''}\n", "line 1: commands.prefix must be text of 1 to 8 characters, not"),
        ("commands:\n  disabled: reset\n", "line 2: commands.disabled must be a list"),
        (
            "commands:\n  disabled: [/reset]\n",
            "commands.disabled has '/reset'; write the name of a command",
        ),
        ("commands:\n  aliases: {a b: reset}\n", "commands.aliases has 'a b'; write the name of a command as one word"),
        ("commands:\n  aliases: [a]\n", "line 2: commands.aliases must be a section of `key: value` lines"),
        ("commands:\n  cooldown_s: {reset: soon}\n", "commands.cooldown_s must be a section of `key: value` lines"),
        ("commands:\n  cooldown_s: {reset: .nan}\n", "commands.cooldown_s of reset is nan; it is a number of seconds"),
        ("commands: {prefix: '!'}\npipeline: {command_prefix: $}\n", "write commands.prefix alone"),
        ("sessions:\n  idle_minute: 5\n", "unknown key sessions.idle_minute; did you mean sessions.idle_minutes?"),
        ("sessions: {idle_minutes: 0}\n", "sessions.idle_minutes must be a whole number from 1 to 5256000 or nothing"),
        ("pipeline: {timeout_ms: 0}\n", "pipeline.timeout_ms must be a whole number, 1 or more, not 0"),
        ("compaction: {target: 0.9}\n", "compaction.target is 0.9; it must be at least 0.05 below compaction.start"),
        ("\nport: 1\n", "line 2: unknown key port; did you mean web.port?"),
        ("zzz: 1\n", "unknown key zzz; the top level knows market, market_data, agent, providers, models"),
        ("log: {colour: red}\n", "unknown key log.colour; log knows level, format"),
        ("web:\n  port: abc\n", 'line 2: web.port must be a whole number from 0 to 65535, not "abc"'),
        ("web: {port: 65536}\n", "must be a whole number from 0 to 65535, not 65536"),
        ("web: {port: true}\n", "not true"),
        ("web: {max_body: 1}\n", "a whole number, 1024 or more, not 1"),
        ("web: 3\n", "web must be a section of `key: value` lines, not 3"),
        ("agent: {name: ''}\n", 'agent.name must be text of 1 to 64 characters, not ""'),
        ("pipeline: {expire_after_s: 0}\n", "pipeline.expire_after_s must be a number, more than 0, not 0"),
        ("agent: {max_steps: 1.5}\n", "agent.max_steps must be a whole number, 1 or more, not 1.5"),
        ("agent: {temperature: .nan}\n", "agent.temperature must be a number from 0 to 2 or nothing, not nan"),
        ("agent: {name: [a]}\n", "agent.name must be text of 1 to 64 characters, not a list"),
        ("agent: {name: 2024-01-01}\n", "agent.name must be text of 1 to 64 characters, not date 2024-01-01"),
        ("agent: {name: }\n", "agent.name must be text of 1 to 64 characters, not nothing"),
        ("market: moon\n", 'market must be one of demo, live, not "moon"'),
        ("market_data: {disabled: [naber]}\n", "market_data.disabled names 'naber', which is not known; did you mean"),
        ("web:\n  host: 0.0.0.0\n", "line 2: web.host is '0.0.0.0', but the gateway listens on this machine only"),
        ("web: {host: example.org}\n", "use 127.0.0.1, ::1 or localhost"),
        ("market: demo\nmarket: demo\n", "line 2: market is already set in line 1; keep one of the two"),
        ("web:\n  port: 1\n  port: 2\n", "line 3: port is already set in line 2"),
        ("state: /elsewhere\n", "line 1: the file cannot move the state; use --state DIR or FINCLAW_HOME"),
        ("- a\n", "line 1: write settings as `key: value` lines"),
        ("just text\n", "write settings as `key: value` lines"),
        ("1: 2\n", "line 1: a key must be a word"),
        ("web: [1\n", "not valid YAML"),
        ("a:\tb\n\tc: d\n", "line 1: not valid YAML"),
        ("a: !!python/object:os.system 1\n", "line 1: not valid YAML"),
        ("agent: {name: 2024-99-99}\n", "this value cannot be read"),
        ("web: &x {port: 1}\nagent: *x\n", "anchors and aliases are not supported"),
        ("web: &x\n  port: *x\n", "anchors and aliases are not supported"),
        ("a: 1\n---\nb: 2\n", "not valid YAML"),
        ("a: \x07\n", "not valid YAML"),
    ],
)
def test_each_complaint_says_where_and_what_to_do(load: Load, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_problem_is_named_at_once(load: Load) -> None:
    with pytest.raises(ConfigError) as caught:
        load("web: {prot: 1, port: x}\nagnet: {}\n")
    assert all(name in str(caught.value) for name in ("web.prot", "web.port must", "agnet"))


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("FINCLAW_WEB__PORT", "nine", 'FINCLAW_WEB__PORT: web.port must be a whole number from 0 to 65535, not "nine"'),
        ("FINCLAW_WEB_PORT", "9", "FINCLAW_WEB_PORT sets nothing; did you mean FINCLAW_WEB__PORT?"),
        ("FINCLAW_STATE", "/x", "FINCLAW_STATE sets nothing"),
        ("FINCLAW_QQQQQQQQQQQQ", "1", "FINCLAW_QQQQQQQQQQQQ sets nothing; a nested key is spelled like"),
        ("FINCLAW_WEB__HOST", "0.0.0.0", "FINCLAW_WEB__HOST: web.host is '0.0.0.0'"),
    ],
)
def test_the_environment_is_checked_as_strictly(load: Load, name: str, value: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(None, {name: value})
    assert said in str(caught.value)


def test_a_scalar_in_place_of_a_section_is_not_painted_over(load: Load) -> None:
    with pytest.raises(ConfigError, match="web must be a section"):
        load("web: 3\n", {"FINCLAW_WEB__PORT": "1"})


def test_live_from_the_command_line(load: Load) -> None:
    assert load("market: demo\n", market="live").market == "live"


def test_the_state_directory(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert load_settings(environ={"FINCLAW_HOME": str(home)}).state == home
    assert load_settings(state=tmp_path, environ={"FINCLAW_HOME": str(home)}).state == tmp_path
    assert load_settings(environ={"FINCLAW_HOME": ""}).state == Path("~/.finclaw").expanduser()
    assert not home.exists()  # reading settings makes nothing
    home.write_text("")
    with pytest.raises(ConfigError, match="is a file, not a directory; choose another place with --state"):
        load_settings(state=home, environ={})


def test_another_file(tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("agent: {name: other}\n")
    assert load_settings(state=tmp_path, config=other, environ={}).agent.name == "other"
    with pytest.raises(ConfigError, match=r"cannot read .*missing\.yaml: No such file"):
        load_settings(state=tmp_path, config=tmp_path / "missing.yaml", environ={})
    with pytest.raises(ConfigError, match=r"cannot read .*: Is a directory"):
        load_settings(state=tmp_path, config=tmp_path, environ={})
    other.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_settings(state=tmp_path, config=other, environ={})


# ── a list of extensions ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("EX-08", "MW-08")
def test_extensions_are_a_list_whose_paths_count_from_the_file(tmp_path: Path) -> None:
    other = tmp_path / "conf" / "other.yaml"
    other.parent.mkdir()
    other.write_text("agent:\n  extensions:\n  - installed\n  - ./mine.py\n  - {use: ../pack/, settings: {a: [1]}}\n")
    assert load_settings(state=tmp_path, config=other, environ={}).agent.extensions == (
        LocatedRef("installed"),
        LocatedRef(f"{tmp_path}/conf/mine.py"),
        LocatedRef(f"{tmp_path}/conf/../pack", {"a": [1]}),
    )


def test_extensions_in_a_variable_stand_between_commas(load: Load, tmp_path: Path) -> None:
    found = load(None, {"FINCLAW_AGENT__EXTENSIONS": "one, two.three:four,"}).agent.extensions
    assert found == (LocatedRef("one"), LocatedRef("two.three:four"))


@pytest.mark.parametrize(
    ("yaml_text", "said"),
    [
        ("extensions: one", 'line 2: agent.extensions must be a list, not "one"'),
        ("extensions: [one, 2]", "line 2: agent.extensions[2] must be a section of `key: value` lines or text, not 2"),
        ("extensions:\n  - one\n  - uze: x", "line 4: unknown key agent.extensions[2].uze; did you mean"),
        ("extensions:\n  - settings: {}", "line 3: agent.extensions[1] needs use"),
        ("extensions: [{use: a, settings: 4}]", "agent.extensions[1].settings must be a section"),
        ("extensions: [~nobody-of-that-name/x.py]", "agent.extensions: cannot tell where ~nobody-of-that-name/x.py is"),
        ("extensions: [[a]]", "agent.extensions[1] must be a section of `key: value` lines or text, not a list"),
    ],
)
def test_a_wrong_list_of_extensions_is_pointed_at(load: Load, yaml_text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(f"agent:\n  {yaml_text}\n")
    assert said in str(caught.value)


def test_an_empty_list_of_extensions_is_none_at_all(load: Load) -> None:
    assert load("agent:\n  extensions:\n").agent.extensions == ()


# ── whatever is valid loads ─────────────────────────────────────────────────────────────────────────────────

_WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)
_NAMES = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=20)


def _named(use: str) -> dict[str, object]:
    return {"use": use, "settings": {"word": use}}


_VALID: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "agent": {
        "name": _WORDS.filter(bool),
        "model": _WORDS,
        "fallbacks": st.just([]),
        "instructions": _WORDS,
        "compliance": st.sampled_from(["retail", "professional", "institutional"]),
        "prompt_mode": st.sampled_from(["full", "minimal", "none"]),
        "prompt_tokens": st.none() | st.integers(1, 100_000),
        "max_steps": st.integers(1, 100),
        "default_extensions": st.lists(st.sampled_from(["memory", "web"]), unique=True),
        "max_tokens": st.integers(1, 10_000),
        "temperature": st.none() | st.floats(0, 2),
        "thinking": st.sampled_from(["off", "low", "medium", "high"]),
        "verbosity": st.sampled_from(["low", "medium", "high"]),
        "stop_sequences": st.lists(_WORDS.filter(bool).map(lambda word: word[:64]), max_size=4),
        "delegate": st.booleans(),
        "attempts": st.integers(1, 10),
        "parallel_tools": st.integers(1, 64),
        "extensions": st.lists(st.sampled_from(["alpha", "beta.gamma", "beta.gamma:delta"]).map(_named), max_size=3),
    },
    "market_data": {
        "disabled": st.lists(st.sampled_from(["naver", "yahoo"]), unique=True),
        "chains": st.just({}),
        "urls": st.just({"yahoo.api": "https://query1.finance.yahoo.com"}),
        "private": st.just(["127.0.0.1:8000"]),
        "contact": st.sampled_from(["", "ops@example.com"]),
        "keys": st.just({}),
    },
    "compaction": {
        "strategy": st.sampled_from(["summarize", "truncate-oldest", "truncate-tools", "hybrid"]),
        "start": st.floats(0.6, 0.94),
        "target": st.floats(0.01, 0.54),
        "recent": st.integers(0, 100),
    },
    "budget": dict.fromkeys(
        ("turn_usd", "user_day_usd", "agent_day_usd", "month_usd"), st.none() | st.integers(0, 10**6)
    ),
    "tools": {
        "rules": st.just([]),
        "show": st.lists(st.sampled_from(["garden__water", "market__*"]), max_size=2),
        "guard": st.fixed_dictionaries(
            {
                "shown": st.integers(0, 10_000),
                "stored": st.integers(10_000, 10**6),
                "allow_html": st.booleans(),
                "redact_finance": st.booleans(),
                "patterns": st.lists(st.sampled_from(["EMP-####", "Falcon"]), max_size=2),
            }
        ),
        "guards": st.just([]),
    },
    "approvals": {
        "approvers": st.lists(st.sampled_from(["role:owner", "telegram:bot:42"]), max_size=2),
        "own": st.sampled_from(["direct", "never"]),
        "expire_s": st.floats(10, 86_400),
        "order_expire_s": st.integers(10, 86_400),
        "standing_days": st.integers(1, 3_650),
        "most_waiting": st.integers(1, 1_000),
        "most_per_approver": st.integers(1, 1_000),
        "drift_percent": st.integers(0, 100),
    },
    "pipeline": {
        "timeout_ms": st.integers(1, 10**9),
        "enable_ack": st.booleans(),
        "command_prefix": st.none() | _WORDS.filter(bool).map(lambda word: word[:8]),
        "ack": st.fixed_dictionaries(
            {
                "scope": st.sampled_from(["off", "direct", "group-mentions", "all"]),
                "done": st.sampled_from(["", "👍"]),
                "failed": st.sampled_from(["", "👎"]),
            }
        ),
        "streaming_enabled": st.booleans(),
        "max_response_length": st.none() | st.integers(200, 10**6),
        "blocks": st.fixed_dictionaries(
            {
                "gather": st.booleans(),
                "shortest": st.integers(1, 10**4),
                "longest": st.integers(1, 10**4),
                "idle_ms": st.integers(0, 10**4),
            }
        ),
        "tool_notes": st.booleans(),
        "still_working_s": st.floats(0, 1e6),
        "require_mention": st.booleans(),
        "respect_market_hours": st.booleans(),
        "max_attempts": st.integers(1, 10),
        "max_text": st.integers(1, 10**7),
        "max_waiting": st.integers(1, 10**4),
        "expire_after_s": st.floats(0.001, 1e6) | st.integers(1, 10**6),
        "stall_warn_s": st.floats(0.001, 1e6),
        "stall_abort_s": st.floats(0.001, 1e6),
        "pools": st.fixed_dictionaries({name: st.integers(1, 1000) for name in ("main", "cron", "subagent")}),
    },
    "commands": {
        "prefix": st.just("/"),  # beside an older name only this one
        "disabled": st.lists(_NAMES, max_size=2),
        "aliases": st.dictionaries(_NAMES, _NAMES, max_size=2),
        "cooldown_s": st.dictionaries(_NAMES, st.floats(0, 86_400), max_size=2),
        "directives": st.dictionaries(st.sampled_from(DIRECTIVES), st.lists(_NAMES, max_size=2), max_size=4),
        "suggest": st.booleans(),
    },
    "sessions": {
        "idle_minutes": st.none() | st.integers(1, 10**6),
        "queue": st.fixed_dictionaries(
            {
                "mode": st.sampled_from(get_args(QueueMode)),
                "cap": st.integers(1, 1_000),
                "drop": st.sampled_from(get_args(DropPolicy)),
            }
        ),
    },
    "web": {
        "host": st.sampled_from(["127.0.0.1", "127.0.0.2", "::1", "localhost"]),
        "port": st.integers(0, 65_535),
        "max_body": st.integers(1_024, 10**9),
        "wait_limit": st.floats(0, 1e6),
        "impersonate": st.booleans(),
    },
    "storage": {
        "kind": st.sampled_from(["sqlite", "jsonl"]),
        "retention_days": st.integers(30, 100_000),
    },
    "log": {
        "level": st.sampled_from(["debug", "info", "warning", "error"]),
        "format": st.sampled_from(["json", "plain", "auto"]),
    },
}
_FILES = st.fixed_dictionaries(
    {}, optional={name: st.fixed_dictionaries({}, optional=section) for name, section in _VALID.items()}
)


def test_the_strategies_know_every_setting() -> None:
    made = Settings(state=Path("x"))
    for part in fields(made):
        section = getattr(made, part.name)
        if is_dataclass(section):
            assert {each.name for each in fields(section)} == set(_VALID[part.name])


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(_FILES)
def test_every_valid_file_loads(load: Load, document: dict[str, dict[str, object]]) -> None:
    made = load(yaml.safe_dump(document, allow_unicode=True))
    for section, values in document.items():
        for key, value in values.items():
            assert _plain(getattr(getattr(made, section), key)) == value


def _plain(value: object) -> object:
    if is_dataclass(value):
        return {key: _plain(each) for key, each in asdict(value).items() if key != "follow"}  # pyright: ignore
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}  # pyright: ignore
    return [_plain(each) for each in value] if isinstance(value, tuple) else value  # pyright: ignore


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.text(max_size=60) | st.binary(max_size=60) | st.text("ab:-[]{}#&*!|>\n \"'", max_size=30))
def test_any_other_file_is_refused_in_one_line(tmp_path: Path, content: str | bytes) -> None:
    path = tmp_path / "any.yaml"
    path.write_bytes(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content)
    assert "\n" not in complaint(tmp_path, path)


def complaint(state: Path, file: Path) -> str:
    """Anything but a ConfigError is a bug and comes through."""
    try:
        load_settings(state=state, config=file, environ={})
    except ConfigError as error:
        return str(error)
    return ""
