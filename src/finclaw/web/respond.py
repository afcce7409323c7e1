"""Responses: JSON by msgspec, errors among them, and the headers that every answer carries."""

import logging
from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web

from finclaw.errors import FinclawError
from finclaw.redaction import hide_known_secrets
from finclaw.web.errors import ApiError, error_view, from_finclaw, too_large

log = logging.getLogger(__name__)

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Server": "finclaw",
    "X-Content-Type-Options": "nosniff",
}
_encode = msgspec.json.Encoder().encode


def json_response(data: object, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    body = hide_known_secrets(_encode(data).decode()).encode()
    return web.Response(body=body, status=status, headers=headers, content_type="application/json")


async def add_headers(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(_HEADERS)


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
