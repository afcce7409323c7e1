"""A client of the running gateway's API, with nothing but the standard library: `ask` has to start fast."""

import hmac
import http.client
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct

from finclaw.cli.address import Address, read_address
from finclaw.errors import ChannelError, ConfigError, FinclawError, InboundConflict, StoreFailed
from finclaw.kernel.record import TurnRecord, TurnTrace
from finclaw.redaction import Secret
from finclaw.web.token import prove, read_token
from finclaw.web.view import StatusView, TurnsView

T = TypeVar("T")
_TIMEOUT = 30.0
"""Seconds after which a gateway that does not answer counts as gone."""


class _NotThere(ChannelError):
    """The gateway knows of no such thing."""


class _Proof(msgspec.Struct):
    proof: str = ""


class _Error(msgspec.Struct):
    code: str = ""
    message: str = ""


class _Refusal(msgspec.Struct):
    error: _Error = msgspec.field(default_factory=_Error)


class GatewayClient:
    """A gateway that has shown that it knows our token."""

    is_running = True
    is_empty = False

    def __init__(self, address: Address, token: Secret) -> None:
        self.address = address
        self._token = token

    def status(self) -> StatusView:
        return self.call("GET", "/api/v1/status", StatusView)

    def turns(self, limit: int) -> Sequence[TurnRecord]:
        return self.call("GET", f"/api/v1/turns?limit={limit}", TurnsView).items

    def turn(self, turn_id: str) -> TurnTrace | None:
        return self.find(f"/api/v1/turns/{quote(turn_id, safe='', errors='replace')}", TurnTrace)

    def find(self, path: str, answer: type[T]) -> T | None:
        """None: the gateway knows of no such thing."""
        try:
            return self.call("GET", path, answer)
        except _NotThere:
            return None

    def call(
        self, method: str, path: str, answer: type[T], body: Struct | bytes | None = None, *, timeout: float = _TIMEOUT
    ) -> T:
        content = msgspec.json.encode(body) if isinstance(body, Struct) else body
        try:
            return msgspec.json.decode(self.fetch(method, path, content, timeout=timeout), type=answer)
        except msgspec.DecodeError as error:
            raise self._explain_gone(error) from error

    def fetch(self, method: str, path: str, body: bytes | None = None, *, timeout: float = _TIMEOUT) -> bytes:
        """What the gateway answers, as it came. Raises FinclawError when it refuses."""
        headers = {"Authorization": f"Bearer {self._token.reveal()}", "Content-Type": "application/json"}
        try:
            status, content = _request(self.address, method, path, headers, body, timeout=timeout)
            if status >= 400:
                raise self._refusal(status, content)
        except (OSError, http.client.HTTPException, msgspec.DecodeError) as error:
            raise self._explain_gone(error) from error
        return content

    def _explain_gone(self, error: Exception) -> ChannelError:
        return ChannelError(
            f"the gateway at {self.address.url} went away ({error}); if it had taken the message, "
            "it answers when it runs again"
        )

    def _refusal(self, status: int, content: bytes) -> FinclawError:
        error = msgspec.json.decode(content, type=_Refusal).error
        kind = {401: ConfigError, 404: _NotThere, 409: InboundConflict, 503: StoreFailed}.get(status, ChannelError)
        return kind(f"the gateway at {self.address.url} refused: {error.message or status}")


def find_gateway(state: Path) -> GatewayClient | None:
    """The gateway that runs on this state, or None. Raises ConfigError when our token cannot be used."""
    address = read_address(state)
    if address is None:
        return None
    token = read_token(state)
    if token is None or not _is_ours(address, token):
        return None
    return GatewayClient(address, token)


def _is_ours(address: Address, token: Secret) -> bool:
    """After a crash somebody else may listen there, and must not be shown the token."""
    challenge = secrets.token_hex(16)
    try:
        _, content = _request(address, "GET", f"/healthz?challenge={challenge}", {}, None, timeout=5)
        proof = msgspec.json.decode(content, type=_Proof).proof
    except (OSError, http.client.HTTPException, msgspec.DecodeError):
        return False
    return hmac.compare_digest(proof.encode(), prove(token, challenge, address.port).encode())


def _request(
    address: Address, method: str, path: str, headers: dict[str, str], body: bytes | None, timeout: float
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(address.host, address.port, timeout=timeout)
    try:
        connection.request(method, path, body=body, headers=headers)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()
