"""Steering: what a person writes while they are being answered reaches the running turn, and is answered once."""

import asyncio
from pathlib import Path

import pytest
from tests.walks.house import A_TURN_EACH, Gateway, House, Parts, in_virtual_time
from tests.walks.joining import LOOK, STEER, change, slowly, write
from tests.walks.tools import Desk

from finclaw.agent.settings import AgentSettings
from finclaw.cli.commands.replay import replay
from finclaw.config.schema import Settings
from finclaw.diagnostics.crash_points import JOIN_CRASH_POINTS
from finclaw.errors import BadRequest
from finclaw.kernel.record import Accepted, TurnTrace
from finclaw.testing import call, crash_at, delay, fails, reply


@pytest.fixture(params=["sqlite", "jsonl"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> House:
    return House(tmp_path, kind=request.param)


async def kinds(gateway: Gateway, *messages: Accepted) -> list[str]:
    found = [(await gateway.outcome(each)).kind for each in messages]
    await gateway.app.idle()
    return found


@in_virtual_time
async def test_a_message_during_a_tool_reaches_the_model_with_its_result(house: House) -> None:
    desk = Desk()
    async with house.open(LOOK, "both", "alone", tools=[desk.tool("look", slowly)], sessions=STEER) as gateway:
        host = await write(gateway, "AAPL?")
        later = await write(gateway, "and in won")
        assert await kinds(gateway, host, later) == ["answered", "joined"]
        assert gateway.said == ["both"]
        assert [each.text for each in gateway.seen] == ["AAPL?", "", "", "and in won"]
        assert [each.content for each in gateway.results] == ["looked at AAPL"], "what runs finishes"
        joined = await gateway.outcome(later)
        assert host.id in joined.reason
        assert joined.turn_id == (await gateway.outcome(host)).turn_id
        assert (await gateway.ask("next")).reply == "alone"
        assert [each.text for each in gateway.seen][-3:] == ["and in won", "both", "next"]


@in_virtual_time
async def test_a_message_before_a_tool_starts_voids_the_call_and_the_model_is_asked_anew(house: House) -> None:
    desk = Desk()
    pay, look = desk.tool("pay", transactional=True), desk.tool("look")
    plans = reply(delay(5), call("look", id="c1"), call("pay", {"text": "100"}, id="c2"))

    async def agree(*_: object) -> bool:
        return True

    async with house.open(plans, "not paid", tools=[pay, look], sessions=STEER, consent=agree) as gateway:
        host = await write(gateway, "pay 100")
        later = await write(gateway, "no, do not")
        assert await kinds(gateway, host, later) == ["answered", "joined"]
        assert desk.runs == []
        assert [(each.status, each.content) for each in gateway.results] == [("skipped", "skipped: new message")] * 2
        assert gateway.seen[-1].text == "no, do not"
        assert gateway.said == ["not paid"]


@in_virtual_time
async def test_between_two_calls_one_after_the_other_the_second_does_not_start(house: House) -> None:
    desk = Desk()
    tools = [desk.tool("look", slowly, parallel_safe=False)]
    plans = reply(call("look", {"text": "A"}, id="c1"), call("look", {"text": "B"}, id="c2"))
    async with house.open(plans, "ok", tools=tools, sessions=STEER) as gateway:
        host = await write(gateway, "A and B")
        later = await write(gateway, "only A")
        assert await kinds(gateway, host, later) == ["answered", "joined"]
        assert [each.content for each in gateway.results] == ["looked at A", "skipped: new message"]


@in_virtual_time
async def test_what_comes_during_the_final_text_has_a_turn_of_its_own(house: House) -> None:
    async with house.open(reply(delay(5), "first"), "second", sessions=STEER) as gateway:
        host, later = await write(gateway, "one"), await write(gateway, "two")
        assert await kinds(gateway, host, later) == ["answered", "answered"]
        assert gateway.said == ["first", "second"]


@in_virtual_time
async def test_who_follows_up_waits_for_their_turn(house: House) -> None:
    desk = Desk()
    async with house.open(LOOK, "first", "second", tools=[desk.tool("look", slowly)], sessions=A_TURN_EACH) as gateway:
        host, later = await write(gateway, "one"), await write(gateway, "two")
        assert await kinds(gateway, host, later) == ["answered", "answered"]
        assert gateway.said == ["first", "second"]


@in_virtual_time
async def test_nobody_steers_somebody_elses_turn_and_nobody_is_overtaken(house: House) -> None:
    desk = Desk()
    tools = [desk.tool("look", slowly)]
    async with house.open(LOOK, "one", "two", "three", tools=tools, sessions=STEER) as gateway:
        fields = {"chat_type": "group", "conversation": "room"}

        async def say(text: str, sender: str) -> Accepted:
            accepted = await gateway.channel.write(text, sender=sender, mentions_us=True, **fields)
            await asyncio.sleep(1)
            return accepted

        said = [await say("ada asks", "ada"), await say("grace asks", "grace"), await say("ada again", "ada")]
        assert len({each.session for each in said}) == 1
        assert await kinds(gateway, *said) == ["answered", "answered", "answered"]
        assert gateway.said == ["one", "two", "three"]


@in_virtual_time
async def test_a_turn_that_fails_before_the_model_saw_it_gives_the_message_back(house: House) -> None:
    desk = Desk()
    script = (LOOK, fails(BadRequest("no")), "second", "third")
    async with house.open(*script, tools=[desk.tool("look", slowly)], sessions=STEER) as gateway:
        host, later, last = [await write(gateway, text) for text in ("one", "two", "three")]
        assert await kinds(gateway, host, later, last) == ["failed", "answered", "answered"]
        assert gateway.said[1:] == ["second", "third"]
        texts = [each.text for each in await gateway.app.messages(host.session) if each.role == "user"]
        assert texts == ["one", "two", "three"], "each once, and in order"


@in_virtual_time
async def test_one_that_is_stopped_by_the_person_is_stopped_with_the_turn_that_it_has_joined(house: House) -> None:
    desk = Desk()
    slow = reply(delay(20), "late")
    async with house.open(LOOK, slow, tools=[desk.tool("look", slowly)], sessions=STEER) as gateway:
        host, later = await write(gateway, "one"), await write(gateway, "two")
        await asyncio.sleep(12)
        assert gateway.app.stop_message(later.id)
        assert await kinds(gateway, host, later) == ["stopped", "stopped"]
        assert gateway.said == ["Stopped."]


@pytest.mark.parametrize("point", JOIN_CRASH_POINTS)
@in_virtual_time
async def test_one_that_joins_in_the_moment_of_a_stop_has_a_turn_of_its_own(house: House, point: str) -> None:
    desk = Desk()
    async with house.open(LOOK, "second", "third", tools=[desk.tool("look", slowly)], sessions=STEER) as gateway:
        host, later, last = [await write(gateway, text) for text in ("one", "two", "three")]
        with crash_at(point, 1, lambda _: gateway.app.stop_message(host.id)):
            assert await kinds(gateway, host) == ["stopped"]
            found = [await gateway.app.wait(each.id, 60) for each in (later, last)]
        ends = [each.outcome.kind for each in found if each and each.outcome]
        shared = ends == ["joined", "answered"]  # by the last, where the stop came before it was taken
        assert shared or ends == ["answered", "answered"]
        assert gateway.said[1:] == (["second"] if shared else ["second", "third"])
        texts = [each.text for each in await gateway.app.messages(host.session) if each.source.kind == "user"]
        assert texts == ["one", "two", "three"], "each once, and in order"


@in_virtual_time
async def test_nobody_joins_past_those_whom_a_failed_turn_gave_back(house: House) -> None:
    desk = Desk()
    script = (LOOK, reply(delay(5), fault=BadRequest("no")), "second", "third and fourth")
    async with house.open(*script, tools=[desk.tool("look", slowly)], sessions=STEER) as gateway:
        host, later, last = [await write(gateway, text) for text in ("one", "two", "three")]
        await asyncio.sleep(9)
        newest = await write(gateway, "four")
        states = [each.state for each in gateway.app.queue(host.session)]
        assert states == ["running", "joined", "joined", "waiting"]
        assert await kinds(gateway, host, later, last, newest) == ["failed", "answered", "joined", "answered"]
        assert gateway.said[1:] == ["second", "third and fourth"]
        texts = [each.text for each in await gateway.app.messages(host.session) if each.source.kind == "user"]
        assert texts == ["one", "two", "three", "four"]


@pytest.mark.parametrize("how", ["clear", "delete"])
@in_virtual_time
async def test_one_that_a_failed_turn_gave_back_waits_again_and_can_be_taken_out(house: House, how: str) -> None:
    desk = Desk()
    script = (LOOK, fails(BadRequest("no")), reply(delay(30), "second"))
    async with house.open(*script, tools=[desk.tool("look", slowly)], sessions=STEER) as gateway:
        host, later, last = [await write(gateway, text) for text in ("one", "two", "three")]
        await asyncio.sleep(9)
        assert [each.state for each in gateway.app.queue(host.session)] == ["running", "waiting"]
        if how == "clear":
            assert gateway.app.clear_queue(host.session) == 1
        else:
            await change(gateway, "delete", "three")
        assert await kinds(gateway, host, later, last) == ["failed", "answered", "stopped"]


# ── restarts ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("good_order", [True, False])
@in_virtual_time
async def test_after_a_restart_what_the_model_has_seen_is_answered_with_the_turn(
    house: House, good_order: bool
) -> None:
    desk = Desk()
    tools = [desk.tool("look", slowly)]
    again = reply(call("look", {"text": "MSFT"}, id="c2"))
    async with house.open(LOOK, again, tools=tools, sessions=STEER) as gateway:
        host, later = await write(gateway, "one"), await write(gateway, "two")
        await asyncio.sleep(12)
        assert len(desk.runs) == 2, "the model has read the second"
        unseen = await write(gateway, "three")
        if not good_order:
            house.troubles["release"] = [RuntimeError("the process is dead")]
    house.troubles.clear()
    async with house.open("all of it", "and the third", tools=tools, sessions=STEER) as gateway:
        assert await kinds(gateway, host, later, unseen) == ["answered", "joined", "answered"]
        assert gateway.said == ["all of it", "and the third"]
        assert [each.text for each in await gateway.app.messages(host.session) if each.role == "user"] == [
            "one",
            "two",
            "three",
        ]


@in_virtual_time
async def test_after_a_crash_what_the_model_had_not_seen_is_answered_by_itself(house: House) -> None:
    desk = Desk()
    tools = [desk.tool("look", slowly)]
    async with house.open(LOOK, reply(delay(60), "never"), tools=tools, sessions=STEER) as gateway:
        host, later = await write(gateway, "one"), await write(gateway, "two")
        await asyncio.sleep(12)
        assert gateway.provider.streaming == 1, "it has joined, and the model is being asked"
        house.troubles["release"] = [RuntimeError("the process is dead")]
    house.troubles.clear()
    async with house.open("first", "second", tools=tools, sessions=STEER) as gateway:
        assert await kinds(gateway, host, later) == ["answered", "answered"]
        assert gateway.said == ["first", "second"]
        record = await gateway.app.wait(later.id, 1)
        assert record is not None
        assert record.attempts == 2, "the crash that it was in, and this"
        assert [each.text for each in await gateway.app.messages(host.session)] == [
            "one",
            "",
            "",
            "first",
            "two",
            "second",
        ]


# ── replay ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_joined_turn_is_replayed_with_all_its_messages(house: House) -> None:
    desk = Desk()

    stories: list[TurnTrace] = []

    async def record() -> None:
        async with house.open(LOOK, "both", tools=[desk.tool("look", slowly)], sessions=STEER) as gateway:
            host, later = await write(gateway, "one"), await write(gateway, "two")
            assert await kinds(gateway, host, later) == ["answered", "joined"]
            story = await gateway.app.turn(later.id)
            stories.extend([] if story is None else [story])

    house.clock.run(record())
    (story,) = stories
    assert [each.inbound.text for each in story.joined] == ["two"]
    settings = Settings(state=house.state, agent=AgentSettings(default_extensions=()))
    assert replay(settings, story, [Parts(tools=[desk.tool("look")])]) == []
