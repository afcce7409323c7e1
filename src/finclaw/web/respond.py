"""Responses: JSON by msgspec, and the headers that every answer carries."""

import msgspec
from aiohttp import web

from finclaw.redaction import hide_known_secrets

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
