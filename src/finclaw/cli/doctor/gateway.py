"""The checks of the gateway: the lock, the port, and whether it answers."""

import errno
import socket
from collections.abc import Iterator
from pathlib import Path

from finclaw.cli.client import GatewayClient, find_gateway, read_address
from finclaw.cli.doctor import DoctorFinding, bad, ok, warn
from finclaw.cli.doctor.state import holder
from finclaw.config.schema import Settings
from finclaw.errors import ConfigError, FinclawError
from finclaw.web.settings import WebServerSettings


def checks(state: Path, settings: Settings | None) -> Iterator[DoctorFinding]:
    try:
        client = find_gateway(state)
    except ConfigError:  # the token: already told
        client = None
    yield _lock(state, client)
    if settings is not None:
        yield _port(settings.web, client)
    yield _gateway(state, client)


def _lock(state: Path, client: GatewayClient | None) -> DoctorFinding:
    who = holder(state)
    if who is None:
        return ok("lock", "nobody holds the state")
    if client is not None:
        return ok("lock", f"held by process {who}, the gateway at {client.address.url}")
    says = f"process {who} holds the state, and is no gateway that answers"
    return warn("lock", says, "a gateway that starts, or a `finclaw ask` at work? if it stays, look at that process")


def _port(web: WebServerSettings, client: GatewayClient | None) -> DoctorFinding:
    if client is not None:
        return ok("port", f"{client.address.port}, where our gateway listens")
    if web.port == 0:
        return ok("port", "any free one will be taken")
    # Bound and never listening, with the same option as the gateway's: one that starts right now is not disturbed.
    with socket.socket(socket.AF_INET6 if ":" in web.address else socket.AF_INET) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((web.address, web.port))
        except OSError as error:
            return _no_port(web, error)
    return ok("port", f"{web.port} is free")


def _no_port(web: WebServerSettings, error: OSError) -> DoctorFinding:
    if error.errno == errno.EADDRINUSE:
        says = f"{web.port} is in use by another program"
        return bad("port", says, "stop it, or set web.port, or start with --port N")
    if error.errno == errno.EACCES:
        return bad("port", f"{web.port} needs more rights than you have", "set web.port to a number above 1023")
    return bad("port", f"cannot listen on {web.host} port {web.port}: {error.strerror}", "set web.host to 127.0.0.1")


def _gateway(state: Path, client: GatewayClient | None) -> DoctorFinding:
    if client is None:
        ended = "; the last one did not end by itself" if read_address(state) else ""
        return ok("gateway", f"none runs on this state{ended}; start it with: finclaw serve")
    try:
        status = client.status()
    except FinclawError as error:
        return bad("gateway", str(error))
    if status.problem:
        return bad("gateway", f"{client.address.url} is not ready: {status.problem}")
    if not status.ready:
        return warn("gateway", f"{client.address.url} answers, but is not ready", "ask again in a moment")
    failed = status.counts.dead_letters + status.counts.units_dead
    if failed:
        says = f"{client.address.url} is ready, but {failed} messages failed"
        return warn("gateway", says, "see which: finclaw turns; and why: finclaw trace TURN")
    return ok("gateway", f"{client.address.url} is ready")
