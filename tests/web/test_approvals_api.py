"""The routes for approvals: lists, one, and the word of whoever holds the token."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast, get_args

import pytest
from tests.ports.approval_nouns import wish
from tests.web.conftest import AUTH, TOKEN, Client

from finclaw.approvals.action import Action
from finclaw.approvals.people import PersonSettings
from finclaw.approvals.settings import ApprovalSettings
from finclaw.channels.mailbox import MailboxChannel
from finclaw.composition.gateway import build
from finclaw.config.schema import Settings
from finclaw.errors import StoreFailed
from finclaw.kernel.approval import Approval, RefusalReason
from finclaw.kernel.envelope import Inbound, Sender
from finclaw.kernel.scope import Outcome
from finclaw.redaction import Secret
from finclaw.web.approvals import REFUSED
from finclaw.web.server import serve_web
from finclaw.web.settings import WebServerSettings

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

pytestmark = pytest.mark.spec("DX-22")


@pytest.fixture
def waiting(client: Client) -> Approval:
    approval = wish(AT, args={"symbol": "삼성", "n": 10**30})
    client.gateway.waiting = {approval.id: approval}
    return approval


async def items(client: Client, query: str = "") -> list[dict[str, Any]]:
    _, page = await client.call("GET", f"/api/v1/approvals{query}")
    return cast("list[dict[str, Any]]", page["items"])


async def test_what_waits_is_listed_and_shown(client: Client, waiting: Approval) -> None:
    (shown,) = await items(client)
    assert (shown["id"], shown["args"]) == (waiting.id, {"symbol": "삼성", "n": 10**30})
    assert await items(client, "?session=other") == []
    assert await items(client, "?state=granted") == []
    assert len(await items(client, "?state=all&limit=1")) == 1
    status, one = await client.call("GET", f"/api/v1/approvals/{waiting.id}")
    assert (status, one["card"], one["state"]) == (200, "the card", "pending")


@pytest.mark.parametrize("query", ["state=open", "state=", "limit=0", "limit=501", "limit=x"])
async def test_a_question_that_makes_no_sense_is_refused(client: Client, query: str) -> None:
    await client.refused("GET", f"/api/v1/approvals?{query}", 400)


async def test_the_tokens_holder_decides_as_themselves(client: Client, waiting: Approval) -> None:
    path = f"/api/v1/approvals/{waiting.id}"
    status, decided = await client.call("POST", f"{path}/approve", json={"scope": "session"})
    assert (status, decided["state"]) == (200, "granted")
    status, decided = await client.call("POST", f"{path}/deny", json={"reason": "too much"})
    assert (status, decided["state"]) == (200, "denied")
    (by, scope, _), (_, _, reason) = client.gateway.decisions
    assert (by.channel, by.account, by.sender, scope, reason) == (
        "web",
        "owner",
        Sender("owner"),
        "session",
        "too much",
    )


@pytest.mark.parametrize(
    "body",
    [{"scope": "forever"}, {"by": "mina"}, {"sender": "mina"}, {"reason": "x"}, {"roles": ["approver"]}, [], "once"],
)
async def test_nothing_in_a_request_says_who_decides(client: Client, waiting: Approval, body: object) -> None:
    await client.refused("POST", f"/api/v1/approvals/{waiting.id}/approve", 400, json=body)
    assert client.gateway.decisions == []


@pytest.mark.parametrize("why", [each for part in get_args(RefusalReason) for each in (get_args(part) or (part,))])
async def test_a_refusal_says_why_and_what_to_do(client: Client, waiting: Approval, why: RefusalReason) -> None:
    client.gateway.refuses = why
    status, words = REFUSED[why]
    assert words in await client.refused("POST", f"/api/v1/approvals/{waiting.id}/approve", status, json={})


async def test_what_is_not_there_and_a_disk_that_fails(client: Client) -> None:
    await client.refused("GET", "/api/v1/approvals/ap-none", 404)
    client.gateway.fails = StoreFailed("full")
    await client.refused("POST", "/api/v1/approvals/x/deny", 503, json={})


async def test_a_whole_gateway_takes_the_tokens_word(tmp_path: Path) -> None:
    mina = PersonSettings(name="Mina", known_as=("memory:local:mina",), roles=("approver",))
    settings = Settings(state=tmp_path, people=(mina,), approvals=ApprovalSettings())
    async with (
        build(settings, channels=[MailboxChannel("web")]) as app,
        serve_web(app, WebServerSettings(port=0), Secret(TOKEN)) as server,
    ):
        asked = await app.consents.ask(
            Action(
                tool="t",
                args={},
                inbound=Inbound(text="buy", channel="api", conversation="c", sender=Sender("ada")),
                session="main:api:local:direct:c+ada",
                inbound_id="m",
                turn_id="t",
                call_id="c",
            )
        )
        import aiohttp

        async with aiohttp.ClientSession(server.url, headers=AUTH) as session:
            path = f"/api/v1/approvals/{asked.id}"
            async with session.post(f"{path}/deny", json={"reason": "no"}) as response:
                assert (response.status, (await response.json())["decided_by"]) == (200, "web:owner:owner")
            async with session.post(f"{path}/approve", json={}) as response:
                assert (response.status, (await response.json())["error"]["code"]) == (409, "already_denied")


async def test_an_approval_answers_with_what_came_of_it(client: Client, waiting: Approval) -> None:
    """User trial B8: it said "granted", and never what came of it."""
    client.gateway.runs[waiting.id] = Outcome(kind="answered", reply="It was bought.", turn_id="t-9")
    _, said = await client.call("POST", f"/api/v1/approvals/{waiting.id}/approve", json={})
    assert said["run"] == {"outcome": "answered", "reply": "It was bought.", "turn_id": "t-9"}


async def test_an_approval_need_not_wait(client: Client, waiting: Approval) -> None:
    client.gateway.runs[waiting.id] = Outcome(kind="answered", reply="It was bought.")
    status, _ = await client.call("POST", f"/api/v1/approvals/{waiting.id}/approve?wait=1000", json={})
    assert (status, client.gateway.decisions) == (400, [])
    _, said = await client.call("POST", f"/api/v1/approvals/{waiting.id}/approve?wait=0", json={})
    assert said["run"] is None


async def test_a_list_says_what_waits(client: Client, waiting: Approval) -> None:
    """User trial B8."""
    (item,) = await items(client)
    assert 'broker__order: symbol = "삼성"' in item["action"]
    assert waiting.id.startswith(item["short_id"])
    assert len(item["short_id"]) == 11
