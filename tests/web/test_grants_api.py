"""The routes for every yes that stands."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from tests.web.conftest import Client

from finclaw.errors import StoreFailed
from finclaw.kernel.approval import RefusalReason, Standing
from finclaw.kernel.envelope import Sender

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

pytestmark = pytest.mark.spec("DX-22")


@pytest.fixture
def grant(client: Client) -> Standing:
    found = Standing(
        id="ap-1",
        tool="garden__water",
        args={"plant": "토마토"},
        requester="memory:local:ada",
        session=None,
        granted_by="memory:local:ada",
        granted_at=AT,
        expires_at=AT + timedelta(days=90),
    )
    client.gateway.standing = {found.id: found}
    return found


async def test_they_are_listed_and_taken_back(client: Client, grant: Standing) -> None:
    status, page = await client.call("GET", "/api/v1/grants")
    (shown,) = cast("list[dict[str, Any]]", page["items"])
    assert (status, shown["id"], shown["args"]) == (200, "ap-1", {"plant": "토마토"})
    assert shown["expires_at"] == "2026-04-02T03:04:05Z"
    status, revoked = await client.call("POST", "/api/v1/grants/ap-1/revoke", json={})
    assert (status, revoked) == (200, shown)
    ((by, what, _),) = client.gateway.decisions
    assert (by.channel, by.account, by.sender, what) == ("web", "owner", Sender("owner"), "revoke")
    assert (await client.call("GET", "/api/v1/grants"))[1] == {"items": []}
    await client.refused("POST", "/api/v1/grants/ap-1/revoke", 404, json={})


@pytest.mark.parametrize("body", [{"by": "mina"}, {"sender": "mina"}, [], "now"])
async def test_nothing_in_a_request_says_who_it_is(client: Client, grant: Standing, body: object) -> None:
    await client.refused("POST", "/api/v1/grants/ap-1/revoke", 400, json=body)
    assert client.gateway.standing == {grant.id: grant}


@pytest.mark.parametrize("why", ["not_an_approver", "our_own_words"])
async def test_a_refusal_says_why(client: Client, grant: Standing, why: RefusalReason) -> None:
    client.gateway.refuses = why
    await client.refused("POST", "/api/v1/grants/ap-1/revoke", 403, json={})


@pytest.mark.parametrize("query", ["limit=0", "limit=501", "limit=x"])
async def test_a_question_that_makes_no_sense_is_refused(client: Client, query: str) -> None:
    await client.refused("GET", f"/api/v1/grants?{query}", 400)


async def test_a_disk_that_fails_is_told(client: Client, grant: Standing) -> None:
    client.gateway.fails = StoreFailed("full")
    await client.refused("POST", "/api/v1/grants/ap-1/revoke", 503, json={})
