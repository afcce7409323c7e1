"""Authentication of requests: is it from this machine, and who sends it? Everything is decided from the headers alone.

Order matters and is fixed: the place (Host and Origin), the token, the limiter for wrong ones, the scope. The token is
compared first, in constant time, so that nobody can lock out the right one by sending wrong ones.
"""

import hmac
from collections.abc import Callable

from finclaw.redaction import Secret
from finclaw.web.errors import ApiError
from finclaw.web.principal import Principal, Scope

_HOW = "send the header `Authorization: Bearer TOKEN` with the token from the file `token` in the state directory"
_BEARER = {"WWW-Authenticate": "Bearer"}
_LATER = {"Retry-After": "2"}


def check_place(host: str | None, origin: str | None, port: int) -> None:
    """A page elsewhere can make a browser call us; it cannot make it lie about where the page came from."""
    names = ("127.0.0.1", "localhost", "[::1]")
    allowed = {f"{name}:{port}" for name in names}
    if port == 80:
        allowed.update(names)
    if host is None or host.lower() not in allowed:
        raise ApiError(403, "wrong_host", f"this gateway answers only as 127.0.0.1:{port} or localhost:{port}")
    if origin is not None and origin.lower() != f"http://{host.lower()}":
        raise ApiError(403, "wrong_origin", "requests from other sites are refused; call the API from a program")


class Throttle:
    """A leaky bucket of wrong tokens: while it is full, a wrong one is told to slow down."""

    def __init__(self, now: Callable[[], float], *, burst: int = 20, per_second: float = 1.0) -> None:
        self._now = now
        self._burst = burst
        self._per_second = per_second
        self._level = 0.0
        self._at = now()

    def check(self) -> None:
        self._drain()
        if self._level > self._burst - 1:
            raise ApiError(429, "slow_down", "too many wrong tokens; wait a few seconds and send the right one", _LATER)

    def note_failure(self) -> None:
        self._drain()
        self._level += 1

    def _drain(self) -> None:
        now = self._now()
        self._level = max(0.0, self._level - (now - self._at) * self._per_second)
        self._at = now


class Authenticator:
    """An authenticator of requests: it knows one token and the principal that it stands for."""

    def __init__(self, token: Secret, principal: Principal, throttle: Throttle) -> None:
        self._token = token
        self._principal = principal
        self._throttle = throttle

    def admit(self, authorization: str | None, scope: Scope) -> Principal:
        if authorization is None:
            raise ApiError(401, "no_token", f"this needs the token; {_HOW}", _BEARER)
        if not self.is_valid(authorization):
            self._throttle.check()
            self._throttle.note_failure()
            raise ApiError(401, "wrong_token", f"this is not the token; {_HOW}", _BEARER)
        if scope not in self._principal.scopes:
            raise ApiError(403, "no_scope", f"this token may not do this; it lacks the scope {scope}")
        return self._principal

    def check_again(self, authorization: str) -> None:
        """For what was admitted a while ago. Raises ApiError if the token was replaced since."""
        if not self.is_valid(authorization):
            raise token_replaced()

    def is_valid(self, authorization: str) -> bool:
        """Whether this holds the token as it is now."""
        scheme, _, given = authorization.partition(" ")
        expected = self._token.reveal().encode()
        # A header may hold any bytes; compare_digest takes text only if it is ASCII.
        same = hmac.compare_digest(given.strip().encode("utf-8", "surrogateescape"), expected)
        return same and scheme.lower() == "bearer"


def token_replaced() -> ApiError:
    return ApiError(401, "token_replaced", "the token was replaced meanwhile; connect again with the new one", _BEARER)
