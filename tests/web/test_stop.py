"""Stopping a message through the API: who may, what of, and that asking twice is asking once."""

import asyncio
from pathlib import Path
from urllib.parse import quote

import pytest
from msgspec.structs import replace
from tests.web.conftest import AUTH, Client
from tests.web.gateway import answer
from tests.web.streaming import events, gateway, until_streaming

from finclaw.kernel.scope import Outcome
from finclaw.testing import ScriptedProvider, hold, reply, say
from finclaw.web.api import may_stop
from finclaw.web.principal import OWNER, Principal

pytestmark = pytest.mark.spec("DX-25")

STOPPED = Outcome(kind="stopped", reason="stopped by the person", reply="Stopped.")


async def taken(client: Client) -> str:
    _, body = await client.post(message_id="1", text="a long story")
    return str(body["inbound_id"])


def stop_of(inbound_id: str, wait: float = 0) -> str:
    return f"/api/v1/messages/{inbound_id}/stop?wait={wait}"


async def test_asking_twice_is_asking_once(client: Client) -> None:
    inbound_id = await taken(client)
    client.gateway.stoppable.append(inbound_id)
    for _ in range(2):
        status, body = await client.call("POST", stop_of(inbound_id))
        assert (status, body["state"], body["inbound_id"]) == (202, "received", inbound_id)
    await client.gateway.end(inbound_id, STOPPED)
    for _ in range(2):
        status, body = await client.call("POST", stop_of(inbound_id))
        assert (status, body["outcome"], body["reply"]) == (200, "stopped", "Stopped.")
    assert client.gateway.stops == [(inbound_id, "stopped by the person")]


async def test_it_waits_for_the_end_as_long_as_it_is_asked_to(client: Client) -> None:
    inbound_id = await taken(client)
    client.gateway.stoppable.append(inbound_id)
    stopping = asyncio.ensure_future(client.call("POST", stop_of(inbound_id, wait=60)))
    await client.gateway.stopping.wait()
    await client.gateway.end(inbound_id, STOPPED)
    assert (await stopping)[1]["outcome"] == "stopped"
    await client.refused("POST", f"/api/v1/messages/{inbound_id}/stop?wait=soon", 400)


async def test_what_was_taken_a_moment_ago_is_stopped_when_it_can_be(client: Client) -> None:
    inbound_id = await taken(client)
    stopping = asyncio.ensure_future(client.call("POST", stop_of(inbound_id)))
    await client.gateway.awaited.wait()  # between two tries
    assert not stopping.done()
    client.gateway.stoppable.append(inbound_id)
    assert (await stopping)[0] == 202


async def test_what_cannot_be_stopped(client: Client) -> None:
    inbound_id = await taken(client)
    assert "its answer is on its way" in await client.refused("POST", stop_of(inbound_id), 409)
    await client.gateway.end(inbound_id, answer())
    assert "ended before, as answered" in await client.refused("POST", stop_of(inbound_id), 409)
    assert "no such message" in await client.refused("POST", stop_of("m-x-1"), 404)
    assert client.gateway.stops == []


async def test_who_may(client: Client) -> None:
    """The holder of the token runs the gateway; one who only sends messages may stop their own."""
    client.gateway.remember("m-9", "main:telegram:bot:direct:7", "bot")
    theirs = await client.gateway.wait("m-9", 0)
    assert theirs is not None
    theirs = replace(theirs, channel="telegram")
    mine = replace(theirs, channel="web", account="guest")
    guest = Principal("guest", scopes=frozenset({"messages"}))
    assert [may_stop(guest, each) for each in (mine, theirs, replace(theirs, account="guest"))] == [True, False, False]
    assert may_stop(OWNER, theirs)
    client.gateway.stoppable.append("m-9")
    assert (await client.call("POST", stop_of("m-9")))[0] == 202
    assert client.gateway.stops == [("m-9", "stopped by whoever runs the gateway")]


@pytest.mark.parametrize(("text", "told"), [("a story", "Stopped."), ("이야기 하나", "중단했습니다.")])
async def test_a_turn_is_really_stopped(tmp_path: Path, text: str, told: str) -> None:
    provider = ScriptedProvider(reply(say("Once upon a time. "), hold(asyncio.Event())), "Next.")
    async with gateway(tmp_path, provider) as live, live.stream(conversation="main") as response:
        inbound_id = await live.post("1", text)
        await until_streaming(provider)
        async with live.session.post(live.url + stop_of(inbound_id, wait=60), headers=AUTH) as stopped:
            assert stopped.status == 200
            body = await stopped.json()
        assert (body["outcome"], body["reply"], body["reason"]) == ("stopped", told, "stopped by the person")
        seen = await events(response)
        assert (seen[-1][2]["outcome"], seen[-1][2]["reply"]) == ("stopped", told)
        assert (await live.get(await live.post("2"), wait=60))["reply"] == "Next."


async def test_a_session_is_stopped_with_all_that_waits_there(tmp_path: Path) -> None:
    provider = ScriptedProvider(reply(say("Once upon a time. "), hold(asyncio.Event())), "Next.")
    async with gateway(tmp_path, provider) as live:
        first, second = await live.post("1", "a story"), await live.post("2", "another one")
        await until_streaming(provider)
        session = str((await live.get(first))["session"])
        path = f"{live.url}/api/v1/sessions/{quote(session, safe='')}"
        async with live.session.post(f"{path}/stop", headers=AUTH) as stopped:
            body = await stopped.json()
        assert (stopped.status, body["stopped"], body["dropped"]) == (200, [first], [second])
        told = [(await live.get(each, wait=60)) for each in (first, second)]
        assert [(each["outcome"], each["reply"]) for each in told] == [("stopped", "Stopped."), ("stopped", None)]
        async with live.session.post(f"{path}-no/stop", headers=AUTH) as unknown:
            assert unknown.status == 404


async def test_a_message_that_waits_is_edited_and_another_deleted(tmp_path: Path) -> None:
    told = asyncio.Event()
    provider = ScriptedProvider(reply(say("Once. "), hold(told)), "Edited.")
    async with gateway(tmp_path, provider) as live:
        first, second, third = [await live.post(each, each) for each in ("1", "2", "3")]
        await until_streaming(provider)
        for change in (
            {"message_id": "e", "text": "two", "edits": "2"},
            {"message_id": "d", "text": "", "deletes": "3"},
        ):
            async with live.session.post(f"{live.url}/api/v1/messages", headers=AUTH, json=change) as taken:
                assert taken.status == 202
                ended = await live.get((await taken.json())["inbound_id"], wait=60)
                assert ended["outcome"] == "skipped"
        told.set()
        ends = [await live.get(each, wait=60) for each in (first, second, third)]
        assert [each["outcome"] for each in ends] == ["answered", "answered", "stopped"]
        assert provider.requests[1].messages[-1].text == "two"
