"""Errors of the API as JSON: the client gets `{"error": {"code", "message"}}` and never a stack trace."""

import logging
from collections.abc import Awaitable, Callable

from aiohttp import web

from finclaw.errors import FinclawError, InboundConflict, ModelUnknown, NotOwner, SessionFull, StoreFailed
from finclaw.web.respond import json_response

log = logging.getLogger(__name__)


class ApiError(Exception):
    """An error response. `code` is for programs, the message for people."""

    def __init__(self, status: int, code: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.headers = headers


@web.middleware
async def errors_as_json(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except ApiError as error:
        return _response(error)
    except web.HTTPException as error:
        return _response(_from_http(error, request))
    except FinclawError as error:
        return _response(from_finclaw(error, accepting=request.method == "POST"))
    except Exception:  # a stranger is waiting for an answer; the log gets the trace, they get a line
        log.exception("%s %s failed", request.method, request.path)
        return _response(ApiError(500, "internal", "the gateway made a mistake here; its log says more"))


def error_view(error: ApiError) -> dict[str, dict[str, str]]:
    return {"error": {"code": error.code, "message": str(error)}}


def _response(error: ApiError) -> web.Response:
    return json_response(error_view(error), error.status, error.headers)


def _from_http(error: web.HTTPException, request: web.Request) -> ApiError:
    if isinstance(error, web.HTTPNotFound):
        return ApiError(404, "no_such_path", f"there is no {request.path} here; GET / says what there is")
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(error.allowed_methods))
        return ApiError(405, "wrong_method", f"{request.path} takes {allowed}", {"Allow": allowed})
    if isinstance(error, web.HTTPRequestEntityTooLarge):
        return too_large(request.client_max_size)
    return ApiError(error.status, "refused", error.reason)


def too_large(limit: int) -> ApiError:
    return ApiError(413, "too_large", f"a request may have {limit} bytes; send less")


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
        return ApiError(503, "not_accepted", "not accepted, send it again: the gateway could not write it to disk")
    log.error("request failed: %s", error)
    return ApiError(500, "internal", "the gateway could not do this; its log says more")
