"""Talks to the running gateway over its API, with nothing but the standard library: `ask` has to start fast."""

import hmac
import http.client
import secrets
from pathlib import Path
from typing import TypeVar

import msgspec

from finclaw.cli.address import Address, read_address
from finclaw.errors import ChannelError, ConfigError, FinclawError, InboundConflict, StoreFailed
from finclaw.kernel.secret import Secret
from finclaw.web.principal import MessageBody
from finclaw.web.token import prove, read_token
from finclaw.web.view import AcceptedView, MessageView, StatusView

T = TypeVar("T")
_WAIT = 20
"""Seconds for which one request waits for the answer; then the next one asks."""


class _Proof(msgspec.Struct):
    proof: str = ""


class _Error(msgspec.Struct):
    code: str = ""
    message: str = ""


class _Refusal(msgspec.Struct):
    error: _Error = msgspec.field(default_factory=_Error)


class GatewayClient:
    """A gateway that has shown that it knows our token."""

    def __init__(self, address: Address, token: Secret) -> None:
        self.address = address
        self._token = token

    def ask(self, body: MessageBody) -> MessageView:
        """Raises FinclawError. What was accepted is answered even if we do not live to see it."""
        accepted = self._call("POST", "/api/v1/messages", AcceptedView, msgspec.json.encode(body))
        while True:
            message = self._call("GET", f"/api/v1/messages/{accepted.inbound_id}?wait={_WAIT}", MessageView)
            if message.state == "ended":
                return message

    def status(self) -> StatusView:
        return self._call("GET", "/api/v1/status", StatusView)

    def _call(self, method: str, path: str, answer: type[T], body: bytes | None = None) -> T:
        headers = {"Authorization": f"Bearer {self._token.reveal()}", "Content-Type": "application/json"}
        try:
            status, content = _request(self.address, method, path, headers, body, timeout=_WAIT + 10)
            if status >= 400:
                raise self._refusal(status, content)
            return msgspec.json.decode(content, type=answer)
        except (OSError, http.client.HTTPException, msgspec.DecodeError) as error:
            raise ChannelError(
                f"the gateway at {self.address.url} went away ({error}); if it had taken the message, "
                "it answers when it runs again"
            ) from error

    def _refusal(self, status: int, content: bytes) -> FinclawError:
        error = msgspec.json.decode(content, type=_Refusal).error
        kind = {401: ConfigError, 409: InboundConflict, 503: StoreFailed}.get(status, ChannelError)
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
