"""The checks of the machine: Python, the packages, the clock, the time zones, the terminal."""

import importlib
import platform
import re
import sys
from collections.abc import Iterator
from datetime import datetime
from importlib import metadata
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from finclaw.cli.doctor import DoctorFinding, bad, ok, warn
from finclaw.clock import SystemClock

PACKAGE = "finclaw-gateway"
OLDEST_PYTHON = (3, 11)
ZONES = ("Asia/Seoul", "America/New_York")
BUILT = 2026  # no clock that is right shows an earlier year
_MODULES = {"pyyaml": "yaml", "markdown-it-py": "markdown_it"}
"""The packages that are imported by another name than they are installed by."""


def checks() -> Iterator[DoctorFinding]:
    yield _python()
    yield _packages()
    clock = SystemClock()
    first = clock.monotonic()
    yield judge_clock(clock.now(), first, clock.monotonic())
    yield _zones()
    yield judge_terminal(sys.stdout.encoding if sys.stdout else "utf-8")  # pyright: ignore[reportUnnecessaryComparison]


def _python() -> DoctorFinding:
    version = platform.python_version()
    if sys.version_info < OLDEST_PYTHON:
        return bad("python", f"{version} is too old", "install Python 3.11 or newer")
    return ok("python", f"{platform.python_implementation()} {version} on {platform.system()} {platform.machine()}")


def _packages() -> DoctorFinding:
    try:
        wanted = [each for each in metadata.requires(PACKAGE) or () if "extra ==" not in each]
    except metadata.PackageNotFoundError:
        return warn("packages", f"{PACKAGE} runs without being installed", "install it with: make run")
    found = [_package(each) for each in wanted]
    if wrong := [text for is_good, text in found if not is_good]:
        return bad("packages", ", ".join(wrong), "install them again: make clean run")
    return ok("packages", ", ".join(text for _, text in found))


def _package(requirement: str) -> tuple[bool, str]:
    """Whether it is there and new enough, and its name and version."""
    name = re.split(r"[ <>=!~;\[]", requirement, maxsplit=1)[0]
    try:
        importlib.import_module(_MODULES.get(name.lower(), name.replace("-", "_")))
        version = metadata.version(name)
    except (ImportError, metadata.PackageNotFoundError) as error:
        return False, f"{name} cannot be loaded ({error})"
    least = re.search(r">=\s*([0-9.]+)", requirement)
    if least is not None and _numbers(version) < _numbers(least[1]):
        return False, f"{name} {version} is older than {least[1]}"
    return True, f"{name} {version}"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(each) for each in re.findall(r"\d+", version)[:3])


def judge_clock(now: datetime, first: float, second: float) -> DoctorFinding:
    shown = f"{now:%Y-%m-%d %H:%M:%S} UTC"
    advice = "set the clock: quotes, schedules and expiry depend on it"
    if not BUILT <= now.year < BUILT + 50:
        return bad("clock", f"it says {shown}", advice)
    if second < first:
        return bad("clock", "its steady part went backwards", "restart this machine, or look at its virtualisation")
    return ok("clock", shown)


def _zones() -> DoctorFinding:
    missing: list[str] = []
    for name in ZONES:
        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, OSError):
            missing.append(name)
    if missing:
        advice = "install the system's tzdata, or: pip install tzdata"
        return bad("time zones", f"no data about {' and '.join(missing)}", advice)
    return ok("time zones", f"{' and '.join(ZONES)} are known")


def judge_terminal(encoding: str) -> DoctorFinding:
    try:
        "삼성전자".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return warn("terminal", f"it speaks {encoding}, which has no Korean", "run: export LC_ALL=C.UTF-8")
    return ok("terminal", f"{encoding}: 한국어 is printed as it is")
