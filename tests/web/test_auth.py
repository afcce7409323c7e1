"""Who is let in: the place, the limiter, the token, the scope."""

import re

import pytest
from tests.web.conftest import AUTH, TOKEN, Client
from tests.web.gateway import MemoryGateway

from finclaw.redaction import Secret
from finclaw.testing import FakeClock
from finclaw.web.auth import Authenticator, Throttle, check_place
from finclaw.web.errors import ApiError
from finclaw.web.live import LiveStream
from finclaw.web.principal import OWNER, MessageBody, Principal, Scope, inbound
from finclaw.web.server import WebRoutes
from finclaw.web.settings import WebServerSettings

PATHS = [
    ("POST", "/api/v1/messages"),
    ("GET", "/api/v1/messages"),
    ("GET", "/api/v1/messages/x"),
    ("POST", "/api/v1/messages/x/stop"),
    ("GET", "/api/v1/status"),
    ("GET", "/api/v1/sessions"),
    ("GET", "/api/v1/sessions/x/messages"),
    ("GET", "/api/v1/sessions/x/queue"),
    ("GET", "/api/v1/sessions/x/export"),
    ("POST", "/api/v1/sessions/x/import"),
    ("POST", "/api/v1/sessions/x/fork"),
    ("POST", "/api/v1/sessions/x/reset"),
    ("POST", "/api/v1/sessions/x/stop"),
    ("POST", "/api/v1/sessions/x/repair"),
    ("DELETE", "/api/v1/sessions/x"),
    ("POST", "/api/v1/forget"),
    ("POST", "/api/v1/backup"),
    ("POST", "/api/v1/prune"),
    ("GET", "/api/v1/turns"),
    ("GET", "/api/v1/turns/x"),
    ("GET", "/api/v1/costs"),
    ("GET", "/api/v1/approvals"),
    ("GET", "/api/v1/approvals/x"),
    ("POST", "/api/v1/approvals/x/approve"),
    ("POST", "/api/v1/approvals/x/deny"),
    ("GET", "/api/v1/grants"),
    ("POST", "/api/v1/grants/x/revoke"),
    ("GET", "/api/v1/people"),
    ("POST", "/api/v1/people"),
    ("GET", "/api/v1/stream"),
]
WRONG = [
    "",
    "Bearer",
    "Bearer ",
    "Bearer wrong",
    f"Basic {TOKEN}",
    TOKEN,
    f"Bearer {TOKEN}x",
    f"Bearer {TOKEN[:-1]}",
    f"Bearer {TOKEN.upper()}",
    f"Bearer {TOKEN} {TOKEN}",
    "Bearer é",
]


@pytest.mark.parametrize(("method", "path"), PATHS)
async def test_every_route_wants_the_token(client: Client, method: str, path: str) -> None:
    assert "Authorization: Bearer" in await client.refused(method, path, 401, headers={})
    assert "Authorization: Bearer" in await client.refused(method, f"{path}?token={TOKEN}", 401, headers={})
    for value in WRONG:
        assert "Authorization: Bearer" in await client.refused(method, path, 401, headers={"Authorization": value})


async def test_the_routes_above_are_all_there_are() -> None:
    routes = WebRoutes(MemoryGateway(), WebServerSettings(), Secret(TOKEN), LiveStream()).authenticated_routes()
    assert [(route.method, re.sub(r"\{\w+\}", "x", route.path)) for route in routes] == PATHS


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """No time passes at the door, else the bucket of wrong tokens empties as fast as we are slow."""
    monkeypatch.setattr("finclaw.web.server.SystemClock", FakeClock)


@pytest.mark.usefixtures("still")
async def test_wrong_tokens_are_limited_and_do_not_lock_out_the_right_one(client: Client) -> None:
    """Security trial H12a."""
    statuses = [
        (await client.call("GET", "/api/v1/status", headers={"Authorization": f"Bearer guess{n}"}))[0]
        for n in range(30)
    ]
    assert statuses[:20] == [401] * 20
    assert statuses[-1] == 429
    assert (await client.call("GET", "/api/v1/status"))[0] == 200
    wrong = {"Authorization": "Bearer guess"}
    for _ in range(100):
        assert (await client.call("GET", "/api/v1/status", headers=wrong))[0] == 429
    assert (await client.call("GET", "/api/v1/status"))[0] == 200
    assert (await client.call("GET", "/api/v1/status", headers={}))[0] == 401
    assert (await client.call("GET", "/healthz"))[0] == 200


def test_the_limiter_recovers() -> None:
    now = [0.0]
    throttle = Throttle(lambda: now[0], burst=2, per_second=1.0)
    throttle.note_failure()
    throttle.note_failure()
    with pytest.raises(ApiError):
        throttle.note_failure()
    now[0] = 1.0
    throttle.note_failure()


@pytest.mark.parametrize("scope", ["messages", "status"])
def test_a_scope_that_was_not_given_is_missing(scope: Scope) -> None:
    authenticator = Authenticator(Secret(TOKEN), Principal("guest"), Throttle(lambda: 0.0))
    with pytest.raises(ApiError, match=scope) as caught:
        authenticator.admit(AUTH["Authorization"], scope)
    assert caught.value.status == 403


def test_labels_carry_roles_only_with_the_scope() -> None:
    body = MessageBody(message_id="1", text="hi", sender="alice")
    assert inbound(OWNER, body).sender.roles == ()
    trusted = Principal("owner", ("owner",), frozenset({"messages", "impersonate"}))
    assert inbound(trusted, body).sender.roles == ("owner",)


@pytest.mark.parametrize("host", ["127.0.0.1:8787", "localhost:8787", "LOCALHOST:8787", "[::1]:8787"])
def test_our_own_names(host: str) -> None:
    check_place(host, None, 8787)
    check_place(host, f"http://{host}", 8787)


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "evil.example:8787",
        "127.0.0.1",
        "127.0.0.1:80",
        "127.0.0.1.evil.example:8787",
        "0.0.0.0:8787",
        "localhost.:8787",
        "127.1:8787",
        "user@127.0.0.1:8787",
        "127.0.0.1:8787@evil.example",
        "[::ffff:127.0.0.1]:8787",
    ],
)
def test_a_rebound_name_is_refused(host: str | None) -> None:
    with pytest.raises(ApiError, match=r"127\.0\.0\.1:8787"):
        check_place(host, None, 8787)


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        "http://evil.example",
        "https://127.0.0.1:8787",
        "http://127.0.0.1",
        "http://127.0.0.1:87870",
        "http://localhost:8787",
        "http://127.0.0.1:8787.evil.example",
        "file://",
        "http://127.0.0.1:8787/",
    ],
)
def test_a_foreign_page_is_refused(origin: str) -> None:
    with pytest.raises(ApiError, match="other sites"):
        check_place("127.0.0.1:8787", origin, 8787)


async def test_place_is_checked_on_every_path(client: Client) -> None:
    for path in ("/", "/healthz", "/readyz", "/api/v1/status", "/nowhere"):
        await client.refused("GET", path, 403, headers={**AUTH, "Host": "evil.example"})
        await client.refused("GET", path, 403, headers={**AUTH, "Origin": "http://evil.example"})
    status, _ = await client.call("GET", "/api/v1/status", headers={**AUTH, "Origin": client.url})
    assert status == 200
    assert (await client.call("OPTIONS", "/api/v1/messages", headers={"Origin": client.url}))[0] == 405
