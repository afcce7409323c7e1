"""What went wrong, told by status and type. The words of an error are for people; nothing is decided by them."""

from typing import Final

import msgspec
from msgspec import Struct

from finclaw.errors import (
    AuthFailed,
    BadRequest,
    ContextTooLong,
    Overloaded,
    ProviderError,
    RateLimited,
)

_BY_TYPE: Final[dict[str, type[ProviderError]]] = {
    "api_error": Overloaded,
    "authentication_error": AuthFailed,
    "billing_error": AuthFailed,
    "invalid_request_error": BadRequest,
    "not_found_error": BadRequest,
    "overloaded_error": Overloaded,
    "permission_error": AuthFailed,
    "rate_limit_error": RateLimited,
    "request_too_large": ContextTooLong,
    "timeout_error": Overloaded,
}
_BY_STATUS: Final[dict[int, type[ProviderError]]] = {
    401: AuthFailed,
    402: AuthFailed,
    403: AuthFailed,
    408: Overloaded,
    413: ContextTooLong,
    429: RateLimited,
}


class Complaint(Struct, frozen=True):
    type: str = ""
    message: str = ""


class _Refusal(Struct):
    error: Complaint = Complaint()


_decode: Final = msgspec.json.Decoder(_Refusal).decode


def refused(name: str, status: int, retry_after: str | None, body: bytes) -> ProviderError:
    """The error behind an HTTP status. The type in the body, where there is one, says more than the status."""
    try:
        complaint = _decode(body).error
    except (msgspec.DecodeError, UnicodeDecodeError):  # a page of some proxy
        complaint = Complaint()
    kind = _BY_TYPE.get(complaint.type) or _BY_STATUS.get(status) or (Overloaded if status >= 500 else BadRequest)
    said = f"{name} answered {status} {complaint.type}: {complaint.message}".rstrip(" :")
    return RateLimited(said, retry_after=_seconds(retry_after)) if kind is RateLimited else kind(said)


def failed(name: str, complaint: Complaint) -> ProviderError:
    """The error behind an error event, which comes when the status has long been sent as 200."""
    kind = _BY_TYPE.get(complaint.type, Overloaded)
    return kind(f"{name} stopped its answer with {complaint.type or 'an error'}: {complaint.message}".rstrip(" :"))


def _seconds(retry_after: str | None) -> float | None:
    try:
        return float(retry_after) if retry_after else None
    except ValueError:  # a date
        return None
