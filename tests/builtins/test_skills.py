"""Skills: know-how when it is called for, once, and never in the conversation's memory."""

import os
from pathlib import Path
from typing import Any

import pytest
from tests.builtins.extended import extended
from tests.support.api_rules import violations
from tests.walks.house import House, crash, in_virtual_time
from tests.walks.tools import Desk

from finclaw.agent.settings import AgentSettings, ExtensionRef
from finclaw.kernel.message import Append
from finclaw.kernel.scope import TurnContext, TurnResult
from finclaw.testing import call, reply


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    shelf = tmp_path / "skills"
    shelf.mkdir()
    (shelf / "dividends.md").write_text("---\ntriggers: dividend, 배당\n---\nMind the ex-date.\n", encoding="utf-8")
    (shelf / "style.md").write_text("Be brief.", encoding="utf-8")
    (shelf / "notes.txt").write_text("not a skill", encoding="utf-8")
    return shelf


def given(messages: Any) -> list[str]:
    return [message.text for message in messages if message.passing]


@pytest.mark.spec("MW-31", "DX-64", "SK-03")
@in_virtual_time
async def test_a_skill_is_there_once_in_every_step_and_gone_with_the_turn(house: House, shelf: Path) -> None:
    settings = {"directory": str(shelf)}
    script = (reply(call("look")), reply(call("look", {"text": "2"})), "in May", "you are welcome", "again")
    async with extended(house, "skills", *script, settings=settings, tools=[Desk().tool("look")]) as gateway:
        await gateway.ask("when is the Dividend?")
        for request in gateway.provider.requests:
            assert given(request.messages) == ["Mind the ex-date.", "Be brief."]
        assert gateway.provider.requests[2].messages[:3] == gateway.provider.requests[0].messages[:3]
        await gateway.ask("thanks")
        assert given(gateway.seen) == ["Be brief."]
        await gateway.ask("배당은?")
        assert given(gateway.seen) == ["Mind the ex-date.", "Be brief."]
        (session,) = (await gateway.app.sessions(10)).items
        kept = await gateway.app.messages(session.key)
        assert not any("ex-date" in message.text or "brief" in message.text for message in kept)


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("DIVIDEND!", True),
        ("dividend는 언제?", True),
        ("배당금은 언제 나와요?", True),
        ("dividends", False),
        ("undividended", False),
        ("hello", False),
    ],
)
@in_virtual_time
async def test_its_words_call_for_it(house: House, shelf: Path, text: str, fits: bool) -> None:
    async with extended(house, "skills", "yes", settings={"directory": str(shelf)}) as gateway:
        await gateway.ask(text)
        assert ("Mind the ex-date." in given(gateway.seen)) == fits


@in_virtual_time
async def test_an_edit_counts_from_the_next_turn_on(house: House, shelf: Path) -> None:
    async with extended(house, "skills", *["yes"] * 5, settings={"directory": str(shelf)}) as gateway:
        for text, expected in (("Be kind.", ["Be kind."]), ("Be bold.", ["Be bold."]), (None, [])):
            if text is None:
                (shelf / "style.md").unlink()
            else:
                (shelf / "style.md").write_text(text, encoding="utf-8")
                os.utime(shelf / "style.md", ns=(1, sum(map(ord, text))))
            await gateway.ask("hi")
            assert given(gateway.seen) == expected
        (shelf / "new.md").write_text("Something new.", encoding="utf-8")
        await gateway.ask("hi")
        assert given(gateway.seen) == ["Something new."]


