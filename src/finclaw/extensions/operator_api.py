"""The part of the api for operators and programs: commands of the terminal, HTTP routes, checks of the doctor."""

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Callable
from typing import Final, get_args

from finclaw.errors import ExtensionError
from finclaw.extensions.registration import CliCommand, DoctorCheck, NameOwners, Registered, must_be_callable
from finclaw.kernel.extension import Finding
from finclaw.kernel.port import ExtensionRoute, Method, RouteReply, RouteRequest

# fmt: off
OWN_COMMANDS: Final = frozenset({
    "approvals", "ask", "backup", "channels", "chat", "completion", "config", "cost", "costs", "doctor", "explain",
    "export", "extensions", "forget", "fork", "help", "import", "init", "instruments", "logs", "mcp", "memory",
    "migrate", "models", "people", "prune", "replay", "restore", "send", "serve", "sessions", "skills", "status",
    "stop", "token", "tools", "trace", "turns", "version",
})
# fmt: on
"""What `finclaw` itself answers to, or means to: no extension may take these words. A test keeps it complete."""

_COMMAND: Final = re.compile(r"[a-z][a-z0-9-]{0,39}")
_PATH: Final = re.compile(r"[A-Za-z0-9._~-]+(/[A-Za-z0-9._~-]+)*")


class Cli:
    """The part of the api that registers commands of the command line."""

    def __init__(self, mine: Registered, everybody: NameOwners) -> None:
        self._mine = mine
        self._everybody = everybody

    def command(
        self, name: str, about: str, run: Callable[[Namespace], int], arguments: Callable[[ArgumentParser], None]
    ) -> None:
        self._mine.must_be_loading()
        if not _COMMAND.fullmatch(name):
            raise ExtensionError(f"{name!r} cannot be typed as `finclaw {name}`; use small letters, digits and dashes")
        owner = self._everybody.owner(name, lambda each: (one.name for one in each.cli))
        if name in OWN_COMMANDS or owner is not None:
            whose = "FinClaw itself" if owner is None else f"extension {owner!r}"
            raise ExtensionError(f"`finclaw {name}` belongs to {whose}; choose another name")
        self._mine.cli.append(
            CliCommand(self._mine.name, name, about, must_be_callable(run), must_be_callable(arguments))
        )


class ExtensionRoutes:
    """The part of the api that registers HTTP routes."""

    def __init__(self, mine: Registered) -> None:
        self._mine = mine

    def add(self, method: Method, path: str, fn: Callable[[RouteRequest], Awaitable[RouteReply]]) -> None:
        self._mine.must_be_loading()
        path = path.strip("/")
        if method not in get_args(Method):
            raise ExtensionError(f"a route takes {' or '.join(get_args(Method))}, not {method!r}")
        if not _PATH.fullmatch(path) or {".", ".."} & set(path.split("/")):
            raise ExtensionError(
                f"{path!r} is no path; use words of letters, digits, '-' and '_' with '/' between them"
            )
        if any((each.method, each.path) == (method, path) for each in self._mine.routes):
            raise ExtensionError(f"{method} {path} is served already; add it once")
        route = ExtensionRoute(extension=self._mine.name, method=method, path=path, handle=must_be_callable(fn))
        self._mine.routes.append(route)


class Doctor:
    """The part of the api that registers checks of `finclaw doctor`."""

    def __init__(self, mine: Registered) -> None:
        self._mine = mine

    def check(self, name: str, fn: Callable[[], Finding]) -> None:
        self._mine.must_be_loading()
        self._mine.doctor.append(DoctorCheck(self._mine.name, name, must_be_callable(fn)))
