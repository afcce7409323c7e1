"""The routes for sessions: lists, conversations as pages and as files, and what changes them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import aiohttp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.machine import examples
from tests.web.conftest import AUTH, TOKEN, Client

from finclaw.channels.mailbox import MailboxChannel
from finclaw.composition.gateway import build
from finclaw.config.schema import Settings
from finclaw.errors import StoreCorrupt, StoreFailed
from finclaw.kernel.envelope import Inbound, Sender
from finclaw.kernel.message import Message, Source, Text, ToolCall
from finclaw.redaction import Secret
from finclaw.sessions.session_key import session_key
from finclaw.transcript.conversation_file import write_conversation
from finclaw.web.server import serve_web
from finclaw.web.settings import WebServerSettings

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ODD = "main:web:owner:direct:%EC%82%BC+50%25%2F%2B+owner:a%3Ab"


def said(id: str, text: str = "hello") -> Message:
    return Message(id, "user", (Text(text),), Source("user"), AT)


def at(key: str, action: str) -> str:
    return f"/api/v1/sessions/{quote(key, safe='')}/{action}"


@pytest.fixture
def client(client: Client) -> Client:
    client.gateway.conversations = {
        "a": tuple(said(str(number)) for number in range(5)),
        "b": (),
        ODD: (said("odd"),),
    }
    return client


# ── lists ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_sessions_come_in_pages(client: Client) -> None:
    _, page = await client.call("GET", "/api/v1/sessions?limit=2")
    assert page["items"] == [
        {
            "key": key,
            "created_at": "2026-01-02T03:04:05Z",
            "updated_at": "2026-01-02T03:04:05Z",
            "messages": n,
            "turns": 1,
        }
        for key, n in (("a", 5), ("b", 0))
    ]
    _, page = await client.call("GET", f"/api/v1/sessions?limit=2&after={page['after']}")
    assert [each["key"] for each in page["items"]] == [ODD]  # pyright: ignore
    assert page["after"] is None
    _, page = await client.call("GET", f"/api/v1/sessions?containing={quote('%EC%82%BC+')}")
    assert [each["key"] for each in page["items"]] == [ODD]  # pyright: ignore


@pytest.mark.parametrize("path", ["/api/v1/sessions", "/api/v1/sessions/a/messages"])
@pytest.mark.parametrize("limit", ["0", "-1", "501", "many", "١", "9" * 5_000])
async def test_a_bad_limit_is_refused(client: Client, path: str, limit: str) -> None:
    assert "limit" in await client.refused("GET", f"{path}?limit={limit}", 400)


async def test_messages_come_in_pages(client: Client) -> None:
    seen: list[str] = []
    after = ""
    while True:
        _, page = await client.call("GET", at("a", "messages") + f"?limit=2{after}")
        seen += [each["id"] for each in page["items"]]  # pyright: ignore
        if page["after"] is None:
            break
        after = f"&after={page['after']}"
    assert seen == ["0", "1", "2", "3", "4"]
    _, empty = await client.call("GET", at("b", "messages"))
    assert empty == {"session": "b", "items": [], "after": None}
    assert "after" in await client.refused("GET", at("a", "messages") + "?after=nobody", 400)


async def test_a_key_full_of_escapes_is_escaped_once_more(client: Client) -> None:
    _, page = await client.call("GET", at(ODD, "messages"))
    assert page["session"] == ODD
    once = f"/api/v1/sessions/{ODD}/messages"  # as it is, its escapes are read as escapes
    async with client.session.get(client.url + once, headers=AUTH) as response:
        assert response.status == 404


PARTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(PARTS, PARTS, PARTS, st.none() | PARTS)
async def test_every_key_survives_the_path(
    client: Client, account: str, conversation: str, sender: str, thread: str | None
) -> None:
    inbound = Inbound(
        text="", channel="web", message_id="1", account=account, conversation=conversation, sender=Sender(sender),
        thread=thread,
    )  # fmt: skip
    key = session_key("main", inbound)
    client.gateway.conversations = {key: (said("1"),)}
    status, page = await client.call("GET", at(key, "messages"))
    assert (status, page.get("session")) == (200, key)


@pytest.mark.parametrize(
    ("method", "action"),
    [("GET", "messages"), ("GET", "export"), ("POST", "fork"), ("POST", "reset"), ("POST", "repair")],
)
async def test_an_unknown_session_is_said_to_be(client: Client, method: str, action: str) -> None:
    body = {"json": {"into": "new"} if action == "fork" else {}} if method == "POST" else {}
    assert "no such session" in await client.refused(method, at("nobody", action), 404, **body)


# ── files ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_was_exported_is_imported(client: Client) -> None:
    async with client.session.get(client.url + at("a", "export"), headers=AUTH) as response:
        assert (response.status, response.content_type) == (200, "application/x-ndjson")
        content = await response.read()
    assert content == write_conversation("a", client.gateway.conversations["a"])
    status, body = await client.call("POST", at("copy:%EC", "import"), data=content)
    assert (status, body) == (201, {"session": "copy:%EC", "messages": 5})
    assert client.gateway.conversations["copy:%EC"] == client.gateway.conversations["a"]


async def test_a_file_may_be_longer_than_a_message(client: Client) -> None:
    long = write_conversation("x", [said(str(number), "x" * 1_000) for number in range(100)])
    assert (await client.call("POST", at("long", "import"), data=long))[0] == 201


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("finclaw.web.sessions_api.LARGEST_FILE", 5_000)


@pytest.mark.usefixtures("small_files")
async def test_a_file_has_a_limit_too(client: Client) -> None:
    long = write_conversation("x", [said(str(number), "x" * 1_000) for number in range(100)])
    assert "5000 bytes" in await client.refused("POST", at("long", "import"), 413, data=long)
    assert "long" not in client.gateway.conversations


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b"", "line 1"),
        (b"{}", "line 1"),
        (b"\xff", "line 1"),
        (b"[" * 5_000, "line 1"),
        (write_conversation("x", [said("1"), said("1")]), "line 3"),
        (write_conversation("x", [said("1")]) + b"{oops", "line 3"),
    ],
)
async def test_a_file_that_is_none_is_refused_by_line(client: Client, data: bytes, named: str) -> None:
    assert named in await client.refused("POST", at("new", "import"), 400, data=data)
    assert "new" not in client.gateway.conversations


@pytest.mark.parametrize("key", ["a b", "가", "\n", "x" * 4_001, "\x7f"])
async def test_a_new_key_is_visible_ascii(client: Client, key: str) -> None:
    content = write_conversation("x", [said("1")])
    assert "key" in await client.refused("POST", at(key, "import"), 400, data=content)
    if len(key) < 1_000:  # a longer body does not get that far here
        assert "into" in await client.refused("POST", at("a", "fork"), 400, json={"into": key})


async def test_a_full_session_is_not_filled(client: Client) -> None:
    content = write_conversation("x", [said("1")])
    assert "has messages already" in await client.refused("POST", at("a", "import"), 409, data=content)
    assert "has messages already" in await client.refused("POST", at(ODD, "fork"), 409, json={"into": "a"})


@pytest.mark.parametrize(("failure", "status"), [(StoreFailed("/secret"), 503), (StoreCorrupt("/secret"), 500)])
async def test_what_the_disk_refused_shows_no_path(client: Client, failure: Exception, status: int) -> None:
    client.gateway.fails = failure
    assert "/secret" not in await client.refused("POST", at("a", "fork"), status, json={"into": "new"})


# ── changes ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_fork_reset_and_repair(client: Client) -> None:
    status, body = await client.call("POST", at("a", "fork"), json={"into": "a2"})
    assert (status, body) == (201, {"session": "a2", "messages": 5})
    assert await client.call("POST", at("a", "reset")) == (200, {"session": "a", "messages": 0})
    assert [len(client.gateway.conversations[key]) for key in ("a", "a2")] == [0, 5]

    broken = Message("ask", "assistant", (ToolCall("c", "quote"),), Source("assistant"), AT)
    client.gateway.conversations["a"] = (said("1"), broken, said("2"))
    _, told = await client.call("POST", at("a", "repair"), json={"dry_run": True})
    assert [each["kind"] for each in told["findings"]] == ["missing-tool-result"]  # pyright: ignore
    assert len(client.gateway.conversations["a"]) == 3
    await client.call("POST", at("a", "repair"), json={})
    assert len(client.gateway.conversations["a"]) == 4


async def test_prune_says_what_counted(client: Client) -> None:
    _, body = await client.call("POST", "/api/v1/prune", json={"older_than_days": 365, "dry_run": True})
    assert body == {"messages": 3, "sessions": 2, "older_than_days": 365, "dry_run": True}
    _, body = await client.call("POST", "/api/v1/prune", json={"older_than_days": 7})
    assert body["older_than_days"] == 30
    assert client.gateway.pruned == [(timedelta(days=365), True), (timedelta(days=30), False)]


@pytest.mark.parametrize(
    "body", [{}, {"older_than_days": 0}, {"older_than_days": -1}, {"older_than_days": 10**9}, {"older_than_days": "1"}]
)
async def test_a_prune_that_does_not_fit_is_refused(client: Client, body: object) -> None:
    assert "older_than_days" in await client.refused("POST", "/api/v1/prune", 400, json=body)
    await client.refused("POST", "/api/v1/prune", 415, data=b'{"older_than_days": 365}')
    assert not client.gateway.pruned


# ── through the whole house ─────────────────────────────────────────────────────────────────────────────────


async def test_a_reset_from_outside_is_noticed_by_the_gateway(tmp_path: Path) -> None:
    """What the gateway keeps in memory of a conversation is not used after it was reset, and refilled, by the API."""

    def asked(id: str, text: str) -> Inbound:
        return Inbound(
            text=text, channel="web", account="owner", conversation="main", message_id=id, sender=Sender("owner")
        )

    async with (
        build(Settings(state=tmp_path), channels=(MailboxChannel("web"),)) as app,
        serve_web(app, WebServerSettings(port=0), Secret(TOKEN)) as server,
        aiohttp.ClientSession(server.url, headers=AUTH) as http,
    ):
        await app.handle(asked("1", "What is AAPL trading at?"))
        (record,) = (await app.sessions(10)).items
        async with http.get(at(record.key[:-1], "messages")) as response:
            assert response.status == 404
        before = await app.messages(record.key)
        async with http.post(at(record.key, "reset")) as response:
            assert response.status == 200
        assert await app.messages(record.key) == ()
        await app.handle(asked("2", "What is MSFT trading at?"))
        after = await app.messages(record.key)
        assert 0 < len(after) < len(before) + len(after)
        assert not {each.id for each in after} & {each.id for each in before}
        async with http.post(at(record.key, "fork"), json={"into": "main:web:owner:direct:try+owner"}) as response:
            assert response.status == 201
        assert await app.messages("main:web:owner:direct:try+owner") == after
