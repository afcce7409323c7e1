"""Errors of the API as JSON: the client gets `{"error": {"code", "message"}}` and never a stack trace."""

import logging

from finclaw.errors import FinclawError, InboundConflict, ModelUnknown, NotOwner, SessionFull, StoreFailed

log = logging.getLogger(__name__)

_WHY = {
    "full": "the gateway could not write it to disk, which is full",
    "read_only": "the gateway could not write it to disk, which is read-only or not its own",
    "failed": "the gateway could not write it to disk",
}


class ApiError(Exception):
    """An error response. `code` is for programs, the message for people."""

    def __init__(self, status: int, code: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.headers = headers


def error_view(error: ApiError) -> dict[str, dict[str, str]]:
    return {"error": {"code": error.code, "message": str(error)}}


def too_large(limit: int) -> ApiError:
    return ApiError(413, "too_large", f"a request may have {limit} bytes; send less")


def describe_failure(error: FinclawError) -> str:
    """Why the store cannot write, without the path: also for those who have no token."""
    return _WHY.get(getattr(error, "why", ""), _WHY["failed"])


def from_finclaw(error: FinclawError, *, accepting: bool) -> ApiError:
    if isinstance(error, InboundConflict):
        message = "this message_id was used for another message; a new message needs a new message_id"
        return ApiError(409, "message_id_used", message)
    if isinstance(error, NotOwner):
        return ApiError(403, "not_owner", str(error))
    if isinstance(error, ModelUnknown):
        return ApiError(400, "unknown_model", f"this model cannot answer here: {error}")
    if isinstance(error, SessionFull):
        return ApiError(429, "session_full", f"not accepted: {error}", {"Retry-After": "5"})
    if isinstance(error, StoreFailed) and accepting:
        log.error("not accepted: %s", error)
        return ApiError(503, "not_accepted", f"not accepted, send it again: {describe_failure(error)}")
    log.error("request failed: %s", error)
    return ApiError(500, "internal", "the gateway could not do this; its log says more")
