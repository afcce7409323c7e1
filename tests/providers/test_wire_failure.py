"""Failures: told by status, type, code and class, never by words."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from finclaw.errors import (
    AuthFailed,
    BadRequest,
    ContextTooLong,
    NotFound,
    Overloaded,
    ProviderError,
    ProviderTimeout,
    QuotaExceeded,
    RateLimited,
    ServerFailed,
    StreamCut,
    Unreachable,
)
from finclaw.providers.wire.failure import Complaint, Kinds, failed, lost, read_complaint, refused, seconds_to_wait

KINDS: Kinds = {"too_long": ContextTooLong, "invalid": BadRequest, "busy": Overloaded}
NOW = datetime(2026, 10, 21, 7, 28, tzinfo=UTC)
WORDS = "rate limit, overloaded, prompt is too long, invalid api key, quota"


@pytest.mark.spec("RT-03")
@pytest.mark.parametrize(
    ("status", "error"),
    [
        (307, NotFound),
        (400, BadRequest),
        (401, AuthFailed),
        (402, QuotaExceeded),
        (403, AuthFailed),
        (404, NotFound),
        (405, NotFound),
        (408, ProviderTimeout),
        (413, ContextTooLong),
        (422, BadRequest),
        (429, RateLimited),
        (500, ServerFailed),
        (502, ServerFailed),
        (503, Overloaded),
        (504, ProviderTimeout),
        (529, Overloaded),
        (599, ServerFailed),
    ],
)
@pytest.mark.parametrize("body", [b"", b"<html>", msgspec.json.encode({"error": {"type": "?", "message": WORDS}})])
def test_a_status_by_itself(status: int, error: type[ProviderError], body: bytes) -> None:
    assert type(refused("api", status, None, body, KINDS)) is error


@pytest.mark.spec("RT-03")
@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"error": {"type": "invalid", "code": "too_long"}}, ContextTooLong),
        ({"error": {"type": "invalid", "code": None}}, BadRequest),
        ({"error": {"type": "busy", "code": 400}}, Overloaded),
        ({"type": "busy", "message": "x"}, Overloaded),
        ({"error": "busy"}, ServerFailed),
        ({"error": ["busy"]}, ServerFailed),
        ({"error": {"type": {"busy": 1}, "code": [1]}}, ServerFailed),
        (["busy"], ServerFailed),
    ],
)
def test_a_code_says_more_than_a_type_and_a_type_more_than_a_status(said: Any, error: type[ProviderError]) -> None:
    assert type(refused("api", 500, None, msgspec.json.encode(said), KINDS)) is error


@pytest.mark.parametrize(
    ("complaint", "error"),
    [
        (Complaint("busy"), Overloaded),
        (Complaint("?", 429), RateLimited),
        (Complaint("?", True), ServerFailed),
        (Complaint(), ServerFailed),
    ],
)
def test_an_error_in_the_stream(complaint: Complaint, error: type[ProviderError]) -> None:
    assert type(failed("api", complaint, KINDS)) is error


@pytest.mark.spec("RT-03")
@pytest.mark.parametrize(
    ("error", "connected", "meant"),
    [
        (OSError("x"), False, Unreachable),
        (TimeoutError(), False, Unreachable),
        (TimeoutError(), True, ProviderTimeout),
        (ConnectionResetError(), True, StreamCut),
    ],
)
def test_a_line_that_was_lost(error: Exception, connected: bool, meant: type[ProviderError]) -> None:
    assert type(lost("api", error, connected=connected)) is meant


def test_what_a_person_reads_is_short_and_names_the_server() -> None:
    told = str(
        refused("api", 400, None, msgspec.json.encode({"error": {"type": "invalid", "message": "x" * 9_999}}), KINDS)
    )
    assert told.startswith("api answered 400 invalid: xxx")
    assert len(told) < 600
    assert str(refused("api", 500, None, b"", KINDS)) == "api answered 500"


@pytest.mark.parametrize("status", [429, 503, 529])
def test_the_wait_travels_with_the_error(status: int) -> None:
    error = refused("api", status, 7.0, b"", KINDS)
    assert isinstance(error, RateLimited | Overloaded)
    assert error.retry_after == 7.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-5"}, 0.0),
        ({"retry-after": "1e12"}, 1e12),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT"}, 30.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30"}, 30.0),
        ({"retry-after": "Wed, 21 Oct 2026 16:28:30 +0900"}, 30.0),
        ({"retry-after": "Tue, 20 Oct 2026 07:28:00 GMT"}, 0.0),
        ({"retry-after": "Wed, 21 Oct 9999 07:28:00 GMT"}, 251_604_403_200.0),
        ({"retry-after": "Wed, 99 Oct 2026 99:28:00 GMT"}, None),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after-ms": "x", "retry-after": "7"}, 7.0),
    ],
)
def test_how_long_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    waited = seconds_to_wait(headers, NOW)
    assert waited is None if seconds is None else waited == pytest.approx(seconds, rel=1e-3)


NUMBER = st.integers(-9, 10**25).map(str)
DATES = st.builds(
    "Wed, {} Oct {} {}:{}:{} {}".format, NUMBER, NUMBER, NUMBER, NUMBER, NUMBER, st.text() | NUMBER.map("+{}".format)
)


@given(st.text() | DATES)
def test_no_header_breaks_anything(value: str) -> None:
    waited = seconds_to_wait({"retry-after": value}, NOW)
    assert waited is None or waited >= 0


@given(st.binary() | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(msgspec.json.encode))
def test_no_body_breaks_anything(body: bytes) -> None:
    read_complaint(body)
    assert type(refused("api", 429, None, body, KINDS)) is RateLimited


def test_a_body_nested_too_deep() -> None:
    assert type(refused("api", 429, None, b'{"error":' + b"[" * 100_000, KINDS)) is RateLimited
