"""Which message killed the process? One that was there alone; nobody is blamed for their company."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.walks.house import Gateway, House, in_virtual_time

from finclaw.agent.settings import AgentSettings
from finclaw.delivery.notice import notice
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.record import Accepted
from finclaw.kernel.scope import MessageContext, Outcome
from finclaw.pipeline.recovery import Entry
from finclaw.storage.kinds import StoreKind, open_kind
from finclaw.storage.sqlite.database import DATABASE
from finclaw.storage.sqlite.store import open_store
from finclaw.testing import SimulatedCrash, call, delay, reply

MOST = 3
"""Tries, by the usual settings."""


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


async def after_crashes(house: House, *tries: int) -> list[Accepted]:
    """What is left of messages in conversations of their own, each on the road in so many crashes, the last included.

    A message with 0 waited in all of them.
    """
    store = open_store(house.state / DATABASE, house.clock, threaded=False)
    left: list[Accepted] = []
    for number, count in enumerate(tries):
        inbound = Inbound(channel="memory", text=f"m{number}", message_id=f"m{number}", conversation=f"c{number}")
        accepted = await store.accept(inbound, f"main:memory:local:direct:c{number}", lambda _: None)
        for _ in range(count):
            await store.claim(accepted, [], None)
        left.append(accepted)
    await store.close()
    return left


async def ends(gateway: Gateway, left: Sequence[Accepted]) -> list[Outcome]:
    found = [await gateway.outcome(each) for each in left]
    await gateway.app.idle()
    return found


@in_virtual_time
async def test_one_that_was_there_alone_is_given_up(house: House) -> None:
    left = await after_crashes(house, MOST, 0, 0)
    async with house.open("1", "2") as gateway:
        assert [each.kind for each in await ends(gateway, left)] == ["failed", "answered", "answered"]
        assert gateway.said.count(notice("poison", Inbound(text="m0")).text) == 1


@pytest.mark.parametrize("others", [(1,), (MOST,), (MOST, MOST, 1)])
@in_virtual_time
async def test_one_that_died_with_others_is_tried_alone(house: House, others: tuple[int, ...]) -> None:
    left = await after_crashes(house, MOST, *others, 0)
    together: list[tuple[str, int]] = []
    async with house.open(*[reply(delay(1.0), "ok") for _ in left]) as gateway:
        finished = asyncio.ensure_future(ends(gateway, left))
        while not finished.done():
            asked = [each.messages[-1].text for each in gateway.provider.requests]
            together.append((asked[-1] if asked else "", gateway.provider.streaming))
            await house.clock.sleep(0.1)
        assert [each.kind for each in await finished] == ["answered"] * len(left)
    suspects = {f"m{number}" for number, tries in enumerate((MOST, *others)) if tries >= MOST}
    assert suspects <= {asked for asked, _ in together}
    assert max(streaming for asked, streaming in together if asked in suspects) == 1


@in_virtual_time
async def test_it_is_found_guilty_by_its_next_death(house: House) -> None:
    left = await after_crashes(house, MOST, MOST)
    async with house.open(reply(delay(60.0), "late")) as gateway:
        while not gateway.provider.streaming:
            await house.clock.sleep(0.1)
        (running,) = [each for each in left if each.inbound.text == gateway.seen[-1].text]
        await leave_as_a_crash_does(house)
    async with house.open("ok") as gateway:
        kinds = {each.id: outcome.kind for each, outcome in zip(left, await ends(gateway, left), strict=True)}
    assert kinds == {each.id: "failed" if each == running else "answered" for each in left}


@in_virtual_time
async def test_crashes_count_for_the_turn_that_ran_and_not_for_who_waited_behind_it(house: House) -> None:
    """The second was taken up, passed the first stages and waited in its lane in each of the crashes."""
    left: list[Accepted] = []
    for life in range(MOST):
        async with house.open(reply(delay(60.0), "late")) as gateway:
            if life == 0:
                left = [await gateway.channel.write(text, message_id=text) for text in ("kills", "waits")]
            while not gateway.provider.streaming:
                await house.clock.sleep(0.1)
            await house.clock.sleep(2.0)
            await leave_as_a_crash_does(house)
    async with house.open("ok") as gateway:
        records = [await gateway.app.wait(each.id, 60) for each in left]
        ended = [(each.outcome.kind, each.attempts) for each in records if each and each.outcome]
        assert ended == [("failed", MOST + 1), ("answered", 1)], "the look at its turn is a claim too"


@in_virtual_time
async def test_one_that_kills_even_while_it_is_given_up_ends_without_a_look_at_its_turn(house: House) -> None:
    """As one does whose conversation is more than the machine can hold."""
    (left,) = await after_crashes(house, 3 * MOST)
    house.troubles["claim"] = [SimulatedCrash("a look at its turn")]
    async with house.open() as gateway:
        assert (await gateway.outcome(left)).kind == "failed"
        await gateway.app.idle()
        assert gateway.said == [notice("poison", Inbound(text="m0")).text]


@pytest.mark.parametrize(("tries", "told"), [(MOST - 1, ["By the way"]), (MOST, [])])
@in_virtual_time
async def test_what_an_extension_says_is_given_up_too_and_nobody_is_told(
    house: House, tries: int, told: list[str]
) -> None:
    store = open_store(house.state / DATABASE, house.clock, threaded=False)
    inbound = Inbound(channel="memory", text="By the way", message_id="s-1", conversation="c", from_extension="parts")
    accepted = await store.accept(inbound, "main:memory:local:direct:c", lambda _: None)
    for _ in range(tries):
        await store.nothing_runs()
        await store.mark_attempt(accepted.id)
    await store.close()
    async with house.open() as gateway:
        outcome = await gateway.outcome(accepted)
        await gateway.app.idle()
        assert (outcome.kind, gateway.said) == ("command" if told else "failed", told)


async def leave_as_a_crash_does(house: House) -> None:
    """A stop in good order puts a turn back; a crash does not."""
    house.troubles["release"] = [RuntimeError("the process is dead")]


@in_virtual_time
async def test_two_that_die_together_every_time_end_all_the_same(house: House) -> None:
    left = await after_crashes(house, 2 * MOST, 2 * MOST)
    async with house.open() as gateway:
        assert [each.kind for each in await ends(gateway, left)] == ["failed", "failed"]


@in_virtual_time
async def test_new_messages_wait_while_one_is_alone_and_are_answered_then(house: House) -> None:
    left = await after_crashes(house, MOST, 1)
    async with house.open(reply(delay(5.0), "alone"), "one", "new") as gateway:
        new = await gateway.channel.write("new")
        while not gateway.provider.requests:
            await house.clock.sleep(0.1)
        assert gateway.seen[-1].text == "m0"
        await house.clock.sleep(4.0)
        assert len(gateway.provider.requests) == 1
        assert [each.kind for each in await ends(gateway, [*left, new])] == ["answered"] * 3


@in_virtual_time
async def test_a_stop_while_one_is_alone_loses_nobody(house: House) -> None:
    left = await after_crashes(house, MOST, MOST, 1, 0)
    async with house.open(reply(delay(900.0), "never")) as gateway:
        while not gateway.provider.streaming:
            await house.clock.sleep(0.1)
    async with house.open(*["ok"] * 4) as gateway:
        assert [each.kind for each in await ends(gateway, left)] == ["answered"] * 4


@in_virtual_time
async def test_one_that_is_alone_may_have_a_helper(house: House) -> None:
    """What it delegates is a message of its own; were that kept out, each would wait for the other."""
    left = await after_crashes(house, MOST, 1)
    script = (reply(call("agent__delegate", {"task": "find out"})), "found", "done", "ok")
    async with house.open(*script, agent=AgentSettings(delegate=True)) as gateway:
        before = house.clock.monotonic()
        first, second = await ends(gateway, left)
        assert (first.reply, second.kind) == ("done", "answered")
        assert house.clock.monotonic() - before < 10


async def after_crashes_beside_a_queue(house: House, edited: int) -> tuple[list[Accepted], list[Accepted]]:
    """One message that was in three crashes, a second that ran in the last, and a queue with an edit of one of it.

    Gives the messages that must be answered, and the edit.
    """
    store = open_kind(house.kind, house.state, house.clock, lambda _: None, threaded=False)

    async def accept(name: str, conversation: str, **fields: Any) -> Accepted:
        inbound = Inbound(channel="memory", text=name, message_id=name, conversation=conversation, **fields)
        return await store.accept(inbound, f"main:memory:local:direct:{conversation}", lambda _: None)

    queue = [await accept(f"a{number}", "a") for number in (1, 2, 3)]
    beside, suspect = await accept("b1", "b"), await accept("z1", "z")
    edit = await accept("edited words", "a", kind="edit", target=f"a{edited}")
    for _ in range(MOST):
        await store.claim(suspect, [], None)
    await store.claim(beside, [], None)
    await store.close()
    return [suspect, beside, *queue], [edit]


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
@pytest.mark.parametrize("edited", [1, 2, 3])
@in_virtual_time
async def test_edit_of_waiting_message_does_not_block_an_exclusive_one(
    house: House, edited: int, kind: StoreKind
) -> None:
    """The edited message re-enters the pipeline behind the exclusive one, and its session waits for its ticket."""
    house.kind = kind
    left, edits = await after_crashes_beside_a_queue(house, edited)
    async with house.open(*[reply(delay(1.0), f"answer {number}") for number in range(8)]) as gateway:
        new = await gateway.channel.write("new", conversation="n")
        async with asyncio.timeout(60):
            outcomes = await ends(gateway, [*left, new, *edits])
        assert [each.kind for each in outcomes[:-1]] == ["answered"] * 6
        asked = [each.messages[-1].text for each in gateway.provider.requests]
        waiting = [f"a{number}" for number in (2, 3) if number != edited]
        assert [text for text in asked if text in waiting] == waiting
        assert sum("edited words" in text for text in asked) == 1


@in_virtual_time
async def test_watchdog_breaks_a_deadlock_with_an_exclusive_message(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    """A hold that is never released keeps the exclusive message out, and that one keeps out all others."""
    left = await after_crashes(house, MOST, 1, 0)
    async with house.open("1", "2", "3", "4") as gateway:
        await Entry(gateway.app.pipeline.isolation).enter()
        begun = house.clock.monotonic()
        new = await gateway.channel.write("new", conversation="c1", sender="c1")
        assert [each.kind for each in await ends(gateway, [*left, new])] == ["answered"] * 4
        assert 60 <= house.clock.monotonic() - begun < 120
    assert f"message {left[1].id} waits to enter the pipeline, 1 behind it" in caplog.text


@pytest.mark.parametrize("has_exclusive", [True, False])
@in_virtual_time
async def test_slow_stage_is_no_deadlock(
    house: House, caplog: pytest.LogCaptureFixture, *, has_exclusive: bool
) -> None:
    left = await after_crashes(house, *((MOST, 1) if has_exclusive else (0, 0)))

    async def be_slow(ctx: MessageContext) -> Outcome:
        if ctx.inbound.text == "m0":
            await house.clock.sleep(200)
        return await ctx.next()

    async with house.open("1", "2", "3", layers=[("message", be_slow)]) as gateway:
        behind = await gateway.channel.write("behind", conversation="c0", sender="c0")
        await house.clock.sleep(190)
        assert len(gateway.provider.requests) == (0 if has_exclusive else 1)
        assert [each.kind for each in await ends(gateway, [*left, behind])] == ["answered"] * 3
    assert "wait graph" not in caplog.text


@in_virtual_time
async def test_slow_turn_of_an_exclusive_message_is_no_deadlock(house: House, caplog: pytest.LogCaptureFixture) -> None:
    left = await after_crashes(house, MOST, 1)
    async with house.open(reply(delay(100.0), "1"), "2") as gateway:
        finished = asyncio.ensure_future(ends(gateway, left))
        await house.clock.sleep(95)
        assert len(gateway.provider.requests) == 1
        assert [each.kind for each in await finished] == ["answered"] * 2
    assert "wait graph" not in caplog.text


@pytest.mark.parametrize(
    ("text", "forwarded", "seconds"),
    [
        ("/stop", False, 0),
        ("@finclaw /stop", False, 0),
        ("@finclaw, /stop", False, 0),
        ("/verbose on /stop", False, 0),
        ("/stop", True, 60),
        ("stop", True, 60),
    ],
)
@in_virtual_time
async def test_only_a_stop_that_the_person_typed_enters_beside_an_exclusive_message(
    house: House, text: str, forwarded: bool, seconds: int
) -> None:
    left = await after_crashes(house, MOST, 1)
    async with house.open(reply(delay(60.0), "late"), "ok", "forwarded") as gateway:
        await house.clock.sleep(5)
        begun = house.clock.monotonic()
        stop = await gateway.channel.write(text, conversation="c0", sender="ada", forwarded=forwarded)
        outcome = await gateway.outcome(stop)
        took = house.clock.monotonic() - begun
        assert (outcome.kind, seconds - 10 < took < seconds + 1) == ("answered" if forwarded else "command", True)
        assert (await gateway.outcome(left[1])).kind == "answered"


@in_virtual_time
async def test_message_that_waits_for_an_exclusive_one_can_be_stopped(house: House) -> None:
    _, *waiting = left = await after_crashes(house, MOST, 1, 0)
    async with house.open(reply(delay(60.0), "alone")) as gateway:
        await house.clock.sleep(5)
        assert gateway.app.stop_message(waiting[0].id)
        assert not gateway.app.stop_message(waiting[0].id), "it is stopped already"
        assert [gateway.app.clear_queue(each.session) for each in waiting] == [0, 1]
        assert [each.kind for each in await ends(gateway, left)] == ["answered", "stopped", "stopped"]
        assert gateway.said.count(notice("stopped", Inbound(text="m1")).text) == 2
