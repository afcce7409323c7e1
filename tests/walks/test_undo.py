"""`/undo` and `/retry`: the conversation forgets a turn; what was sent, spent and told stays on record."""

import shutil
from typing import Any

import pytest
from tests.walks.house import Gateway, House, in_virtual_time
from tests.walks.tools import Desk

from finclaw.approvals.people import PersonSettings
from finclaw.storage.kinds import StoreKind
from finclaw.testing import call, crash_at, reply


async def words(gateway: Gateway) -> list[str]:
    session = (await gateway.app.sessions(1)).items[0].key
    return [message.text for message in await gateway.app.messages(session) if message.text]


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
@in_virtual_time
async def test_the_last_turn_is_forgotten_and_stays_on_record(house: House, kind: StoreKind) -> None:
    house.kind = kind
    tools = [Desk().tool("look")]
    async with house.open("one", reply(call("look")), "two", "three", tools=tools) as gateway:
        for text in ("1", "2"):
            await gateway.ask(text)
        undone = (await gateway.app.turns(1))[0]
        cost = [each.cost for each in await gateway.app.costs(1, "agent")]
        told = await gateway.ask("/undo")
        assert (told.kind, told.reply is not None and told.reply.startswith("Taken back: “2”")) == ("command", True)
        assert await words(gateway) == ["1", "one"]
        assert gateway.said[:2] == ["one", "two"], "what was sent stays"
        assert [each.cost for each in await gateway.app.costs(1, "agent")] == cost
        trace = await gateway.app.turn(undone.turn_id)
        assert trace is not None
        assert (trace.record.status, trace.whole) == ("undone", False)
        assert trace.outcome is not None
        assert trace.outcome.reply == "two"
        await gateway.ask("3")
        assert [message.text for message in gateway.seen] == ["1", "one", "3"]
    async with house.open("four") as gateway:
        assert (await gateway.ask("/되돌리기")).kind == "command"
        assert (await gateway.ask("/undo")).kind == "command"
        assert await words(gateway) == []
        assert (await gateway.ask("/undo")).reply == "되돌릴 것이 없습니다."
        await gateway.ask("4")
        assert [message.text for message in gateway.seen] == ["4"]


@in_virtual_time
async def test_a_question_is_asked_again_once(house: House) -> None:
    async with house.open("첫 답변", "두 번째 답변") as gateway:
        await gateway.ask("환율은?")
        told = await gateway.ask("/retry")
        assert told.reply == "다시 답변합니다: “환율은?”"
        assert gateway.said == ["첫 답변", "다시 답변합니다: “환율은?”", "두 번째 답변"]
        assert await words(gateway) == ["환율은?", "두 번째 답변"]


@in_virtual_time
async def test_in_a_group_nobody_takes_back_the_question_of_another_but_the_owner(house: House) -> None:
    group: dict[str, Any] = {"chat_type": "group", "mentions_us": True, "conversation": "desk"}
    people = [PersonSettings(name="olga", known_as=("memory:local:olga",), roles=("owner",))]
    async with house.open("one", people=people) as gateway:
        await gateway.ask("1", **group)
        refused = await gateway.ask("/undo", sender="bob", **group)
        assert refused.reply == "The last question here was somebody else's; only they can take it back."
        assert await words(gateway) == ["1", "one"]
        await gateway.ask("/undo", sender="olga", **group)
        assert await words(gateway) == []


@pytest.mark.parametrize(
    "point", ["accept:after_commit", "claim:after_commit", "finish:before_commit", "finish:after_commit"]
)
@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
@in_virtual_time
async def test_a_crash_loses_neither_the_undo_nor_the_question(house: House, point: str, kind: StoreKind) -> None:
    house.kind, left = kind, house.state.with_name(f"{house.state.name}-left")
    async with house.open("one", "two", "again") as gateway:
        for text in ("1", "2"):
            await gateway.ask(text)
        with crash_at(point, 1, lambda _: shutil.copytree(house.state, left)):
            await gateway.ask("/retry")
    async with House(left, clock=house.clock, kind=kind).open("again") as gateway:
        await gateway.app.idle()
        assert await words(gateway) == ["1", "one", "2", "again"]
        assert gateway.said[-1] == "again"
        assert len(gateway.provider.requests) == 1
