"""The routes that erase: one session, or one person."""

from tests.web.conftest import Client

from finclaw.kernel.event import MessageAccepted, SessionsErased
from finclaw.web.live import LiveStream

KEY = "main:web:owner:direct:main+owner"
PATH = "/api/v1/sessions/main%3Aweb%3Aowner%3Adirect%3Amain%2Bowner"


async def test_a_session_is_erased_and_told_of(client: Client) -> None:
    client.gateway.conversations[KEY] = ()
    status, looked = await client.call("DELETE", f"{PATH}?dry_run=true")
    assert (status, looked["sessions"], looked["messages"]) == (200, [KEY], 1)
    assert KEY in client.gateway.conversations
    status, erased = await client.call("DELETE", PATH)
    assert (status, erased["sessions"]) == (200, [KEY])
    assert client.gateway.conversations == {}
    assert (await client.call("DELETE", PATH))[0] == 200, "what is gone may be erased again"


async def test_a_session_with_a_message_that_waits_is_a_conflict(client: Client) -> None:
    client.gateway.conversations[KEY] = ()
    client.gateway.busy.add(KEY)
    assert "not answered yet" in await client.refused("DELETE", PATH, 409)


async def test_a_person_is_forgotten(client: Client) -> None:
    body = {"person": "telegram:bot:42"}
    assert (await client.call("POST", "/api/v1/forget", json={**body, "dry_run": True}))[0] == 200
    assert client.gateway.forgotten == []
    assert (await client.call("POST", "/api/v1/forget", json=body))[0] == 200
    assert client.gateway.forgotten == ["telegram:bot:42"]
    assert "CHANNEL:ACCOUNT:SENDER" in await client.refused("POST", "/api/v1/forget", 400, json={"person": "nobody"})


async def test_nobody_erases_without_the_token(client: Client) -> None:
    for method, path in (("DELETE", PATH), ("POST", "/api/v1/forget")):
        await client.refused(method, path, 401, headers={})


async def test_the_live_stream_keeps_nothing_of_what_was_erased() -> None:
    """Whoever follows from before is told to begin anew, and is not given what was erased."""
    live = LiveStream()
    about = {"session": KEY, "inbound_id": "m-1", "channel": "web", "account": "owner", "conversation": "main"}
    live.observe(MessageAccepted(ticket=1, **about))  # pyright: ignore[reportArgumentType]
    live.observe(SessionsErased(sessions=(KEY,)))
    first = await anext(live.follow("owner", None, live.beginning))
    assert first.type == "reset"
