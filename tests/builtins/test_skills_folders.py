"""Skills in whole messages: listed by name, given when asked for, filtered by agent and channel, with their tools."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.builtins.extended import extended, names
from tests.support.api_rules import violations
from tests.walks.house import Gateway, House, crash, in_virtual_time
from tests.walks.tools import Desk

import finclaw
from finclaw.agent.settings import AgentSettings, ExtensionRef
from finclaw.approvals.people import PersonSettings
from finclaw.builtins.skills.skill_directory import add
from finclaw.composition.extensions import load_registrar
from finclaw.kernel.message import Message
from finclaw.testing import MemoryChannel, call, reply

TAX = """---
name: tax
description: Taxes on dividends, 배당소득세
commands: [{name: tax, description: reckon it}, {name: 세금}]
---
Ask where they live.
"""
CODE = """
from msgspec import Struct
from finclaw.kernel.port import ToolOutput, ToolScope
from finclaw.tools.define import tool

class Amount(Struct):
    won: int

@tool("tax__rate", "The rate.", group="finance")
async def rate(args: Amount, scope: ToolScope):
    return ToolOutput(f"15.4% of {args.won}")

TOOLS = [rate]
"""


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    shelf = tmp_path / "skills"
    write(shelf, "tax", TAX)
    write(shelf, "bonds", "---\nname: bonds\ndescription: Bonds\nwhen: [bond, 채권]\n---\nMind the rate.\n")
    return shelf


def write(shelf: Path, name: str, text: str) -> None:
    (shelf / name).mkdir(parents=True, exist_ok=True)
    (shelf / name / "SKILL.md").write_text(text, encoding="utf-8")


def given(messages: Any) -> list[str]:
    return [message.text.partition("\n")[2] for message in messages if message.passing]


def listed(gateway: Gateway, request: int = -1) -> list[str]:
    tools = gateway.provider.requests[request].tools
    about = next((each.description for each in tools if each.name == "skills__use"), "")
    return [line[2:].partition(":")[0] for line in about.splitlines() if line.startswith("- ")]


use = reply(call("skills__use", {"name": "tax"}))


@pytest.mark.spec("SK-01", "SK-03", "DX-64", "DX-43")
@pytest.mark.parametrize(("question", "answer"), [("What tax do I pay?", "Where?"), ("세금이 얼마죠?", "어디 사세요?")])
@in_virtual_time
async def test_a_skill_is_listed_and_given_when_the_model_asks(
    house: House, shelf: Path, question: str, answer: str
) -> None:
    look = reply(call("look"))
    parts: dict[str, Any] = {"settings": {"directory": str(shelf)}, "tools": [Desk().tool("look")]}
    async with extended(house, "skills", use, look, answer, "bye", **parts) as gateway:
        assert (await gateway.ask(question)).reply == answer
        first, second, third = gateway.provider.requests
        assert listed(gateway, 0) == ["bonds", "tax"]
        assert [given(each.messages) for each in (first, second, third)] == [[], *[["Ask where they live."]] * 2]
        assert first.tools == third.tools, "the list stays where a cache keeps it"
        for request in gateway.provider.requests:
            assert violations(request.messages, "anthropic") == ()
        await gateway.ask("bye")
        assert given(gateway.seen) == []
        (session,) = (await gateway.app.sessions(10)).items
        assert not any("where they live" in each.text for each in await gateway.app.messages(session.key))


@in_virtual_time
async def test_its_words_call_for_it_too(house: House, shelf: Path) -> None:
    async with extended(house, "skills", "a", "b", settings={"directory": str(shelf)}) as gateway:
        await gateway.ask("채권을 살까?")
        assert given(gateway.seen) == ["Mind the rate."]
        await gateway.ask("hello")
        assert given(gateway.seen) == []


@pytest.mark.parametrize(
    ("typed", "called"),
    [("/tax 100 shares", True), ("/TAX", True), ("/세금 100주", True), ("/levy", False), ("tax", False), ("/", False)],
)
@in_virtual_time
async def test_a_command_of_its_own_hands_it_to_the_model(house: House, shelf: Path, typed: str, called: bool) -> None:
    async with extended(house, "skills", "done", settings={"directory": str(shelf)}) as gateway:
        outcome = await gateway.ask(typed)
        assert (outcome.kind, outcome.reply) == ("answered", "done")
        assert given(gateway.seen) == (["Ask where they live."] if called else [])
        assert gateway.seen[0].text == typed, "what stands behind it is the model's to read"


@pytest.mark.spec("C-20")
@in_virtual_time
async def test_a_command_of_an_enabled_skill_obeys_roles_as_every_other(house: House, shelf: Path) -> None:
    write(shelf, "tax", TAX.replace("description: reckon it", "description: reckon it, roles: [analyst]"))
    bob = PersonSettings(name="Bob", known_as=("memory:local:bob",), roles=("analyst",))
    settings: dict[str, Any] = {"directory": str(shelf), "enabled": ["tax"]}
    async with extended(house, "skills", "one", "two", settings=settings, people=[bob]) as gateway:
        refused = await gateway.ask("/tax 100 shares")
        assert (refused.kind, refused.reply) == ("refused", "/tax is for analyst only.")
        assert not gateway.provider.requests
        await gateway.ask("/tax 100 shares", forwarded=True)
        assert given(gateway.seen) == [], "nobody gets around it by forwarding the line"
        await gateway.ask("/tax 100 shares", sender="bob", conversation="bob")
        assert given(gateway.seen) == ["Ask where they live."]
        assert "/tax" not in ((await gateway.ask("/help")).reply or "")
        assert "/tax – reckon it" in ((await gateway.ask("/help", sender="bob")).reply or "")
    async with extended(house, "skills", "one", settings={**settings, "enabled": ["bonds"]}) as gateway:
        await gateway.ask("/tax 100 shares")
        assert given(gateway.seen) == [], "a skill that is not enabled brings no command"


@in_virtual_time
async def test_the_houses_commands_stay_its_own(house: House, shelf: Path) -> None:
    write(shelf, "tax", TAX.replace("name: tax, description: reckon it", "name: whoami"))
    async with extended(house, "skills", settings={"directory": str(shelf)}) as gateway:
        assert (await gateway.ask("/whoami")).kind == "command"


@pytest.mark.spec("SK-02")
@in_virtual_time
async def test_texts_are_read_again_when_they_change(house: House, shelf: Path) -> None:
    async with extended(house, "skills", *["a"] * 5, settings={"directory": str(shelf)}) as gateway:
        await gateway.ask("bond?")
        assert given(gateway.seen) == ["Mind the rate."]
        write(shelf, "bonds", "---\nname: bonds\ndescription: Better\nwhen: bond\n---\nMind the term.\n")
        write(shelf, "new", "---\nname: new\ndescription: New\n---\nNew.\n")
        await gateway.ask("bond?")
        assert given(gateway.seen) == ["Mind the term."]
        assert listed(gateway) == ["bonds", "new", "tax"]
        write(shelf, "bonds", "---\nname: bonds\n---\nbroken\n")
        (shelf / "new" / "SKILL.md").unlink()
        await gateway.ask("bond?")
        assert given(gateway.seen) == []
        assert listed(gateway) == ["tax"]
        (shelf / "tax" / "SKILL.md").unlink()
        await gateway.ask("bond?")
        assert "skills__use" not in names(gateway.provider.requests[-1].tools), "no skills, no tool"


@pytest.mark.spec("SK-04")
@pytest.mark.parametrize(
    ("settings", "channel", "expected"),
    [
        ({}, "memory", ["bonds", "tax"]),
        ({"enabled": ["tax"]}, "memory", ["tax"]),
        ({"enabled": []}, "memory", []),
        ({"channels": {"memory": ["bonds"]}}, "memory", ["bonds"]),
        ({"channels": {"memory": ["bonds"]}}, "other", ["bonds", "tax"]),
        ({"enabled": ["tax"], "channels": {"memory": ["bonds"]}}, "memory", []),
        ({"enabled": ["tax", "bonds"], "channels": {"memory": ["bonds", "none"]}}, "memory", ["bonds"]),
    ],
)
@in_virtual_time
async def test_agent_and_channel_filter_together(
    house: House, shelf: Path, settings: dict[str, Any], channel: str, expected: list[str]
) -> None:
    there = MemoryChannel(house.clock, name=channel)
    settings = {"directory": str(shelf), **settings}
    async with extended(house, "skills", use, "a", settings=settings, channel=there) as gateway:
        await gateway.ask("bond")
        assert listed(gateway, 0) == expected
        assert given(gateway.seen) == [text for name, text in _TEXTS.items() if name in expected]
        refused = gateway.results[-1].status == "error"
        assert refused == ("tax" not in expected), "what is not listed cannot be used"


_TEXTS = {"bonds": "Mind the rate.", "tax": "Ask where they live."}


@in_virtual_time
async def test_a_skill_may_be_for_some_channels_or_need_tools(house: House, shelf: Path) -> None:
    write(shelf, "tax", TAX.replace("commands", "channels: [telegram]\ncommands"))
    write(shelf, "bonds", "---\nname: bonds\ndescription: Bonds\ntools: [look]\n---\nLook.\n")
    settings = {"directory": str(shelf)}
    async with extended(house, "skills", "a", settings=settings) as gateway:
        await gateway.ask("/tax")
        assert listed(gateway) == []
        assert given(gateway.seen) == []
    async with extended(house, "skills", "a", settings=settings, tools=[Desk().tool("look")]) as gateway:
        await gateway.ask("hi")
        assert listed(gateway) == ["bonds"]


@pytest.mark.spec("SK-03")
@in_virtual_time
async def test_what_a_skill_needs_is_put_back_into_a_narrowed_catalog(house: House, shelf: Path) -> None:
    write(shelf, "tax", TAX.replace("commands", "tools: [look]\ncommands"))
    agent = AgentSettings(
        extensions=(
            ExtensionRef("skills", {"directory": str(shelf)}),
            ExtensionRef("tool-search", {"limit": 1, "always": []}),
        )
    )
    script = (reply(call("look")), use, reply(call("look")), "done")
    async with house.open(*script, agent=agent, tools=[Desk().tool("look")]) as gateway:
        await gateway.ask("tax?")
        offered = [names(each.tools) for each in gateway.provider.requests]
        assert ["look" in each for each in offered] == [False, False, True, True]
        assert all("skills__use" in each for each in offered)
        assert [result.status for result in gateway.results] == ["error", "ok", "ok"]


@pytest.mark.spec("SK-01", "SK-03", "H-07", "DX-64")
@in_virtual_time
async def test_its_own_tools_come_with_it(house: House, tmp_path: Path, shelf: Path) -> None:
    _add_with_code(tmp_path)
    rate = reply(call("tax__rate", {"won": 7}))
    settings = {"directory": str(tmp_path / "added"), "code": True}
    async with extended(house, "skills", rate, use, rate, "done", settings=settings) as gateway:
        await gateway.ask("hi")
        assert ["tax__rate" in names(each.tools) for each in gateway.provider.requests] == [False, False, True, True]
        first, _, last = gateway.results
        assert (first.status, last.content) == ("error", "15.4% of 7"), "one that is not offered is not run"


@pytest.mark.spec("SK-01", "T-09")
def test_its_tools_are_known_as_a_skills(tmp_path: Path) -> None:
    _add_with_code(tmp_path)
    use = ExtensionRef("skills", {"directory": str(tmp_path / "added"), "code": True})
    entry = load_registrar(finclaw.Settings(state=tmp_path, agent=AgentSettings(extensions=(use,)))).tools.entry(
        "tax__rate"
    )
    assert entry is not None
    assert entry.source == "skills"


@pytest.mark.spec("SK-02")
@in_virtual_time
async def test_words_change_while_it_runs_and_code_never_does(house: House, tmp_path: Path) -> None:
    """Neither what was loaded nor what comes along afterwards is run, however it was added."""
    _add_with_code(tmp_path)
    shelf, rate = tmp_path / "added", reply(call("tax__rate", {"won": 7}))
    fee = reply(call("fee__rate", {"won": 7}))
    script = (use, rate, "one", use, rate, fee, "two")
    async with extended(house, "skills", *script, settings={"directory": str(shelf), "code": True}) as gateway:
        await gateway.ask("hi")
        write(tmp_path / "source", "tax", TAX.replace("Ask where they live.", "Ask how old they are."))
        (tmp_path / "source" / "tax" / "tools.py").write_text(CODE.replace("15.4%", "99%"))
        add(tmp_path / "source" / "tax", shelf, datetime(2026, 1, 2, tzinfo=UTC), force=True)
        write(tmp_path / "source", "fee", TAX.replace("name: tax\n", "name: fee\n"))
        (tmp_path / "source" / "fee" / "tools.py").write_text(CODE.replace("tax__rate", "fee__rate"))
        add(tmp_path / "source" / "fee", shelf, datetime(2026, 1, 2, tzinfo=UTC))
        await gateway.ask("again")
        assert "Ask how old they are." in given(gateway.seen)
        *_, again, unknown = gateway.results
        assert again.content == "15.4% of 7"
        assert (unknown.status, "there is no tool 'fee__rate' here" in unknown.content) == ("error", True)


@pytest.mark.parametrize("how", ["off", "by hand", "changed", "changed beside"])
@in_virtual_time
async def test_code_runs_only_where_it_is_wanted_and_as_it_was_added(
    house: House, tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    _add_with_code(tmp_path)
    there = tmp_path / "added" / "tax"
    if how == "by hand":
        (there / ".added.json").unlink()
    elif how == "changed":
        (there / "tools.py").write_text(CODE + f"\nopen({str(tmp_path / 'ran')!r}, 'w')\n")
    elif how == "changed beside":
        (there / "data.json").write_text("{}")
    settings = {"directory": str(tmp_path / "added"), "code": how != "off"}
    async with extended(house, "skills", use, "done", settings=settings) as gateway:
        await gateway.ask("hi")
        assert "tax__rate" not in names(gateway.provider.requests[-1].tools)
        assert given(gateway.seen) == ["Ask where they live."], "its words may be read all the same"
    assert not (tmp_path / "ran").exists()
    assert ("are not loaded" in caplog.text) == (how != "off")


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("raise SystemError('boom')", r"tax/tools.py cannot be run: SystemError: boom"),
        ("x = 1", "has no list TOOLS"),
        ("this is no Python", "cannot be run: SyntaxError"),
        (CODE.replace("tax__rate", "market__quote"), r"tax__… as its skill"),
        (CODE.replace("tax__rate", "taxes__rate"), r"tax__… as its skill"),
    ],
)
@in_virtual_time
async def test_code_that_does_not_work_stops_the_start_and_is_named(
    house: House, tmp_path: Path, code: str, why: str
) -> None:
    _add_with_code(tmp_path, code)
    with pytest.raises(Exception, match=why):
        async with extended(house, "skills", settings={"directory": str(tmp_path / "added"), "code": True}):
            raise AssertionError("it started")


def _add_with_code(tmp_path: Path, code: str = CODE) -> None:
    write(tmp_path / "source", "tax", TAX)
    (tmp_path / "source" / "tax" / "tools.py").write_text(code, encoding="utf-8")
    add(tmp_path / "source" / "tax", tmp_path / "added", datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize("point", ["tools:started", "tools:ended", "results:after_commit"])
@in_virtual_time
async def test_a_turn_that_resumes_is_given_what_it_had_asked_for(house: House, shelf: Path, point: str) -> None:
    agent = AgentSettings(extensions=(ExtensionRef("skills", {"directory": str(shelf)}),))
    await crash(house, point, use, agent=agent)
    async with house.open("done", agent=agent) as gateway:
        await gateway.app.idle()
        assert gateway.said == ["done"]
        assert given(gateway.seen) == ["Ask where they live."]
        assert violations(gateway.seen, "anthropic") == ()


@in_virtual_time
async def test_what_does_not_fit_any_more_is_said_to_the_model(house: House, shelf: Path) -> None:
    settings = {"directory": str(shelf), "most": 20}
    async with extended(house, "skills", use, "ok", settings=settings) as gateway:
        await gateway.ask("bond")
        assert given(gateway.seen) == ["Mind the rate."]
        assert "does not fit" in gateway.results[-1].content


@in_virtual_time
async def test_what_is_hostile_in_the_directory_harms_nobody(
    house: House, shelf: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, "outside", TAX.replace("name: tax", "name: outside"))
    (shelf / "outside").symlink_to(tmp_path / "outside")
    (shelf / "leak").mkdir()
    (shelf / "leak" / "SKILL.md").symlink_to(tmp_path / "outside" / "SKILL.md")
    (shelf / "leak.md").symlink_to(tmp_path / "outside" / "SKILL.md")
    (shelf / "pipe").mkdir()
    os.mkfifo(shelf / "pipe" / "SKILL.md")
    (shelf / "huge").mkdir()
    with (shelf / "huge" / "SKILL.md").open("w") as file:
        file.truncate(1 << 40)
    (shelf / os.fsdecode(b"\xff")).mkdir()
    write(shelf, "evil", "---\nname: evil\ndescription: *x\n---\nx")
    write(shelf, ".hidden", TAX.replace("name: tax", "name: hidden"))
    async with extended(house, "skills", "a", settings={"directory": str(shelf)}) as gateway:
        await gateway.ask("hi")
        assert listed(gateway) == ["bonds", "tax"]
        assert given(gateway.seen) == []
    told = [record.getMessage() for record in caplog.records if "is not given" in record.getMessage()]
    assert len(told) == 4
    assert {line.split()[2] for line in told} == {"evil", "huge", "leak", "pipe"}


@in_virtual_time
async def test_an_enabled_skill_that_is_not_there_is_said_at_the_start(
    house: House, shelf: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with extended(house, "skills", "a", settings={"directory": str(shelf), "enabled": ["taxes"]}):
        pass
    assert "the skill taxes is enabled, and there is none" in caplog.text


def test_the_note_says_whose_words_they_are(house: House, shelf: Path) -> None:
    async def walk() -> Message:
        async with extended(house, "skills", "a", settings={"directory": str(shelf)}) as gateway:
            await gateway.ask("/tax 5")
            return gateway.seen[-1]

    note = house.clock.run(walk())
    assert note.role == "system"
    assert note.text.startswith("[The skill tax, installed by whoever runs this gateway; the person asked for it")
