"""The clock tool: one moment, told for a place in two languages, and never read from anywhere but the clock."""

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from finclaw.builtins.now import NAME, Now, UnknownZone, find_zone, now_tool
from finclaw.diagnostics.event_stream import EventStream
from finclaw.errors import ExtensionError, ToolError
from finclaw.extensions.registrar import Registrar
from finclaw.extensions.registration import NULL_SERVICES
from finclaw.kernel.envelope import Sender
from finclaw.kernel.port import ToolScope
from finclaw.testing import FakeClock

SCOPE = ToolScope(session="s", turn_id="t", call_id="c", sender=Sender("u"))
MOMENT = datetime(2026, 11, 16, 22, 32, 41, 999_999, tzinfo=timezone(timedelta(hours=2)))


async def lines(zone: str | None = None, moment: datetime = MOMENT) -> dict[str, str]:
    output = await now_tool(FakeClock(moment)).run({} if zone is None else {"timezone": zone}, SCOPE)
    return dict(line.split(": ", 1) for line in output.content.splitlines())


async def test_it_tells_utc_and_the_place_in_both_languages() -> None:
    assert await lines("서울") == {
        "utc": "2026-11-16T20:32:41+00:00",
        "zone": "Asia/Seoul",
        "local": "2026-11-17T05:32:41+09:00",
        "weekday": "Tuesday",
        "text": "Tuesday, 17 November 2026, 05:32:41 (Asia/Seoul)",
        "text_ko": "2026년 11월 17일 화요일 05:32:41 (Asia/Seoul)",
    }


async def test_without_a_zone_it_is_utc() -> None:
    told = await lines()
    assert (told["zone"], told["local"]) == ("UTC", told["utc"])


async def test_the_moment_is_a_fact() -> None:
    output = await now_tool(FakeClock(MOMENT)).run({}, SCOPE)
    (fact,) = output.facts
    assert (fact.value, fact.unit, fact.source) == (Decimal(int(MOMENT.timestamp())), "unix", "clock")
    assert fact.as_of == MOMENT.replace(microsecond=0)


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("Asia/Seoul", "Asia/Seoul"),
        ("asia/seoul", "Asia/Seoul"),
        ("Seoul", "Asia/Seoul"),
        ("KST", "Asia/Seoul"),
        (" new york ", "America/New_York"),
        ("New_York", "America/New_York"),
        ("뉴욕", "America/New_York"),
        ("런던", "Europe/London"),
        ("Frankfurt", "Europe/Berlin"),
        ("hong kong", "Asia/Hong_Kong"),
        ("Paris", "Europe/Paris"),
        ("Buenos Aires", "America/Buenos_Aires"),
        ("utc", "UTC"),
        ("GMT", "UTC"),
        ("UTC+9", "UTC+09:00"),
        ("utc-03:30", "UTC-03:30"),
        ("GMT +5:30", "UTC+05:30"),
    ],
)
def test_places_are_known_by_many_names(asked: str, name: str) -> None:
    assert find_zone(asked)[0] == name


@pytest.mark.parametrize(
    "asked",
    [
        "",
        "Atlantis",
        "../../etc/passwd",
        "/etc/localtime",
        "Asia",
        "Asia/",
        "UTC+99",
        "UTC+5:75",
        "\x00",
        "posix/UTC",
        "a" * 64,
    ],
)
def test_what_is_no_place_is_said_to_be_none(asked: str) -> None:
    with pytest.raises(UnknownZone):
        find_zone(asked)


@given(st.text(max_size=64))
def test_any_text_is_a_zone_or_refused(asked: str) -> None:
    try:
        _, zone = find_zone(asked)
    except ToolError:
        return
    assert MOMENT.astimezone(zone) == MOMENT


@given(st.integers(0, 4_102_444_800).map(lambda seconds: datetime.fromtimestamp(seconds, UTC)))
async def test_the_hour_there_is_that_of_the_time_zone_database(moment: datetime) -> None:
    """Summer time comes and goes, and the offset is told with it."""
    told = await lines("New York", moment)
    assert told["local"] == moment.replace(microsecond=0).astimezone(ZoneInfo("America/New_York")).isoformat()


def loaded(extension: Now) -> Registrar:
    registrar = Registrar(EventStream(), replace(NULL_SERVICES, clock=FakeClock(MOMENT)))
    registrar.load([extension])
    return registrar


async def test_as_an_extension_it_has_the_houses_clock_and_a_usual_zone() -> None:
    (tool,) = loaded(Now("Asia/Seoul")).tools.list()
    assert (tool.spec.name, tool.transactional, tool.parallel_safe, tool.group) == (NAME, False, True, "finance")
    assert "local: 2026-11-17T05:32:41+09:00" in (await tool.run({}, SCOPE)).content


def test_a_usual_zone_that_is_none_stops_the_start() -> None:
    with pytest.raises(ExtensionError, match="Atlantis"):
        loaded(Now("Atlantis"))
