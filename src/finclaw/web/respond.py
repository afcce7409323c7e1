"""Responses: JSON by msgspec, errors among them, the headers that every answer carries, and redaction of every body."""

import asyncio
import logging
from contextlib import suppress
from typing import Any, cast

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from finclaw.errors import FinclawError
from finclaw.redaction import HIDDEN, hide_in_bytes, hide_known_secrets
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
_OFF_LOOP_ABOVE = 50_000
"""Bytes of a body that is redacted in a thread, so that an export does not block the event loop."""
_LONGEST_REASON = 123
"""Bytes for which the close frame of a WebSocket has room."""
_encode = msgspec.json.Encoder().encode
_NO_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def json_response(data: object, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    body = _hide_in_json(_encode(data))
    return web.Response(body=body, status=status, headers=headers, content_type="application/json")


class RedactedStream(web.StreamResponse):
    """A streamed response in which known secrets are hidden; each write is a whole event."""

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        await super().write(hide_in_bytes(bytes(data)))


class RedactedSocket(web.WebSocketResponse):
    """A WebSocket in whose text frames and close reason known secrets are hidden."""

    async def send_str(self, data: str, compress: int | None = None) -> None:
        await super().send_str(hide_known_secrets(data), compress)

    async def send_bytes(self, data: bytes | bytearray | memoryview, compress: int | None = None) -> None:
        await super().send_bytes(hide_in_bytes(bytes(data)), compress)

    async def close(self, *, code: int = 1_000, message: bytes = b"", drain: bool = True) -> bool:
        return await super().close(code=code, message=hide_in_bytes(message)[:_LONGEST_REASON], drain=drain)


@web.middleware
async def redact_body(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Hide known secrets in the body, whichever route made it. It is outermost, so no route can be added without it."""
    response = await handler(request)
    if isinstance(response, web.Response) and response.body is not None:
        if not isinstance(response.body, bytes | bytearray):
            raise TypeError(f"{request.path} answers with a body that cannot be redacted; answer with bytes")
        body = bytes(response.body)
        hide = _HIDE.get(response.content_type, hide_in_bytes)
        if len(body) > _OFF_LOOP_ABOVE:
            response.body = await asyncio.to_thread(hide, body)
        else:
            response.body = hide(body)
    return response


def _hide_in_json(content: bytes) -> bytes:
    """JSON without known secrets. It stays JSON, also where a secret looks like a number."""
    hidden = hide_in_bytes(content)
    if hidden is content:
        return content
    try:
        msgspec.json.decode(hidden)
    except _NO_JSON:
        with suppress(*_NO_JSON):
            return _encode(_hide_in_value(msgspec.json.decode(content)))
    return hidden


def _hide_in_lines(content: bytes) -> bytes:
    if hide_in_bytes(content) is content:
        return content
    return b"\n".join(map(_hide_in_json, content.split(b"\n")))


def _hide_in_value(value: Any) -> Any:
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value).items()
        return {hide_known_secrets(name): _hide_in_value(each) for name, each in members}
    if isinstance(value, list):
        return [_hide_in_value(each) for each in cast("list[Any]", value)]
    if isinstance(value, str):
        return hide_known_secrets(value)
    return value if hide_known_secrets(str(value)) == str(value) else HIDDEN


_HIDE = {"application/json": _hide_in_json, "application/x-ndjson": _hide_in_lines}
"""By content type; anything else is bytes."""


async def prepare_response(_: web.Request, response: web.StreamResponse) -> None:
    """Add the headers. Raises TypeError for a stream that would not be redacted, before anything of it is sent."""
    if not isinstance(response, web.Response | RedactedStream | RedactedSocket):
        raise TypeError(f"{type(response).__name__} sends what was not redacted; use RedactedStream or RedactedSocket")
    response.headers.update(_HEADERS)


@web.middleware
async def errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
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
