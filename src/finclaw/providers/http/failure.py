"""Errors of model APIs, classified by status, type, code and class of exception. An error's words are for people only.

Every provider brings its own table from type or code to error; the statuses mean the same everywhere.
"""

import math
import re
import socket
import ssl
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

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
from finclaw.redaction import hide_known_secrets

Kinds = Mapping[str, type[ProviderError]]  # what the types and codes of one API mean

LONGEST_WORDS: Final = 500
LONGEST_HEADLINE: Final = 100
LONGEST_HEADLINE_PAGE: Final = 4_096  # bytes in which the title of a page is looked for

_TITLE: Final = re.compile(r"<title[^<>]*>([^<]*)", re.IGNORECASE)

_BY_STATUS: Final[Mapping[int, type[ProviderError]]] = {
    401: AuthFailed,
    402: QuotaExceeded,
    403: AuthFailed,
    404: NotFound,
    405: NotFound,
    408: ProviderTimeout,
    410: NotFound,
    413: ContextTooLong,
    429: RateLimited,
    503: Overloaded,
    504: ProviderTimeout,
    524: ProviderTimeout,
    529: Overloaded,
}


class Complaint(Struct, frozen=True):
    """An error in a server's words. Servers disagree on what stands in a field, so anything may."""

    type: Any = None
    code: Any = None
    message: Any = None
    param: Any = None  # which part of the request it is about


class _Body(Struct):
    error: Any = None
    detail: Any = None  # FastAPI's word for a message
    type: Any = None
    code: Any = None
    message: Any = None
    param: Any = None


_decode: Final[Callable[[bytes], _Body | list[_Body]]] = msgspec.json.Decoder(_Body | list[_Body]).decode


def status_error(name: str, status: int, retry_after: float | None, body: bytes, kinds: Kinds) -> ProviderError:
    """The code or type in the body says more than the status, but for 413: some send a rate limit's code with it."""
    complaint = read_complaint(body)
    kind = error_class_of(status)
    if status != HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        kind = _class_by_code(complaint, kinds) or kind
    if complaint == Complaint():
        complaint = Complaint(message=_headline(body))
    return _error(kind, f"{name} answered {status}", complaint, retry_after)


def stream_error(name: str, complaint: Complaint, kinds: Kinds) -> ProviderError:
    kind = _class_by_code(complaint, kinds)
    if kind is None:
        kind = error_class_of(complaint.code) if type(complaint.code) is int else ServerFailed
    return _error(kind, f"{name} stopped its answer", complaint, None)


def unreachable_error(name: str, where: str, error: OSError) -> ProviderError:
    """The error behind a connection that could not be made. `where` is host and port."""
    return Unreachable(f"{name} cannot be reached at {where}: {_obstacle(error)}")


def connection_lost_error(name: str, error: OSError) -> ProviderError:
    if isinstance(error, TimeoutError):
        return ProviderTimeout(f"{name} was silent for too long")
    return StreamCut(f"{name}: the line broke off: {_words_of(error)}")


def _obstacle(error: OSError) -> str:
    match error:
        case ConnectionRefusedError():
            return "nobody listens there"
        case socket.gaierror():
            return "nobody knows a machine of that name"
        case ssl.SSLCertVerificationError():
            return f"its certificate is not trusted: {error.verify_message}"
        case ssl.SSLError() if error.reason == "WRONG_VERSION_NUMBER":
            return "it does not speak https; perhaps `base_url` should begin with http://"
        case _:
            return _words_of(error)


def _words_of(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__


def error_class_of(status: int) -> type[ProviderError]:
    if 300 <= status < 400:  # it wants to be asked elsewhere, and a key goes nowhere that nobody wrote down
        return NotFound
    if status >= 500:
        return _BY_STATUS.get(status, ServerFailed)
    return _BY_STATUS.get(status, BadRequest)


def read_complaint(body: bytes) -> Complaint:
    """From `{"error": {…}}`, `{"error": "words"}` or the bare fields, in a list or not; empty for a proxy's page."""
    try:
        read = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Complaint()
    if not isinstance(read, _Body):  # as Google's have it
        read = read[0] if read else _Body()
    if read.error is not None:
        return complaint_of(read.error)
    message = read.message
    if message is None and isinstance(read.detail, str):
        message = read.detail
    return Complaint(read.type, read.code, message, read.param)


def _headline(page: bytes) -> str | None:
    """What a proxy's page, or a line of plain text, says in a few words."""
    text = hide_known_secrets(page.decode("utf-8", "replace"))[:LONGEST_HEADLINE_PAGE].strip()
    title = _TITLE.search(text)
    if title:
        text = title[1]
    elif text[:1] in ("<", "{", "["):
        return None
    words = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return words[:LONGEST_HEADLINE] or None


def complaint_of(error: Any) -> Complaint:
    if isinstance(error, dict):
        fields = cast(dict[str, Any], error)
        return Complaint(fields.get("type"), fields.get("code"), fields.get("message"), fields.get("param"))
    return Complaint(message=error)


def retry_after_seconds(headers: Mapping[str, str], now: datetime) -> float | None:
    """How long the server asks us to wait: in milliseconds, in seconds or until a date. Absurd values are kept."""
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1_000
    told = headers.get("retry-after")
    if (seconds := _number(told)) is not None:
        return seconds
    try:
        until = parsedate_to_datetime(told or "")
    except (ValueError, OverflowError):  # no date, or one of a year that no calendar has
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    return max(0.0, (until - now).total_seconds())


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return max(0.0, number) if math.isfinite(number) else None


def _class_by_code(complaint: Complaint, kinds: Kinds) -> type[ProviderError] | None:
    """The code is finer than the type; who has neither may still name what it is about."""
    for word in (complaint.code, complaint.type, complaint.param):
        if isinstance(word, str) and word in kinds:
            return kinds[word]
    return None


def _error(kind: type[ProviderError], what: str, complaint: Complaint, retry_after: float | None) -> ProviderError:
    words = " ".join(str(word) for word in (complaint.type, complaint.code) if word is not None)
    words = hide_known_secrets(words)[:LONGEST_WORDS]
    # Before the cut: nobody would know half of a key for what it is.
    message = ""
    if complaint.message is not None:
        message = hide_known_secrets(str(complaint.message))[:LONGEST_WORDS]
    said = f"{what} {words}: {message}".rstrip(" :").replace(" :", ":")
    if issubclass(kind, RateLimited | Overloaded):
        return kind(said, retry_after=retry_after)
    return kind(said)
