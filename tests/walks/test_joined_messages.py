"""Messages that another's turn has taken in, when they are edited or deleted, or when that turn does not end well."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.walks.house import House, in_virtual_time
from tests.walks.joining import LOOK, STEER, change, slowly, write
from tests.walks.tools import Desk

from finclaw.errors import BadRequest
from finclaw.gateway import StopRequest
from finclaw.kernel.envelope import Capabilities, QueueMode
from finclaw.kernel.event import Event, MessageEnded
from finclaw.sessions.settings import QueueSettings, SessionSettings
from finclaw.testing import call, crash_at, delay, fails, reply, say

LONG = "\n\n".join(f"Paragraph {n} of a long answer. " + "x" * 900 for n in range(3))
BOTH = reply(delay(5), say("both"))


@pytest.fixture(params=["sqlite", "jsonl"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> House:
    return House(tmp_path, kind=request.param)


@in_virtual_time
async def test_an_edit_of_a_message_that_has_joined_is_an_input_of_its_own(house: House) -> None:
    desk, ends = Desk(), list[tuple[str, str]]()

    def observe(event: Event) -> None:
        if isinstance(event, MessageEnded):
            ends.append((event.inbound_id, event.outcome))

    async with house.open(LOOK, BOTH, "anew", tools=[desk.tool("look", slowly)], sessions=STEER) as gateway:
        gateway.app.observe(observe)
        host, later = await write(gateway, "AAPL?"), await write(gateway, "and in won")
        await asyncio.sleep(10)
        edit = await change(gateway, "edit", "and in won", "and in yen")
        outcomes = [await gateway.outcome(each) for each in (host, later, edit)]
        await gateway.app.idle()
        assert [(each.kind, each.reply) for each in outcomes] == [
            ("answered", "both"),
            ("joined", None),
            ("answered", "anew"),
        ]
        assert gateway.said == ["both", "anew"]
        assert [each.text for each in gateway.seen if each.role == "user"][-1] == "and in yen"
        assert sorted(ends) == [(host.id, "answered"), (later.id, "joined"), (edit.id, "answered")]


@in_virtual_time
async def test_a_deletion_of_a_message_that_has_joined_comes_too_late(house: House) -> None:
    desk = Desk()
    async with house.open(LOOK, BOTH, tools=[desk.tool("look", slowly)], sessions=STEER) as gateway:
        host, later = await write(gateway, "AAPL?"), await write(gateway, "and in won")
        await asyncio.sleep(10)
        gone = await change(gateway, "delete", "and in won")
        outcomes = [await gateway.outcome(each) for each in (host, later, gone)]
        await gateway.app.idle()
        assert [each.kind for each in outcomes] == ["answered", "joined", "skipped"]
        assert outcomes[2].reason == "delete of message and in won: its turn has begun or is over"
        assert gateway.said == ["both"]


@pytest.mark.parametrize("kind", ["edit", "delete"])
@in_virtual_time
async def test_after_a_restart_it_is_still_part_of_the_turn(house: House, kind: str) -> None:
    desk = Desk()
    tools = [desk.tool("look", slowly)]
    again = reply(call("look", {"text": "MSFT"}, id="c2"))
    async with house.open(LOOK, again, tools=tools, sessions=STEER) as gateway:
        host, later = await write(gateway, "AAPL?"), await write(gateway, "and in won")
        await asyncio.sleep(12)
        house.troubles["release"] = [RuntimeError("the process is dead")]
    house.troubles.clear()
    async with house.open(BOTH, "anew", tools=tools, sessions=STEER) as gateway:
        await asyncio.sleep(1)
        changed = await change(gateway, kind, "and in won", "and in yen" if kind == "edit" else "")
        found = [(await gateway.outcome(each)).kind for each in (host, later, changed)]
        await gateway.app.idle()
        assert found == ["answered", "joined", "answered" if kind == "edit" else "skipped"]
        assert gateway.said == ["both", "anew"][: 2 if kind == "edit" else 1]


@in_virtual_time
async def test_it_fails_for_the_reason_of_the_turn(house: House) -> None:
    desk = Desk()
    again = reply(call("look", {"text": "MSFT"}, id="c2"))
    script = (LOOK, again, fails(BadRequest("no")))
    async with house.open(*script, tools=[desk.tool("look", slowly)], sessions=STEER) as gateway:
        host, later = await write(gateway, "AAPL?"), await write(gateway, "and in won")
        first, second = [await gateway.outcome(each) for each in (host, later)]
        assert (first.kind, second.kind) == ("failed", "failed")
        assert second.reason == first.reason


@in_virtual_time
async def test_a_stop_while_it_is_being_taken_in_leaves_it_its_own_turn(house: House) -> None:
    desk = Desk()
    async with house.open(LOOK, "by itself", tools=[desk.tool("look", slowly)], sessions=STEER) as gateway:
        host, later = await write(gateway, "AAPL?"), await write(gateway, "and in won")
        with crash_at("join:before_commit", 1, lambda _: gateway.app.stop_message(host.id)):
            await asyncio.sleep(10)
        found = await asyncio.wait_for(asyncio.gather(*map(gateway.outcome, (host, later))), 60)
        assert [each.kind for each in found] == ["stopped", "answered"]
        words = [each.text for each in await gateway.app.messages(host.session) if each.role == "user"]
        assert words == ["AAPL?", "and in won"], "each once, and in order"


@in_virtual_time
async def test_those_that_an_interrupting_message_has_passed_keep_their_order_and_may_join(house: House) -> None:
    desk = Desk()
    script = (reply(delay(60), say("never")), LOOK, "interrupting", "all of the rest")
    async with house.open(*script, tools=[desk.tool("look", slowly)], sessions=STEER) as gateway:
        asked = [await write(gateway, text) for text in ("one", "two", "three", "/queue interrupt four", "five")]
        found = await asyncio.wait_for(asyncio.gather(*map(gateway.outcome, asked)), 300)
        words = [each.text for each in await gateway.app.messages(asked[0].session) if each.role == "user"]
        assert words == ["one", "four", "five", "two", "three"]
        assert [each.kind for each in found] == ["stopped", "joined", "answered", "answered", "joined"]
        assert gateway.said[-2:] == ["interrupting", "all of the rest"]


PART = "The first part of the answer to both. " * 8
IN_BLOCKS = Capabilities(blocks=True)


@in_virtual_time
async def test_after_a_restart_an_answer_that_has_begun_covers_it(house: House) -> None:
    desk = Desk()
    tools = [desk.tool("look", slowly)]
    begun = reply(say(PART), delay(60), say("never"))
    async with house.open(LOOK, begun, tools=tools, sessions=STEER, capabilities=IN_BLOCKS) as gateway:
        host, later = await write(gateway, "AAPL?"), await write(gateway, "and in won")
        await gateway.channel.until_sent(1)
        house.troubles["release"] = [RuntimeError("the process is dead")]
    house.troubles.clear()
    async with house.open("And its end.", "twice", tools=tools, sessions=STEER, capabilities=IN_BLOCKS) as gateway:
        found = [(await gateway.outcome(each)).kind for each in (host, later)]
        await gateway.app.idle()
        assert found == ["answered", "joined"]
        assert gateway.said == ["And its end."]
        words = [each.text for each in await gateway.app.messages(host.session) if each.role == "user"]
        assert words == ["AAPL?", "and in won"]


@in_virtual_time
async def test_an_interruption_ends_it_with_the_answer_that_has_begun(house: House) -> None:
    desk = Desk()
    tools = [desk.tool("look", slowly)]
    begun = reply(say(PART), delay(60), say("never"))
    async with house.open(LOOK, begun, "new", tools=tools, sessions=STEER, capabilities=IN_BLOCKS) as gateway:
        host, later = await write(gateway, "AAPL?"), await write(gateway, "and in won")
        await gateway.channel.until_sent(1)
        newer = await write(gateway, "/queue interrupt no, MSFT")
        found = [(await gateway.outcome(each)).kind for each in (host, later, newer)]
        await gateway.app.idle()
        assert found == ["stopped", "stopped", "answered"]
        words = [each.text for each in await gateway.app.messages(host.session) if each.role == "user"]
        assert words == ["AAPL?", "and in won", "no, MSFT"]


# ── stops ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("R-06")
@pytest.mark.parametrize(("mode", "kinds"), [("steer", ["answered", "joined"]), ("collect", ["joined", "answered"])])
@in_virtual_time
async def test_a_stop_while_the_answer_is_being_committed_comes_too_late_for_all_that_it_covers(
    house: House, mode: QueueMode, kinds: list[str]
) -> None:
    desk, committed = Desk(), asyncio.Event()
    house.held["finish"] = committed
    sessions = SessionSettings(queue=QueueSettings(mode=mode))
    parts: dict[str, Any] = {"tools": [desk.tool("look", slowly)], "capabilities": Capabilities(max_length=1_000)}
    async with house.open(reply(delay(5), say("first")), LOOK, LONG, "next", sessions=sessions, **parts) as gateway:
        committed.set()
        first = await write(gateway, "/queue followup hello")
        if mode == "steer":
            await gateway.app.idle()
        host, later = await write(gateway, "AAPL?"), await write(gateway, "and in won")
        await gateway.outcome(first)
        committed.clear()
        gateway.channel.hold_sends()
        await asyncio.sleep(20)
        stop = await gateway.channel.write("/stop")
        await asyncio.sleep(0.3)
        committed.set()
        found = [await gateway.outcome(each) for each in (host, later, stop)]
        gateway.channel.release_sends()
        await gateway.app.idle()
        assert [each.kind for each in found] == [*kinds, "command"]
        first_part, told = gateway.said[1:]
        assert first_part.startswith("Paragraph 0"), "it was being sent"
        assert told == "Stopped: the rest of the answer is not sent."
        ends = [event.outcome for event in gateway.events if isinstance(event, MessageEnded)]
        assert sorted(ends) == sorted(["answered", *kinds, "command"]), "observers hear the same"
        assert (await gateway.ask("and now?")).reply == "next"
        words = [each.text for each in await gateway.app.messages(host.session) if each.role == "user"]
        assert words[1:] == ["AAPL?", "and in won", "and now?"], "each once, and in order"


@pytest.mark.parametrize("seen", [True, False])
@pytest.mark.parametrize("only", [True, False])
@in_virtual_time
async def test_a_stop_ends_the_turn_and_all_that_have_joined_it(house: House, seen: bool, only: bool) -> None:
    """Also those that the model has not seen, which the turn gives back to their lane."""
    desk, left = Desk(), house.state.with_name(f"{house.state.name}-left")
    slow = reply(call("look", {"text": "MSFT"}, id="c2"))
    script = (LOOK, slow if seen else reply(delay(60), say("never")))
    async with house.open(*script, tools=[desk.tool("look", slowly)], sessions=STEER) as gateway:
        host, later = await write(gateway, "AAPL?"), await write(gateway, "and in won")
        await asyncio.sleep(12)
        assert [each.state for each in gateway.app.queue(host.session)] == ["running", "joined"]
        with crash_at("stop:after_commit", 2 if only else 1, lambda _: shutil.copytree(house.state, left)):
            if only:
                request = StopRequest(session=host.session, reason="stopped", only=later.id, told=False)
                await gateway.app.stop_session(request)
            else:
                await gateway.ask("/stop")
        await asyncio.sleep(0.5)
        assert gateway.said == ["Stopped."]
        assert [(await gateway.outcome(each)).kind for each in (host, later)] == ["stopped", "stopped"]
        await asyncio.sleep(100)
        assert gateway.said == ["Stopped."]
    async with House(left, clock=house.clock, kind=house.kind).open() as gateway:
        await gateway.app.idle()
        assert [(await gateway.outcome(each)).kind for each in (host, later)] == ["stopped", "stopped"]
        assert gateway.provider.requests == [], "it holds after a crash"
        assert gateway.said == ["Stopped."]


@in_virtual_time
async def test_after_a_restart_a_stop_during_the_commit_of_the_answer_comes_too_late_too(house: House) -> None:
    desk, committed = Desk(), asyncio.Event()
    tools = [desk.tool("look", slowly)]
    again = reply(call("look", {"text": "MSFT"}, id="c2"))
    async with house.open(LOOK, again, tools=tools, sessions=STEER) as gateway:
        host, later = await write(gateway, "AAPL?"), await write(gateway, "and in won")
        await asyncio.sleep(12)
        house.troubles["release"] = [RuntimeError("the process is dead")]
    house.troubles.clear()
    house.held["finish"] = committed
    async with house.open("both", tools=tools, sessions=STEER) as gateway:
        await asyncio.sleep(20)
        stop = await gateway.channel.write("/stop")
        await asyncio.sleep(0.3)
        committed.set()
        assert [(await gateway.outcome(each)).kind for each in (host, later, stop)] == ["answered", "joined", "command"]
        await gateway.app.idle()
        assert gateway.said == ["both", "There is nothing to stop here."]


@in_virtual_time
async def test_one_that_is_being_taken_out_of_the_line_joins_no_turn_any_more(house: House) -> None:
    desk, committed = Desk(), asyncio.Event()
    house.held["end"] = committed
    async with house.open(LOOK, "one", tools=[desk.tool("look", slowly)], sessions=STEER) as gateway:
        host, later = await write(gateway, "AAPL?"), await write(gateway, "and in won")
        gone = await change(gateway, "delete", "and in won")
        await asyncio.sleep(20)
        committed.set()
        found = [(await gateway.outcome(each)).kind for each in (host, later, gone)]
        await gateway.app.idle()
        assert found == ["answered", "stopped", "skipped"]
        words = [each.text for each in await gateway.app.messages(host.session) if each.role == "user"]
        assert words == ["AAPL?"]
        assert "one" in gateway.said
