"""The guide to extensions is true: its tutorial works, and each older point and hook has an equivalent that runs."""

import json
import logging
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.cli.terminal import finclaw, pytest_environment, run_pytest
from tests.support.api_rules import violations
from tests.walks.house import Gateway, House, in_virtual_time
from tests.walks.tools import Desk

from finclaw.agent.settings import AgentSettings, ExtensionRef
from finclaw.cli.commands.extensions import render
from finclaw.errors import Overloaded
from finclaw.extensions.loading import OWN
from finclaw.kernel.extension import RING_NAMES, ExtensionApi
from finclaw.testing import call, delay, fails, reply

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "guides" / "extensions.md").read_text(encoding="utf-8")
FILES = re.findall(r"^```python file=(\S+)\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
WHOLE = dict(re.findall(r"^```python example=(\S+)\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL))
EXAMPLES = dict(re.findall(r"^```python point=(\S+)\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL))

OLD_POINTS = (
    *("turn.pre", "turn.post"),
    *("step.pre", "step.config", "step.tools", "step.blocks", "step.llmInput", "step.llmCall", "step.llmError"),
    *("step.post", "toolCall.pre", "toolCall.exec", "toolCall.post"),
)
HOOKS = ("before_process", "after_process", "before_send", "after_send")


# ── the tutorial ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path / "state")


@pytest.mark.parametrize("version", [text for name, text in FILES if name == "remember.py"], ids=["first", "second"])
@in_virtual_time
async def test_every_version_of_the_tutorials_file_is_a_working_extension(house: House, version: str) -> None:
    house.state.mkdir()
    file = house.state / "remember.py"
    file.write_text(version, encoding="utf-8")
    agent = AgentSettings(extensions=(ExtensionRef(str(file), {"keep": 1}),))
    script = (reply(call("remember__note", {"text": "one"}), call("remember__note", {"text": "two"})), "yes", "two")
    async with house.open(*script, agent=agent) as gateway:
        await gateway.ask("note it")
        assert [result.content for result in gateway.results] == ["Noted.", "Noted."]
        await gateway.ask("well?")
        notes = [message.text for message in gateway.seen if message.passing]
        assert notes == (["Notes on this person:\n- two"] if "state" in version else [])


def test_the_tutorial_ends_with_what_the_template_makes_and_its_test_passes(tmp_path: Path) -> None:
    made = dict(FILES)
    assert made == render("remember")
    for name, text in made.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert "1 passed" in run_pytest(tmp_path)


def test_the_tutorial_works_to_the_letter(tmp_path: Path) -> None:
    """User trial M3: done literally, it showed nothing of the new extension, and its last step failed."""
    tutorial = GUIDE[GUIDE.index("## Your first extension") : GUIDE.index("## The five rings")]
    blocks = re.findall(r"^```(\S*)(?: file=(\S+))?\n(.*?)^```", tutorial, re.MULTILINE | re.DOTALL)
    environ = pytest_environment(tmp_path) | {
        "FINCLAW_HOME": str(tmp_path / "state"),
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
    }
    (tmp_path / "new").mkdir()
    commands = 0
    for _, file, text in blocks:
        if file:
            (tmp_path / "new" / file).write_text(text, encoding="utf-8")
        elif text.startswith("$ "):
            command, *expected = text.removeprefix("$ ").splitlines()
            done = subprocess.run(
                command, shell=True, cwd=tmp_path / "new", env=environ, capture_output=True, text=True, check=False
            )
            said = done.stdout + done.stderr
            assert done.returncode == 0, said
            for line in expected:
                assert line.partition("/…")[0].strip("…") in said, (command, said)
            commands += 1
    assert commands == 2


# ── what the tables promise ─────────────────────────────────────────────────────────────────────────────────


def test_the_api_table_names_everything_there_is() -> None:
    public = [name for name in vars(ExtensionApi) if not name.startswith("_")]
    assert [name for name in public if f"`api.{name}" not in GUIDE] == []


def test_all_rings_are_described() -> None:
    assert [ring for ring in RING_NAMES if f"\n| `{ring}` |" not in GUIDE] == []


def test_every_built_in_extension_is_listed_with_its_settings() -> None:
    import importlib

    from msgspec import Struct
    from msgspec.structs import fields

    for name, module_name in OWN.items():
        row = re.search(rf"^\| `{name}` \|.*$", GUIDE, re.MULTILINE)
        assert row, f"{name} is missing in the guide"
        module = importlib.import_module(module_name)
        assert module.name == name
        kinds = [each for name, each in vars(module).items() if name.endswith("Settings")]
        assert all(issubclass(each, Struct) for each in kinds)
        assert [each.name for kind in kinds for each in fields(kind) if f"`{each.name}`" not in row[0]] == []


# ── settings and commands ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    """A state directory with the guide's whole files in it, and the guide's own lines about the first."""
    for name, text in WHOLE.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "weather.key").write_text("spare-hunter2\n", encoding="utf-8")
    (tmp_path / "weather.key").chmod(0o600)
    (settings,) = re.findall(r"^```yaml\n(agent:\n  extensions:\n    - use: ./weather.py\n.*?)^```", GUIDE, re.M | re.S)
    (tmp_path / "finclaw.yaml").write_text(f"{settings}    - ./watchlist.py\n", encoding="utf-8")
    return tmp_path


@pytest.mark.spec("DX-32")
def test_the_example_with_a_secret_starts_with_it_and_says_what_is_missing_without(listed: Path) -> None:
    asked = finclaw("ask", "/whoami", "--verbose", "--state", listed, WEATHER_KEY="hunter2")
    assert asked.code == 0
    says = "asking about Seoul with WeatherSettings(key=Secret(***), city='Seoul', spare_key=Secret(***))"
    assert says in asked.err
    assert "hunter2" not in asked.out + asked.err
    (line,) = re.findall(r"a\s+line such as `(extension 'weather': .*?)`", GUIDE, re.S)
    assert finclaw("ask", "hi", "--state", listed).line() == f"finclaw: {' '.join(line.split())}"


@pytest.mark.spec("EX-03")
def test_the_example_of_a_command_remembers_and_tells(listed: Path) -> None:
    session = "main:web:owner:direct:main"
    for symbol, watched in (("GOLD", "GOLD"), ("AAPL", "AAPL, GOLD"), ("GOLD", "AAPL, GOLD")):
        ended = finclaw("watch", symbol, "--tell", session, "--state", listed, WEATHER_KEY="x")
        assert (ended.out, ended.err) == (f"{watched}\n", "")
    waiting = json.loads(finclaw("status", "--json", "--state", listed, WEATHER_KEY="x").out)["counts"]["waiting"]
    assert waiting == 2, "said once each, by the next gateway"


@in_virtual_time
async def test_the_example_of_a_chat_command_answers_tells_and_starts_a_turn(house: House) -> None:
    file = house.state.parent / "quotes.py"
    file.write_text(WHOLE["quotes.py"], encoding="utf-8")
    agent = AgentSettings(extensions=(ExtensionRef(str(file)),))
    async with house.open("No news.", agent=agent) as gateway:
        assert "such as AAPL" in ((await gateway.ask("/tick")).reply or "")
        assert (await gateway.ask("/체결가 AAPL tell")).reply == "**AAPL** is at 190.5\n\n1. Again: `/tick AAPL`"
        await gateway.app.idle()
        assert sorted(gateway.said)[-1].startswith("AAPL is at 190.5")
        house.clock.advance(6)
        assert (await gateway.ask("/t daily")).reply == "I am looking."
        await gateway.app.idle()
        assert gateway.said[-1] == "No news."


# ── the examples ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Try:
    """What is said to a gateway with one example in it, and what must be true then."""

    holds: Callable[[Gateway, list[str]], object]
    script: Sequence[Any] = ("Hello.",)
    asks: Sequence[str] = ("hi",)
    tools: Sequence[Any] = field(default_factory=list[Any])


async def card(text: str, scope: Any) -> str:
    return "paid with 1234567812345678"


DESK = Desk()
LOOK = DESK.tool("look")
LONG = reply(call("look", {"text": "x" * 10_001}))


def summarized(gateway: Gateway, _: list[str]) -> bool:
    texts = [message.text for message in gateway.seen]
    sanitize_request = not (violations(gateway.seen, "anthropic") or violations(gateway.seen, "openai"))
    return texts[0].startswith("[Previous") and "one; two" in texts[0] and texts[-1] == "four" and sanitize_request


TRIES = {
    "turn.pre": Try(lambda gateway, _: gateway.provider.requests[0].system.endswith("Answer in one sentence.")),
    "turn.post": Try(lambda gateway, _: gateway.said == ["Hello. (FinClaw)"]),
    "step.pre": Try(
        lambda gateway, _: [each.temperature for each in gateway.provider.requests] == [0.7, 0.0],
        (reply(call("look")), "Hello."),
        tools=[LOOK],
    ),
    "step.config": Try(lambda gateway, _: gateway.provider.requests[0].system.endswith("Be terse.")),
    "step.tools": Try(
        lambda gateway, _: (
            gateway.results[0].is_error
            and not [tool for tool in gateway.provider.requests[0].tools if tool.name.startswith("alert__")]
        ),
        (reply(call("alert__list")), "Hello."),
    ),
    "step.blocks": Try(
        lambda gateway, _: [each.text for each in gateway.seen if each.passing] == ["Prices are fifteen minutes old."],
        (reply(call("look")), "Hello.", "Hello."),
        asks=("hi", "again"),
        tools=[LOOK],
    ),
    "step.llmInput": Try(lambda _, log: "the model gets 1 messages" in log),
    "step.llmCall": Try(lambda _, log: "the model and its tools took 2.0 s" in log, (reply(delay(2), "Hello."),)),
    "step.llmError": Try(lambda _, log: "the model failed: Overloaded" in log, (fails(Overloaded("busy")),) * 3),
    "step.post": Try(
        lambda gateway, _: gateway.said == ["It is 7."] and gateway.seen[-1].text == "Give a figure.",
        ("It is a lot.", "It is 7."),
    ),
    "toolCall.pre": Try(
        lambda gateway, _: gateway.results[0].status == "denied" and all(len(text) < 9_000 for _, text in DESK.runs),
        (LONG, "No."),
        tools=[LOOK],
    ),
    "toolCall.exec": Try(
        lambda gateway, _: len(gateway.results) == 2 and DESK.runs.count(("look", "once")) == 1,
        (reply(call("look", {"text": "once"})), reply(call("look", {"text": "once"})), "Done."),
        tools=[LOOK],
    ),
    "toolCall.post": Try(
        lambda gateway, _: gateway.results[0].content == "paid with [card]",
        (reply(call("pay")), "Done."),
        tools=[DESK.tool("pay", card)],
    ),
    "before_process": Try(lambda gateway, _: gateway.seen[0].text == "005930?", asks=("Samsung?",)),
    "after_process": Try(
        lambda _, log: log == ["answered after 8 stages", "skipped after 1 stages"], asks=("hi", " ")
    ),
    "before_send": Try(lambda gateway, _: gateway.said == ["Hello.\n\nThis is no advice."]),
    "after_send": Try(lambda _, log: len([line for line in log if line.startswith("sent ")]) == 1),
    "pin": Try(
        lambda gateway, _: [bool(each.metadata.get("pinned")) for each in gateway.seen] == [True, False, False],
        ("Yes.", "Hello."),
        asks=("Remember: no oil.", "hi"),
    ),
    "compaction": Try(
        summarized,
        (reply(call("look")), "1", reply(call("look")), "2", "3", "4"),
        asks=("one", "two", "three", "four"),
        tools=[LOOK],
    ),
}  # fmt: skip


@pytest.mark.spec("MW-27", "P-10")
def test_every_old_point_and_every_hook_has_an_example_and_a_row() -> None:
    assert [each for each in (*OLD_POINTS, *HOOKS) if each not in EXAMPLES] == []
    assert [each for each in (*OLD_POINTS, *HOOKS) if not re.search(rf"^\|.*`{each}`.*\|", GUIDE, re.MULTILINE)] == []
    assert set(TRIES) == set(EXAMPLES)


@pytest.mark.spec("MW-27", "MW-29", "MW-31", "P-10", "DX-57", "DX-63", "DX-64")
@pytest.mark.parametrize("point", sorted(EXAMPLES))
@in_virtual_time
async def test_the_example_does_what_it_is_there_for(
    house: House, point: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    DESK.runs.clear()
    tried = TRIES[point]
    house.state.mkdir()
    file = house.state / "example.py"
    body = "".join(f"    {line}" if line.strip() else line for line in EXAMPLES[point].splitlines(keepends=True))
    file.write_text(f"def register(api):\n{body}", encoding="utf-8")
    agent = AgentSettings(extensions=(ExtensionRef(str(file), {"tone": "terse"}),))
    async with house.open(*tried.script, agent=agent, tools=tried.tools) as gateway:
        for text in tried.asks:
            await gateway.ask(text)
    log = [record.getMessage() for record in caplog.records if record.name == "finclaw.extension.example"]
    assert tried.holds(gateway, log), (gateway.said, gateway.provider.requests[-1:], log)


@in_virtual_time
async def test_without_the_examples_none_of_it_is_true(house: House) -> None:
    """What holds anyway proves nothing."""
    for number, (point, tried) in enumerate(TRIES.items()):
        DESK.runs.clear()
        bare = House(house.state / str(number), house.clock)
        async with bare.open(*tried.script, "more", tools=tried.tools) as gateway:
            for text in tried.asks:
                await gateway.ask(text)
        assert not tried.holds(gateway, []), point
