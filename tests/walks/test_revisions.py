"""Edits and deletions of a person's own messages: before their turn, in it, and after it."""

import asyncio
import shutil
from typing import Any

import pytest
from tests.walks.house import House, in_virtual_time
from tests.walks.joining import change

from finclaw.kernel.envelope import Capabilities
from finclaw.pipeline.settings import PipelineSettings, PoolSettings
from finclaw.storage.kinds import StoreKind
from finclaw.testing import crash_at, delay, reply, say

BUSY = reply(delay(5), say("first"))


def echo(request: Any) -> Any:
    text = next(each.text for each in reversed(request.messages) if each.role == "user")
    return BUSY if text in ("1", "busy") else f"to {text}"


@in_virtual_time
async def test_an_edit_before_its_turn_takes_the_place_of_the_message(house: House) -> None:
    async with house.open(echo) as gateway:
        asked = [await gateway.channel.write(text, message_id=text) for text in ("1", "2", "3")]
        await asyncio.sleep(1)
        edit = await change(gateway, "edit", "2", "two")
        again = await change(gateway, "edit", "2", "two")
        assert (again.id, again.duplicate) == (edit.id, True)
        outcomes = [await gateway.outcome(each) for each in asked]
        assert [each.reply for each in outcomes] == ["first", "to two", "to 3"]
        assert gateway.said == ["first", "to two", "to 3"], "in its old place, and once"
        assert (await gateway.outcome(edit)).kind == "skipped"
        await gateway.channel.write("2", message_id="2")
        await gateway.app.idle()
        assert len(gateway.said) == 3, "the platform delivers the first words again, and they are known"


@in_virtual_time
async def test_two_edits_at_once_take_the_place_of_the_message_one_after_the_other(house: House) -> None:
    one_seat = PipelineSettings(pools=PoolSettings(main=1))
    async with house.open(echo, pipeline=one_seat) as gateway:
        busy = await gateway.channel.write("busy", message_id="1", conversation="elsewhere")
        asked = await gateway.channel.write("deux", message_id="2")
        await asyncio.sleep(1)
        edits = await asyncio.gather(*(change(gateway, "edit", "2", text) for text in ("two", "zwei")))
        kinds = [(await gateway.outcome(each)).kind for each in (busy, asked, *edits)]
        await gateway.app.idle()
        assert len(gateway.provider.requests) == 2, "each message is answered by one turn"
        assert kinds == ["answered", "answered", "skipped", "skipped"]
        assert gateway.said == ["first", "to zwei"]


@in_virtual_time
async def test_an_edit_in_the_pause_for_more_messages_takes_the_place_of_the_message(house: House) -> None:
    async with house.open(echo, capabilities=Capabilities(debounce_ms=1_000)) as gateway:
        asked = await gateway.channel.write("2", message_id="2")
        await asyncio.sleep(0.3)
        edit = await change(gateway, "edit", "2", "two")
        assert [(await gateway.outcome(each)).kind for each in (asked, edit)] == ["answered", "skipped"]
        await gateway.app.idle()
        assert gateway.said == ["to two"]


@in_virtual_time
async def test_an_edit_in_or_after_its_turn_is_a_new_input(house: House) -> None:
    async with house.open(echo) as gateway:
        asked = await gateway.channel.write("1", message_id="1")
        await asyncio.sleep(1)
        edit = await change(gateway, "edit", "1", "one")
        assert (await gateway.outcome(asked)).reply == "first"
        assert (await gateway.outcome(edit)).reply == "to one"
        same = await change(gateway, "edit", "1", "1")
        assert (await gateway.outcome(same)).reason == "edit of message 1: its words are the same"
        unknown = await change(gateway, "edit", "0", "zero")
        assert (await gateway.outcome(unknown)).reason == "edit of message 0: it is not known here"
        assert len(gateway.provider.requests) == 2


@in_virtual_time
async def test_a_deletion_ends_what_waits_and_nothing_else(house: House) -> None:
    async with house.open(echo) as gateway:
        asked = [await gateway.channel.write(text, message_id=text) for text in ("1", "2", "3")]
        await asyncio.sleep(1)
        for target in ("1", "2"):
            await gateway.outcome(await change(gateway, "delete", target))
        assert [(await gateway.outcome(each)).kind for each in asked] == ["answered", "stopped", "answered"]
        assert gateway.said == ["first", "to 3"]


@pytest.mark.parametrize("kind", ["edit", "delete"])
@in_virtual_time
async def test_nobody_changes_what_another_wrote(house: House, kind: str) -> None:
    async with house.open(echo) as gateway:
        asked = [await gateway.channel.write(text, message_id=text) for text in ("1", "2")]
        await asyncio.sleep(1)
        outcome = await gateway.outcome(await change(gateway, kind, "2", "two", sender="bob"))
        assert (outcome.kind, outcome.reason) == ("refused", f"{kind} of message 2: somebody else wrote it")
        assert [(await gateway.outcome(each)).reply for each in asked] == ["first", "to 2"]


@pytest.mark.parametrize("point", ["amend:before_commit", "amend:after_commit"])
@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
@in_virtual_time
async def test_an_edit_survives_a_crash_and_is_answered_once(house: House, point: str, kind: StoreKind) -> None:
    house.kind, left = kind, house.state.with_name(f"{house.state.name}-left")
    async with house.open(echo) as gateway:
        asked = [await gateway.channel.write(text, message_id=text) for text in ("1", "2")]
        await asyncio.sleep(1)
        with crash_at(point, 1, lambda _: shutil.copytree(house.state, left)):
            await change(gateway, "edit", "2", "two")
            await gateway.app.idle()
    async with House(left, clock=house.clock, kind=kind).open(echo) as gateway:
        await gateway.app.idle()
        assert (await gateway.outcome(asked[1])).reply == "to two"
        assert gateway.said == ["first", "to two"]


@in_virtual_time
async def test_a_deletion_leaves_the_answer_alone_that_is_being_sent(house: House) -> None:
    long = "\n\n".join(f"Paragraph {n} of a long answer. " + "x" * 900 for n in range(3))
    async with house.open(long, capabilities=Capabilities(max_length=1_000)) as gateway:
        gateway.channel.hold_sends()
        asked = await gateway.channel.write("go on", message_id="one")
        await gateway.channel.until_tried(1)
        gone = await gateway.outcome(await change(gateway, "delete", "one"))
        gateway.channel.release_sends()
        await gateway.app.idle()
        assert gone.reason == "delete of message one: its turn has begun or is over"
        assert (await gateway.outcome(asked)).kind == "answered"
        assert [each.split(" of ")[0] for each in gateway.said] == ["Paragraph 0", "Paragraph 1", "Paragraph 2"]
