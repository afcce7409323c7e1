"""`finclaw serve`: the gateway, until Ctrl-C or SIGTERM."""

import asyncio
import contextlib
import errno
import http.client
import importlib.util
import resource
import signal
import socket
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import Final

from finclaw.agent.settings import as_ref
from finclaw.channels.mailbox import MailboxChannel
from finclaw.cli.arguments import add_market_options, add_state_options, settings_from
from finclaw.cli.client import announce_gateway, find_gateway, read_address
from finclaw.cli.formatting import command_name, short
from finclaw.cli.process_setup import freeze_startup_objects
from finclaw.composition.gateway import build
from finclaw.config.problems import say_budget, warnings_of_models
from finclaw.config.routes import chosen_model
from finclaw.config.schema import Settings
from finclaw.diagnostics.log import start_logging
from finclaw.errors import FinclawError, StateBusy
from finclaw.finance.market_data.source_info import describe_sources
from finclaw.redaction import Secret
from finclaw.redaction.redact import redact_for_display
from finclaw.web.live import LiveStream
from finclaw.web.principal import CHANNEL as WEB
from finclaw.web.server import listen, serve_web
from finclaw.web.token import TokenOnDisk, obtain_token, read_token

OPEN_FILES: Final = 4_096


def arguments(parser: ArgumentParser) -> None:
    add_state_options(parser)
    add_market_options(parser)
    about = "listen on this port (default: 8787; 0: any free one)"
    parser.add_argument("--port", type=_parse_port, metavar="N", help=about)


def _parse_port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= 65_535):
        raise ArgumentTypeError(f"{text!r} is not a port; give a number from 0 to 65535")
    return int(text)


def run(args: Namespace) -> None:
    settings = settings_from(args, {"market": args.market, "web.port": args.port})
    form = settings.log.format
    if form == "auto":
        form = "plain" if sys.stderr.isatty() else "json"
    start_logging(settings.log.level, form, redact_for_display)
    _raise_open_files_limit()
    # What may well be refused comes first, while nothing has been touched.
    read_token(settings.state)
    try:
        sock = listen(settings.web)
    except OSError as error:
        raise _no_port(settings, error) from error
    factory = None
    if importlib.util.find_spec("uvloop"):
        factory = importlib.import_module("uvloop").new_event_loop
    with sock, asyncio.Runner(loop_factory=factory) as runner:
        runner.run(_serve(settings, sock))


async def _serve(settings: Settings, sock: socket.socket) -> None:
    stop = _stop_signal()
    live = LiveStream()
    async with build(settings, channels=(MailboxChannel(WEB),), observers=(live.observe,)) as app:
        token, is_new = obtain_token(settings.state)
        async with serve_web(app, settings.web, TokenOnDisk(settings.state), live=live, sock=sock) as server:
            with announce_gateway(settings.state, server.url):
                freeze_startup_objects()
                _greet(settings, server.url, token if is_new else None)
                await stop.wait()
        print("stopping: running messages get a moment to end; Ctrl-C again leaves at once", flush=True)


def _stop_signal() -> asyncio.Event:
    """Set by the first SIGINT or SIGTERM; the second ends the process as it would without us."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def request_stop() -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(each)
        stop.set()

    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, request_stop)
    return stop


def _no_port(settings: Settings, error: OSError) -> FinclawError:
    address = read_address(settings.state)
    if address is not None and address.port == settings.web.port and find_gateway(settings.state):
        return StateBusy(
            f"another gateway already uses {settings.state} ({address.url}, process {address.pid}); "
            "stop it, or use --state DIR and --port N for a second one"
        )
    port = settings.web.port
    if error.errno == errno.EADDRINUSE:
        who = "another program"
        if _is_finclaw(settings.web.address, port):
            who = "another FinClaw, which runs on another state directory or as another user"
        return FinclawError(f"port {port} is in use by {who}; stop it, or use --port N for another port")
    if error.errno == errno.EACCES:
        return FinclawError(f"port {port} needs more rights than you have; use --port N with N above 1023")
    return FinclawError(f"cannot listen on {settings.web.host} port {port}: {error.strerror}; use --port N")


def _is_finclaw(host: str, port: int) -> bool:
    """By what it says of itself, which is enough for a hint and for nothing else."""
    connection = http.client.HTTPConnection(host, port, timeout=2)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().getheader("Server") == "finclaw"
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _raise_open_files_limit() -> None:
    """The usual limit of 256 or 1,024 is for programs that serve nobody; we may ask for more ourselves."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # then the limit on connections is a lower one
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


_DEFAULTS: Final = {"memory": "memory (notes people ask it to keep)", "web": "web (reads pages)"}
"""What the extensions do that are on by default."""


def _greet(settings: Settings, url: str, new_token: Secret | None) -> None:
    listed = [as_ref(each).use for each in settings.agent.extensions]
    default = [_DEFAULTS[name] for name in settings.agent.default_extensions if name not in listed]
    market = "DEMO: the prices are made up and follow no real market"
    if settings.market == "live":
        market = f"live: {describe_sources(settings.market_data.used())}"
    token = f"kept in {settings.state / 'token'}"
    if new_token is not None:
        token = f"{new_token.reveal()}\n          shown this once; it is {token}"
    lines = (
        f"FinClaw listens on {url}",
        f"  state   {settings.state}",
        f"  market  {market}",
        f"  model   {short(chosen_model(settings), 100)}",
        f"  budget  {say_budget(settings)}",
        *(f"  warning {redact_for_display(each)}" for each in warnings_of_models(settings)),
        f"  with    {', '.join((*default, *listed)) or 'no extensions'}",
        f"  token   {token}",
        f'  ask     {command_name()} ask "What is AAPL trading at?"',
        "  stop    Ctrl-C",
    )
    print("\n".join(lines), flush=True)
