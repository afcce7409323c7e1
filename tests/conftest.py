"""What every test lives with: no network but this machine's own, and the choice of how much chaos."""

import gc
import ipaddress
import os
import socket
import sys
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from tests.machine import LONG, SHORT, examples
from tests.template_database import copy_template_for_new_databases

from finclaw.redaction import forget_known_secrets

# Test modules are compiled once, with their assertions rewritten, which is half of what collecting costs, and kept for
# the next run. Processes that tests start keep nothing: one with a limit on the size of files would leave a file cut
# short, which Python then fails to read for good.
sys.dont_write_bytecode = False
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"

# Garbage is not looked for while thousands of tests are collected, all of which stay to the end.
gc.disable()

# A busy machine is not a finding: examples are not timed, and a failure prints how to see it again.
settings.register_profile(LONG, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile(SHORT, settings.get_profile(LONG), max_examples=examples(100))


class NetworkUsed(RuntimeError):
    """Not an OSError: code that politely retries a lost connection must not hide it."""

    def __init__(self, what: str) -> None:
        super().__init__(f"a test reached for the network ({what}): use 127.0.0.1, or a fake from finclaw.testing")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_name(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host not in ("", "localhost")
    return False


def _forbid_network(event: str, args: tuple[Any, ...]) -> None:
    """An audit hook, because the interpreter itself calls it: no import order or subclass gets around it."""
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        sock, address = args
        if address is None or sock.family == socket.AF_UNIX:
            return  # sendmsg on a connected socket; its connect was judged already
        if not (isinstance(address, tuple) and _is_loopback(str(address[0]))):  # pyright: ignore[reportUnknownArgumentType]
            raise NetworkUsed(f"{event} to {address}")
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        host = args[0].decode() if isinstance(args[0], bytes) else args[0]
        if host is not None and _is_name(host):
            raise NetworkUsed(f"looking up {host!r}")


sys.addaudithook(_forbid_network)


@pytest.fixture(autouse=True)
def secrets_of_other_tests_are_forgotten() -> Generator[None]:
    """The register of known secrets is the process's, and what one test calls a secret is a word in another."""
    forget_known_secrets()
    yield
    forget_known_secrets()


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile(SHORT if config.getoption("--chaos") == "short" else LONG)
    copy_template_for_new_databases()


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes do not name a test: packed ones hold the second they were packed in, and two workers would disagree."""
    return argname if isinstance(val, bytes) else None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--chaos",
        choices=("short", "full", "soak"),
        default="short",
        help="how long the chaos tests go on: short (every run), full (make chaos) or soak (make soak)",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that take long or only repeat another are for `make chaos` and `make soak`; other runs are without them."""
    if config.getoption("--chaos") != "short":
        return
    long = [item for item in items if item.get_closest_marker("soak") is not None]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item.get_closest_marker("soak") is None]


def pytest_collection_finish() -> None:
    """What was collected is there to the end: without this each test that collects garbage looks at all of it first."""
    gc.collect()
    gc.freeze()
    gc.enable()
    sys.dont_write_bytecode = True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What may be missing on somebody's desk must not be missing in CI: there, a skipped test is a failed one."""
    report = yield
    if report.skipped and os.environ.get("CI") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI, where everything must be there: {report.longrepr}"
    return report