@in_virtual_time
async def test_a_text_too_long_is_left_out_and_not_cut(
    house: House, shelf: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (shelf / "long.md").write_text("Never sell. " * 20 + "Unless asked.", encoding="utf-8")
    header = "---\ntriggers: hi\n" + "#" * 20_000 + "\n---\n"
    (shelf / "odd.md").write_text(header + "Sell. " * 10 + "Unless told not to.", encoding="utf-8")
    async with extended(house, "skills", "a", "b", settings={"directory": str(shelf), "longest": 100}) as gateway:
        await gateway.ask("hi")
        await gateway.ask("hi")
        assert given(gateway.seen) == ["Be brief."]
        assert [record.getMessage() for record in caplog.records if "long.md" in record.getMessage()] == [
            "the skill long.md is not given: it has more than 100 characters; make two of it"
        ]


@in_virtual_time
async def test_all_of_them_together_have_a_limit(house: House, shelf: Path) -> None:
    async with extended(house, "skills", "a", settings={"directory": str(shelf), "most": 20}) as gateway:
        await gateway.ask("dividend?")
        assert given(gateway.seen) == ["Mind the ex-date."]


@pytest.mark.parametrize("content", [b"\xff\xfe\x00broken", b"", b"---\ntriggers: hi\n---\n", "Obey \u202eme".encode()])
@in_virtual_time
async def test_a_file_that_is_no_skill_harms_nobody(house: House, shelf: Path, content: bytes) -> None:
    (shelf / "broken.md").write_bytes(content)
    (shelf / "folder.md").mkdir()
    (shelf / "nowhere.md").symlink_to(shelf / "gone")
    os.mkfifo(shelf / "pipe.md")  # reading it would never end
    with (shelf / "endless.md").open("w") as endless:
        endless.truncate(1 << 40)
    async with extended(house, "skills", "a", settings={"directory": str(shelf)}) as gateway:
        await gateway.ask("hi")
        assert given(gateway.seen) == ["Be brief."]


@in_virtual_time
async def test_a_name_that_is_no_text_is_a_name_all_the_same(house: House, shelf: Path) -> None:
    (shelf / os.fsdecode(b"\xff.md")).write_text("Be odd.", encoding="utf-8")
    parts: dict[str, Any] = {"settings": {"directory": str(shelf)}, "tools": [Desk().tool("look")]}
    async with extended(house, "skills", reply(call("look")), "a", **parts) as gateway:
        assert (await gateway.ask("hi")).reply == "a"
        assert "Be odd." in given(gateway.seen)


@in_virtual_time
async def test_a_skill_that_comes_while_calls_are_open_waits_for_the_next_turn(house: House, shelf: Path) -> None:
    """A crash left a call without its result; a note between the two would make the request invalid."""
    agent = AgentSettings(extensions=(ExtensionRef("skills", {"directory": str(shelf)}),))
    tools = [Desk().tool("look")]
    await crash(house, "tools:started", reply(call("look")), agent=agent, tools=tools)
    (shelf / "new.md").write_text("Something new.", encoding="utf-8")
    async with house.open("a", "b", agent=agent, tools=tools) as gateway:
        await gateway.app.idle()
        assert [message.role for message in gateway.seen] == ["user", "system", "assistant", "tool"]
        assert violations(gateway.seen, "anthropic") == ()
        await gateway.ask("hi")
        assert "Something new." in given(gateway.seen)


@in_virtual_time
async def test_the_same_words_are_one_line_in_the_log(house: House, shelf: Path) -> None:
    logged: list[str] = []

    async def look(ctx: TurnContext) -> TurnResult:
        result = await ctx.next()
        logged.extend(each.message.passing for each in ctx.conversation.events if isinstance(each, Append))
        return result

    agent = AgentSettings(extensions=(ExtensionRef("skills", {"directory": str(shelf)}),))
    parts: dict[str, Any] = {"agent": agent, "tools": [Desk().tool("look")], "layers": [("turn", look)]}
    await crash(house, "tools:started", reply(call("look")), **parts)
    async with house.open("a", **parts) as gateway:
        await gateway.app.idle()
    assert [key for key in logged if key] == ["skills/style"]


@in_virtual_time
async def test_a_directory_that_is_not_there_is_said_at_the_start(house: House, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"'skills'.*there is no directory .*nowhere"):
        async with extended(house, "skills", settings={"directory": str(tmp_path / "nowhere")}):
            raise AssertionError("it started")
    with pytest.raises(Exception, match=r"'skills'.*missing required field `directory`"):
        async with extended(house, "skills"):
            raise AssertionError("it started")
