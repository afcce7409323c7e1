"""The live stream on the wire: server-sent events and the WebSocket, in front of a whole gateway."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.web.conftest import AUTH, TOKEN
from tests.web.streaming import events, gateway, until_streaming

from finclaw.errors import Overloaded
from finclaw.testing import ScriptedProvider, call, fails, hold, reply, say


def quoting() -> ScriptedProvider:
    return ScriptedProvider(
        reply(say("Let me look. "), call("market__quote", {"symbol": "AAPL"})),
        reply(say("Apple is up today. It is a fine day.", chunks=9)),
    )


@pytest.mark.spec("TC-03")
async def test_a_browser_follows_an_answer_as_it_is_written(tmp_path: Path) -> None:
    async with gateway(tmp_path, quoting()) as live, live.stream(conversation="main") as response:
        inbound_id = await live.post("1")
        seen = await events(response)
    kinds = [kind for _, kind, _ in seen]
    assert kinds[0] == "accepted"
    assert kinds.count("tool_progress") == 2
    assert all(data["inbound_id"] == inbound_id for _, _, data in seen)
    preview = ""
    for _, kind, data in seen:
        if kind == "preview_update":
            preview = preview[: data["at"]] + data["text"]
    final = seen[-1][2]["reply"]
    assert final.startswith(preview)
    assert preview == "Apple is up today."


async def test_a_reader_that_was_cut_off_misses_nothing_and_sees_nothing_twice(tmp_path: Path) -> None:
    async with gateway(tmp_path, quoting()) as live:
        async with live.stream() as response:
            await live.post("1")
            whole = await events(response)
        for place in range(len(whole) - 1):
            async with live.stream(after=whole[place][0]) as response:
                assert await events(response) == whole[place + 1 :]


@pytest.mark.spec("TC-03")
async def test_after_a_restart_the_reader_is_told_to_start_over(tmp_path: Path) -> None:
    async with gateway(tmp_path, quoting()) as live, live.stream() as response:
        inbound_id = await live.post("1")
        last = (await events(response))[-1][0]
    async with gateway(tmp_path, quoting()) as live:
        async with live.stream(after=last) as response:
            reset = (await events(response, until="reset"))[-1]
        assert reset[2] == {"seq": 0, "open": []}
        async with live.session.get(f"{live.url}/api/v1/messages/{inbound_id}", headers=AUTH) as response:
            assert (await response.json())["outcome"] == "answered"


@pytest.mark.spec("TC-02")
async def test_a_socket_takes_messages_and_tells_their_story(tmp_path: Path) -> None:
    async with gateway(tmp_path, quoting()) as live, live.socket({"token": TOKEN}) as socket:
        assert await socket.receive_json(timeout=60) == {"type": "hello"}
        await socket.send_json({"type": "message", "message": {"message_id": "1", "text": "AAPL?"}})
        seen = [await socket.receive_json(timeout=60)]
        while seen[-1]["type"] != "outcome":
            seen.append(await socket.receive_json(timeout=60))
        await socket.send_json({"type": "message", "message": {"message_id": "1", "text": "AAPL?"}})
        again = await socket.receive_json(timeout=60)
        await socket.send_json({"type": "message", "message": {"message_id": "1", "text": "other"}})
        conflict = await socket.receive_json(timeout=60)
    taken = next(each for each in seen if each["type"] == "taken")
    assert taken["duplicate"] is False
    assert again == {**taken, "duplicate": True}
    assert conflict["code"] == "message_id_used"
    assert [each["type"] for each in seen if each["type"] == "tool_progress"]
    assert seen[-1]["reply"].startswith("Apple is up today.")


@pytest.mark.spec("TC-02", "DX-68")
async def test_a_message_posted_many_times_at_once_runs_once_and_is_not_over_before_it_is(tmp_path: Path) -> None:
    released = asyncio.Event()
    provider = ScriptedProvider(reply(say("One moment. "), hold(released), say("Done.")))
    async with gateway(tmp_path, provider) as live:
        posted = await asyncio.gather(*(live.post("1") for _ in range(8)))
        assert len(set(posted)) == 1
        await until_streaming(provider)
        assert (await live.get(posted[0]))["state"] == "running"
        released.set()
        ended = await live.get(posted[0], wait=60)
        assert (ended["state"], ended["outcome"], ended["reply"]) == ("ended", "answered", "One moment. Done.")
        assert len(provider.requests) == 1


@pytest.mark.spec("DX-68")
@pytest.mark.parametrize(
    ("script", "outcome"),
    [("It is up.", "answered"), (fails(Overloaded("busy")), "failed"), ("<<NO_REPLY>>", "skipped")],
)
async def test_a_status_is_final_when_the_last_send_is_done(tmp_path: Path, script: Any, outcome: str) -> None:
    async with gateway(tmp_path, ScriptedProvider(script)) as live, live.stream() as response:
        inbound_id = await live.post("1")
        assert (await events(response))[-1][2]["outcome"] == outcome
        async with asyncio.timeout(60):
            record = await live.get(inbound_id)
            while record["delivery"] == "pending":
                record = await live.get(inbound_id)
        assert (record["state"], record["outcome"]) == ("ended", outcome)
        assert record["delivery"] == ("none" if outcome == "skipped" else "delivered")


@pytest.mark.parametrize(
    ("first", "code"),
    [
        ('{"type": "hello"}', "wrong_token"),
        ('{"type": "hello", "token": "wrong"}', "wrong_token"),
        ('{"type": "message"}', "bad_frame"),
        ("nonsense", "bad_frame"),
        ('{"type": "hello", "token": 7}', "bad_frame"),
    ],
)
async def test_a_socket_without_the_token_is_closed_with_a_word(tmp_path: Path, first: str, code: str) -> None:
    async with gateway(tmp_path, quoting()) as live, live.session.ws_connect(live.url + "/api/v1/live") as socket:
        await socket.send_str(first)
        error = await socket.receive_json(timeout=60)
        assert (error["type"], error["code"]) == ("error", code)
        assert (await socket.receive(timeout=60)).type is aiohttp.WSMsgType.CLOSE


async def test_a_program_may_send_its_token_as_a_header(tmp_path: Path) -> None:
    async with gateway(tmp_path, quoting()) as live:
        async with live.socket({}, Authorization=f"Bearer {TOKEN}") as socket:
            assert await socket.receive_json(timeout=60) == {"type": "hello"}
            await socket.send_str('{"type": "message", "message": {"text": 5}}')
            assert (await socket.receive_json(timeout=60))["code"] == "bad_frame"
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await live.session.ws_connect(live.url + "/api/v1/live", headers={"Authorization": "Bearer no"})
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await live.session.ws_connect(live.url + "/api/v1/live", headers={"Origin": "http://evil.example"})


async def test_open_streams_do_not_hold_up_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("finclaw.web.server.LAST_ANSWERS", 90.0)
    async with asyncio.timeout(60), aiohttp.ClientSession() as session:
        async with gateway(tmp_path, quoting()) as live:
            response = await session.get(live.url + "/api/v1/stream", headers=AUTH)
            socket = await session.ws_connect(live.url + "/api/v1/live")
            await socket.send_json({"type": "hello", "token": TOKEN})
            assert await socket.receive_json(timeout=60) == {"type": "hello"}
        assert (await socket.receive(timeout=60)).type is aiohttp.WSMsgType.CLOSE
        assert (await response.read()).startswith(b": welcome")
