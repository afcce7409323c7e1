"""What the API takes and gives."""

import asyncio
import time
from decimal import Decimal

import msgspec
import pytest
from msgspec import structs
from tests.web.conftest import AUTH, Client
from tests.web.gateway import answer

from finclaw.errors import SessionError, StoreFailed
from finclaw.kernel.chunk import Usage
from finclaw.kernel.event import ExecutionStarted, MessageAccepted
from finclaw.kernel.record import TurnTrace
from finclaw.kernel.scope import Ids
from finclaw.web.view import CostsView


async def test_a_message_is_taken_and_answered(client: Client) -> None:
    status, taken = await client.post(message_id="1", text="What is AAPL trading at?")
    assert (status, taken["duplicate"]) == (202, False)
    inbound_id = str(taken["inbound_id"])
    await client.gateway.end(inbound_id, answer())

    status, message = await client.call("GET", f"/api/v1/messages/{inbound_id}?wait=20")
    assert status == 200
    assert message == {
        "inbound_id": inbound_id,
        "session": "main:web:owner:direct:main",
        "state": "ended",
        "outcome": "answered",
        "reason": "",
        "delivery": "delivered",
        "reply": "AAPL is at 190.50 USD.",
        "is_markdown": True,
        "turn_id": "turn-1",
        "stages_executed": ["normalize", "gate"],
        "tools": [{"name": "market__quote", "status": "ok"}],
        "facts": [
            {
                "subject": "AAPL",
                "field": "price",
                "value": "190.50",
                "as_of": "2026-01-02T03:04:05Z",
                "source": "demo",
                "venue": "",
                "phase": "",
                "unit": "",
                "currency": "USD",
                "stale": False,
                "inputs": [],
            }
        ],
        "usage": {"input": 10, "output": 5, "cache_read": 0, "cache_write": 0},
        "cost": "0.0012",
        "duration_ms": 12.5,
        "model": "scripted/one",
    }


async def test_identity_is_the_tokens(client: Client) -> None:
    await client.post(message_id="1", text="hi")
    await client.post(message_id="2", text="hi", sender="alice", conversation="desk")
    plain, labelled = client.gateway.taken
    assert (plain.channel, plain.account, plain.conversation) == ("web", "owner", "main")
    assert (plain.sender.id, plain.sender.roles) == ("owner", ("owner",))
    assert (labelled.account, labelled.conversation) == ("owner", "desk")
    assert (labelled.sender.id, labelled.sender.name, labelled.sender.roles) == ("owner/alice", "alice", ())


async def test_the_same_message_again_is_a_duplicate(client: Client) -> None:
    _, first = await client.post(message_id="1", text="hi")
    status, second = await client.post(message_id="1", text="hi")
    assert status == 202
    assert second == {"inbound_id": first["inbound_id"], "duplicate": True}
    assert len(client.gateway.taken) == 1


async def test_one_id_with_another_body_is_a_conflict(client: Client) -> None:
    await client.post(message_id="1", text="hi")
    message = await client.refused("POST", "/api/v1/messages", 409, json={"message_id": "1", "text": "ho"})
    assert "new message_id" in message


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"text": "hi"}, "message_id"),
        ({"message_id": "1"}, "text"),
        ({"message_id": 1, "text": "hi"}, "message_id"),
        ({"message_id": "", "text": "hi"}, "message_id"),
        ({"message_id": "x" * 201, "text": "hi"}, "message_id"),
        ({"message_id": "1", "text": None}, "text"),
        ({"message_id": "1", "text": "hi", "conversation": ""}, "conversation"),
        ({"message_id": "1", "text": "hi", "sender": {}}, "sender"),
        ({"message_id": "1", "text": "hi", "roles": ["owner"]}, "roles"),
        ({"message_id": "1", "text": "hi", "scopes": ["impersonate"]}, "scopes"),
        ([], "object"),
        (None, "JSON"),
    ],
)
async def test_a_body_that_does_not_fit_is_refused_by_name(client: Client, body: object, named: str) -> None:
    more = {"json": body} if body is not None else {"data": b"{oops", "headers": _json()}
    assert named in await client.refused("POST", "/api/v1/messages", 400, **more)
    assert not client.gateway.taken


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b'{"message_id":"1","text":"\\ud800"}', b"[" * 1_500])
async def test_broken_json_is_refused(client: Client, data: bytes) -> None:
    await client.refused("POST", "/api/v1/messages", 400, data=data, headers=_json())


async def test_only_json_is_taken(client: Client) -> None:
    data = b'{"message_id":"1","text":"hi"}'
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonp"):
        message = await client.refused(
            "POST", "/api/v1/messages", 415, data=data, headers={**AUTH, "Content-Type": kind}
        )
        assert "application/json" in message
    status, _ = await client.call(
        "POST", "/api/v1/messages", data=data, headers={**AUTH, "Content-Type": "application/json; charset=utf-8"}
    )
    assert status == 202


async def test_a_large_body_is_refused_with_and_without_a_length(client: Client) -> None:
    assert "2048 bytes" in await client.refused(
        "POST", "/api/v1/messages", 413, json={"message_id": "1", "text": "x" * 3_000}
    )

    async def chunks() -> object:
        for _ in range(4):
            yield b" " * 1_000

    async with client.session.post(client.url + "/api/v1/messages", data=chunks(), headers=_json()) as response:
        assert response.status == 413


async def test_what_was_not_stored_was_not_accepted(client: Client) -> None:
    client.gateway.fails = StoreFailed("disk full at /secret/path")
    message = await client.refused("POST", "/api/v1/messages", 503, json={"message_id": "1", "text": "hi"})
    assert message.startswith("not accepted, send it again")
    assert "/secret/path" not in message


