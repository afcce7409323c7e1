"""Persons in a running gateway: one human being has one account of everything, in whatever chat they write."""

from typing import Any

import pytest
from msgspec import Struct
from tests.ports.state_search import found_in
from tests.walks.house import Gateway, House, in_virtual_time

from finclaw.approvals.people import LOCAL, PersonSettings
from finclaw.errors import ConfigError, SessionError
from finclaw.kernel.port import ToolOutput, ToolScope
from finclaw.kernel.record import SenderId
from finclaw.pipeline.settings import PipelineSettings
from finclaw.testing import call, reply
from finclaw.tools.define import tool

MINA = PersonSettings(name="Mina", known_as=("memory:local:mina", "memory:other:m-7"), roles=("approver",))


class Nothing(Struct):
    pass


def whose(scopes: list[str]) -> Any:
    @tool("whose", "Who asks.", group="finance")
    async def run(args: Nothing, scope: ToolScope) -> ToolOutput:
        scopes.append(scope.person)
        return ToolOutput("ok")

    return run


async def ids(gateway: Gateway) -> list[str]:
    return [each.person.id for each in await gateway.app.persons.list_people(100)]


@in_virtual_time
async def test_the_owner_is_there_before_anybody_has_written(house: House) -> None:
    async with house.open() as gateway:
        owner = await gateway.app.persons.find("owner")
        assert owner is not None
        assert (owner.person.identities, owner.roles) == (LOCAL, ("owner",))
        assert await ids(gateway) == [LOCAL[0]]


@in_virtual_time
async def test_one_person_pays_and_is_known_to_tools_in_both_chats(house: House) -> None:
    scopes: list[str] = []
    steps = (reply(call("whose", {})), reply("done"))
    async with house.open(*steps, *steps, *steps, tools=[whose(scopes)], people=[MINA]) as gateway:
        await gateway.ask("one", sender="mina", conversation="a")
        await gateway.ask("two", sender="m-7", account="other", conversation="b")
        await gateway.ask("three", sender="mina", account="other", conversation="c")
        assert scopes == ["memory:local:mina", "memory:local:mina", "memory:other:mina"]
        spent = {each.name: each.calls for each in await gateway.app.costs(1, "user")}
        assert spent == {"memory:local:mina": 4, "memory:other:mina": 2}


@in_virtual_time
async def test_a_stranger_gets_a_person_with_their_first_turn(house: House) -> None:
    async with house.open(reply("hello")) as gateway:
        await gateway.ask("hi", sender="eve")
        assert "memory:local:eve" in await ids(gateway)


@in_virtual_time
async def test_who_is_not_let_in_is_nobody(house: House) -> None:
    async with house.open(pipeline=PipelineSettings(require_mention=True)) as gateway:
        outcome = await gateway.ask("not for you", sender="eve", chat_type="group", mentions_us=False)
        assert outcome.kind == "skipped"
        assert await ids(gateway) == [LOCAL[0]]


@in_virtual_time
async def test_an_entry_that_is_removed_takes_its_roles_and_nothing_else(house: House) -> None:
    async with house.open(people=[MINA]) as gateway:
        await gateway.app.persons.change("Mina", {"language": "ko"})
    async with house.open() as gateway:
        found = await gateway.app.persons.find("memory:other:m-7")
        assert found is not None
        assert (found.person.id, found.person.language, found.roles) == ("memory:local:mina", "ko", ())


@in_virtual_time
async def test_what_is_set_is_told_to_the_model_from_the_next_turn_on(house: House) -> None:
    async with house.open(reply("hi"), reply("hi"), reply("hi")) as gateway:
        await gateway.ask("hello", sender="mina")
        assert "time zone" not in str(gateway.seen)
        await gateway.app.persons.change(
            "memory:local:mina", {"timezone": "Asia/Seoul", "currency": "krw", "compliance": "retail"}
        )
        await gateway.ask("hello", sender="mina")
        assert "time zone: Asia/Seoul" in gateway.seen[-1].text.replace('"', "")
        assert "currency: KRW" in gateway.seen[-1].text.replace('"', "")
        await gateway.ask("hello", sender="eve", conversation="other")
        assert "Asia/Seoul" not in str(gateway.seen)


@in_virtual_time
async def test_a_change_that_cannot_be_is_refused_and_changes_nothing(house: House) -> None:
    async with house.open(people=[MINA]) as gateway:
        with pytest.raises(ConfigError, match="did you mean Asia/Seoul"):
            await gateway.app.persons.change("Mina", {"language": "ko", "timezone": "seoul"})
        with pytest.raises(SessionError, match="finclaw people list"):
            await gateway.app.persons.change("Nobody", {"language": "ko"})
        mina = await gateway.app.persons.find("Mina")
        assert mina is not None
        assert mina.person.preferences == ("",) * 6


@in_virtual_time
async def test_forgetting_one_identity_forgets_the_person_in_all_their_chats(house: House) -> None:
    async with house.open(reply("one"), reply("two"), reply("three"), people=[MINA]) as gateway:
        await gateway.app.persons.change("Mina", {"language": "ko"})
        await gateway.ask("first zebra7", sender="mina", conversation="a")
        await gateway.ask("second zebra7", sender="m-7", account="other", conversation="b")
        await gateway.ask("mine", sender="eve", conversation="c")
        expected = await gateway.app.upkeep.forget_person(SenderId.parse("memory:other:m-7"), dry_run=True)
        erased = await gateway.app.upkeep.forget_person(SenderId.parse("memory:other:m-7"))
        assert erased.messages == expected.messages == 2
        assert found_in(house.state, "zebra7") == []
        mina = await gateway.app.persons.find("Mina")
        assert mina is not None, "the settings name her"
        assert (mina.person.language, mina.roles) == ("", ("approver",))
        assert [each.calls for each in await gateway.app.costs(1, "user") if each.name == "forgotten"] == [2]
