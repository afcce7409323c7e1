"""Failures: told by status, type, code and class, never by words."""

import socket
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
from finclaw.providers.http.failure import (
    Complaint,
    Kinds,
    connection_lost_error,
    read_complaint,
    retry_after_seconds,
    status_error,
    stream_error,
    unreachable_error,
)

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
    assert type(status_error("api", status, None, body, KINDS)) is error


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
    assert type(status_error("api", 500, None, msgspec.json.encode(said), KINDS)) is error


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
    assert type(stream_error("api", complaint, KINDS)) is error


@pytest.mark.spec("RT-03")
@pytest.mark.parametrize(
    ("error", "meant", "words"),
    [
        (TimeoutError(), ProviderTimeout, "api was silent for too long"),
        (ConnectionResetError(), StreamCut, "api: the line broke off: ConnectionResetError"),
        (OSError("it hung up"), StreamCut, "api: the line broke off: it hung up"),
        (
            OSError(104, "HttpConnection reset by peer"),
            StreamCut,
            "api: the line broke off: HttpConnection reset by peer",
        ),
    ],
)
def test_a_line_that_was_lost(error: OSError, meant: type[ProviderError], words: str) -> None:
    told = connection_lost_error("api", error)
    assert (type(told), str(told)) == (meant, words)


@pytest.mark.spec("RT-03")
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionRefusedError(111, "Connect call failed"), "nobody listens there"),
        (OSError(111, "Multiple exceptions: …"), "nobody listens there"),
        (socket.gaierror(-2, "Name or service not known"), "nobody knows a machine of that name"),
        (OSError(113, "No route to host"), "No route to host"),
        (ConnectionError("no connection within 10 s"), "no connection within 10 s"),
        (OSError(), "OSError"),
    ],
)
def test_a_server_that_is_not_reached_is_told_in_words(error: OSError, words: str) -> None:
    told = unreachable_error("api", "127.0.0.1:11434", error)
    assert (type(told), str(told)) == (Unreachable, f"api cannot be reached at 127.0.0.1:11434: {words}")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>", ": 502 Bad Gateway"),
        (b"<!doctype html><TITLE lang=en>\n Sign\x1b in </TITLE>", ": Sign in"),
        (b"404 page not found\n", ": 404 page not found"),
        (b'{"detail":"Not Found"}', ": Not Found"),
        (b'{"detail":[{"loc":["body"]}]}', ""),
        (b"<html>no title</html>", ""),
        (b"x" * 9_999, ": " + "x" * 100),
        (b"\xff\xfe\x00", ": ��"),
    ],
)
def test_a_page_is_told_by_its_headline(body: bytes, words: str) -> None:
    assert str(status_error("api", 502, None, body, KINDS)) == f"api answered 502{words}"


def test_what_a_person_reads_is_short_and_names_the_server() -> None:
    told = str(
        status_error(
            "api", 400, None, msgspec.json.encode({"error": {"type": "invalid", "message": "x" * 9_999}}), KINDS
        )
    )
    assert told.startswith("api answered 400 invalid: xxx")
    assert len(told) < 600
    assert str(status_error("api", 500, None, b"", KINDS)) == "api answered 500"


@pytest.mark.parametrize("status", [429, 503, 529])
def test_the_wait_travels_with_the_error(status: int) -> None:
    error = status_error("api", status, 7.0, b"", KINDS)
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
    waited = retry_after_seconds(headers, NOW)
    assert waited is None if seconds is None else waited == pytest.approx(seconds, rel=1e-3)


NUMBER = st.integers(-9, 10**25).map(str)
DATES = st.builds(
    "Wed, {} Oct {} {}:{}:{} {}".format, NUMBER, NUMBER, NUMBER, NUMBER, NUMBER, st.text() | NUMBER.map("+{}".format)
)


@given(st.text() | DATES)
def test_no_header_breaks_anything(value: str) -> None:
    waited = retry_after_seconds({"retry-after": value}, NOW)
    assert waited is None or waited >= 0


@given(st.binary() | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(msgspec.json.encode))
def test_no_body_breaks_anything(body: bytes) -> None:
    read_complaint(body)
    assert type(status_error("api", 429, None, body, KINDS)) is RateLimited


def test_a_body_nested_too_deep() -> None:
    assert type(status_error("api", 429, None, b'{"error":' + b"[" * 100_000, KINDS)) is RateLimited