@pytest.mark.parametrize("failure", [RuntimeError("a bug at /secret/path"), SessionError("/secret/path")])
async def test_a_mistake_of_ours_shows_no_trace(client: Client, failure: Exception) -> None:
    client.gateway.fails = failure
    assert "/secret" not in await client.refused("GET", "/api/v1/status", 500)


async def test_waiting_ends_with_the_message(client: Client) -> None:
    _, taken = await client.post(message_id="1", text="hi")
    waiting = asyncio.create_task(client.call("GET", f"/api/v1/messages/{taken['inbound_id']}?wait=60"))
    await client.gateway.awaited.wait()
    assert not waiting.done()
    began = time.monotonic()
    await client.gateway.end(str(taken["inbound_id"]), answer())
    _, message = await waiting
    assert time.monotonic() - began < 30
    assert message["outcome"] == "answered"


async def test_waiting_ends_with_the_seconds(client: Client) -> None:
    _, taken = await client.post(message_id="1", text="hi")
    began = time.monotonic()
    _, message = await client.call("GET", f"/api/v1/messages/{taken['inbound_id']}?wait=0.1")
    assert 0.09 < time.monotonic() - began < 30
    assert (message["state"], message["outcome"], message["reply"]) == ("received", None, None)


@pytest.mark.parametrize("wait", ["soon", "-1", "nan", "inf", "1e999", ""])
async def test_a_bad_wait_is_refused(client: Client, wait: str) -> None:
    assert "wait" in await client.refused("GET", f"/api/v1/messages/x?wait={wait}", 400)


async def test_a_message_that_runs_tells_its_turn(client: Client) -> None:
    _, taken = await client.post(message_id="1", text="hi")
    inbound_id = str(taken["inbound_id"])
    path = f"/api/v1/messages/{inbound_id}"
    ids = Ids(agent="main", session="main:web:owner:direct:main", inbound_id=inbound_id, turn_id="")
    client.gateway.events.emit(MessageAccepted(ticket=1, channel="web", account="owner", conversation="main", **ids))
    assert (await client.call("GET", path))[1]["turn_id"] is None
    ids["turn_id"] = "turn-9"
    client.gateway.events.emit(ExecutionStarted(resumed=False, **ids))
    assert (await client.call("GET", path))[1]["turn_id"] == "turn-9"
    await client.gateway.end(inbound_id, answer())
    assert (await client.call("GET", path))[1]["turn_id"] == "turn-1"


async def test_unknown_and_foreign_messages_look_the_same(client: Client) -> None:
    client.gateway.remember("theirs", "main:web:somebody:direct:main", "somebody")
    unknown = await client.refused("GET", "/api/v1/messages/nothing", 404)
    assert unknown == await client.refused("GET", "/api/v1/messages/theirs", 404)


async def test_turns(client: Client) -> None:
    _, body = await client.call("GET", "/api/v1/turns?limit=2")
    items = body["items"]
    assert isinstance(items, list)
    assert len(items) == 2  # pyright: ignore[reportUnknownArgumentType]
    assert items[0]["turn_id"] == "turn-1"
    for limit in ("0", "-1", "501", "many", "١", "9" * 5_000):
        assert "limit" in await client.refused("GET", f"/api/v1/turns?limit={limit}", 400)


@pytest.mark.spec("PC-04")
async def test_costs_with_their_sum(client: Client) -> None:
    _, body = await client.call("GET", "/api/v1/costs?days=7&by=user")
    told = msgspec.convert(body, CostsView)
    assert (told.days, told.by, [each.name for each in told.items]) == (7, "user", ["one user", "another user"])
    assert (told.total.calls, told.total.cost, told.total.saved) == (14, Decimal("0.2"), Decimal("-0.04"))
    assert told.total.usage == Usage(input=20, output=10, cache_read=200)
    _, body = await client.call("GET", "/api/v1/costs")
    assert (msgspec.convert(body, CostsView).days, msgspec.convert(body, CostsView).by) == (30, "day")
    for days in ("0", "-1", "3661", "many", "١", "9" * 5_000, ""):
        assert "days" in await client.refused("GET", f"/api/v1/costs?days={days}", 400)
    for by in ("", "calls", "day;DROP TABLE spend", "DAY"):
        assert "by must be" in await client.refused("GET", f"/api/v1/costs?by={by}", 400)


async def test_one_turn_is_told_whole_by_its_own_or_its_messages_id(client: Client) -> None:
    for name in ("turn-1", "in-1"):
        status, body = await client.call("GET", f"/api/v1/turns/{name}")
        assert status == 200
        assert msgspec.convert(body, TurnTrace) == await client.gateway.turn(name)
    for name in ("turn-2", "t-%00", "x" * 3_000, "%F0%9F%A6%9E"):
        assert "GET /api/v1/turns" in await client.refused("GET", f"/api/v1/turns/{name}", 404)


async def test_status(client: Client) -> None:
    _, body = await client.call("GET", "/api/v1/status")
    assert (body["market"], body["model"]) == ("demo", "offline/demo")
    assert body["counts"] == structs.asdict(await client.gateway.counts())
    assert body["unreachable"] == [{"channel": "telegram", "conversation": "42", "reason": "blocked the bot"}]


async def test_unknown_paths_and_methods_are_json_too(client: Client) -> None:
    assert "/nowhere" in await client.refused("GET", "/nowhere", 404)
    assert "POST" in await client.refused("DELETE", "/api/v1/messages", 405)


def _json() -> dict[str, str]:
    return {**AUTH, "Content-Type": "application/json"}
