"""The address of a running gateway, and a client of its API, with nothing but the standard library.

The address stands in `gateway.json` in the state directory while the gateway runs. The file is no lock: after a crash
it names an address where nobody listens, or another program. So the client asks for a proof before it shows its token.
"""

import hmac
import json
import os
import re
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct

from finclaw.clock import SystemClock
from finclaw.errors import (
    ChannelError,
    ConfigError,
    FinclawError,
    InboundConflict,
    SessionError,
    StateBusy,
    StoreFailed,
)
from finclaw.kernel.record import TurnRecord, TurnTrace
from finclaw.redaction import Secret
from finclaw.web.token import prove, read_token
from finclaw.web.view import StatusView, TurnsView

T = TypeVar("T")
TIMEOUT: Final = 30.0  # seconds after which a gateway that does not answer counts as gone
FILE_NAME = "gateway.json"
_PAUSE: Final = 0.1


class Address(NamedTuple):
    host: str
    port: int
    pid: int

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


class _GatewayFile(Struct):
    url: str
    pid: int


@contextmanager
def announce_gateway(state: Path, url: str) -> Generator[None]:
    """Inside, other commands find the gateway."""
    path = state / FILE_NAME
    aside = state / f".{FILE_NAME}.{os.getpid()}"
    opened = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(opened, "w", encoding="ascii") as file:
        json.dump({"url": url, "pid": os.getpid()}, file)
    os.replace(aside, path)
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()


def read_address(state: Path) -> Address | None:
    """None if there is no such file, or one that no gateway of ours can have written."""
    try:
        written = msgspec.json.decode((state / FILE_NAME).read_bytes(), type=_GatewayFile)
    except (OSError, msgspec.DecodeError):
        return None
    # The token goes to this address, so it has to be one of this machine, whatever the file says.
    place = re.fullmatch(r"http://(127\.[0-9.]+|\[::1\]):([0-9]{1,5})", written.url)
    if place is None or int(place[2]) > 65_535:
        return None
    return Address(place[1].strip("[]"), int(place[2]), written.pid)


def retry_while_busy(reach: Callable[[], T], patience: float) -> T:
    """Call it until it does not raise StateBusy. Raises the last StateBusy when the seconds are over."""
    clock = SystemClock()
    give_up = clock.monotonic() + patience
    while True:
        try:
            return reach()
        except StateBusy:
            if clock.monotonic() > give_up:
                raise
        time.sleep(_PAUSE)


class NotThere(ChannelError, SessionError):
    """There is no such thing in the state."""


class StateClient(ABC):
    """A client that answers requests of the HTTP API about one state. All methods raise FinclawError."""

    name: str
    is_running = True  # whether a gateway answers
    is_empty = False  # whether nothing was ever stored there

    @abstractmethod
    def fetch(self, method: str, path: str, body: bytes | None = None, *, timeout: float = TIMEOUT) -> bytes:
        """Return the answer as it came. Raises FinclawError for a refusal."""

    def call(
        self, method: str, path: str, answer: type[T], body: Struct | bytes | None = None, *, timeout: float = TIMEOUT
    ) -> T:
        content = msgspec.json.encode(body) if isinstance(body, Struct) else body
        try:
            return msgspec.json.decode(self.fetch(method, path, content, timeout=timeout), type=answer)
        except msgspec.DecodeError as error:
            raise self._explain_gone(error) from error

    def find(self, path: str, answer: type[T]) -> T | None:
        """Return the answer to a GET; None if there is no such thing."""
        try:
            return self.call("GET", path, answer)
        except NotThere:
            return None

    def turn(self, turn_id: str) -> TurnTrace | None:
        return self.find(f"/api/v1/turns/{quote(turn_id, safe='', errors='replace')}", TurnTrace)

    def _explain_gone(self, error: Exception) -> ChannelError:
        later = "if it had taken the message, it answers when it runs again"
        return ChannelError(f"{self.name} went away ({error}); {later}")


class _Proof(Struct):
    proof: str = ""


class _Error(Struct):
    message: str = ""


class _Refusal(Struct):
    error: _Error = msgspec.field(default_factory=_Error)


class GatewayClient(StateClient):
    """A gateway that has shown that it knows our token."""

    def __init__(self, address: Address, token: Secret) -> None:
        self.name = f"the gateway at {address.url}"
        self.address = address
        self._token = token

    def status(self) -> StatusView:
        return self.call("GET", "/api/v1/status", StatusView)

    def turns(self, limit: int) -> Sequence[TurnRecord]:
        return self.call("GET", f"/api/v1/turns?limit={limit}", TurnsView).items

    def fetch(self, method: str, path: str, body: bytes | None = None, *, timeout: float = TIMEOUT) -> bytes:
        headers = {"Authorization": f"Bearer {self._token.reveal()}", "Content-Type": "application/json"}
        try:
            status, content = _request(self.address, method, path, headers, body, timeout=timeout)
            if status >= 400:
                raise self._refusal(status, content)
        except (OSError, msgspec.DecodeError) as error:
            raise self._explain_gone(error) from error
        return content

    def _refusal(self, status: int, content: bytes) -> FinclawError:
        error = msgspec.json.decode(content, type=_Refusal).error
        kind = {401: ConfigError, 404: NotThere, 409: InboundConflict, 503: StoreFailed}.get(status, ChannelError)
        return kind(f"{self.name} refused: {error.message or status}")


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
    except (OSError, msgspec.DecodeError):
        return False
    return hmac.compare_digest(proof.encode(), prove(token, challenge, address.port).encode())


def _request(
    address: Address, method: str, path: str, headers: dict[str, str], body: bytes | None, timeout: float
) -> tuple[int, bytes]:
    import http.client  # noqa: PLC0415  start-up: it costs 15 ms, and mostly no gateway runs

    connection = http.client.HTTPConnection(address.host, address.port, timeout=timeout)
    try:
        connection.request(method, path, body=body, headers=headers)
        response = connection.getresponse()
        return response.status, response.read()
    except http.client.HTTPException as error:
        raise ConnectionError(str(error)) from error
    finally:
        connection.close()
