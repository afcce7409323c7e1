"""The tool that tells the time, here or elsewhere.

It exists because a model that guesses the day guesses the market's hours too.
"""

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from functools import cache
from typing import Annotated, Final

from msgspec import Meta, Struct

from finclaw.errors import ExtensionError, ToolError
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.fact import Fact
from finclaw.kernel.person import reader_zone
from finclaw.kernel.port import Clock, Tool, ToolOutput, ToolScope
from finclaw.tools.define import tool

NAME: Final = "time__now"
_DESCRIPTION: Final = "The date, weekday and time now, in UTC and in a time zone. Never guess them. 현재 날짜와 시각."

_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_DAYS_KO: Final = "월화수목금토일"
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_ALSO: Final = {
    "Asia/Seoul": "kst korea south_korea busan 서울 한국 부산 대한민국",
    "Asia/Tokyo": "jst osaka 도쿄 동경 일본 오사카",
    "Asia/Shanghai": "china beijing shenzhen 상하이 베이징 중국",
    "Asia/Hong_Kong": "홍콩",
    "Asia/Singapore": "싱가포르",
    "Asia/Kolkata": "india mumbai 인도 뭄바이",
    "Asia/Dubai": "두바이",
    "Australia/Sydney": "시드니",
    "America/New_York": "et nyse nasdaq wall_street boston washington 뉴욕 보스턴 워싱턴",
    "America/Chicago": "ct 시카고",
    "America/Los_Angeles": "pt san_francisco seattle 로스앤젤레스 샌프란시스코 시애틀",
    "America/Toronto": "토론토",
    "Europe/London": "uk britain england 런던 영국",
    "Europe/Berlin": "germany frankfurt 베를린 독일 프랑크푸르트",
    "Europe/Paris": "france 파리 프랑스",
    "Europe/Zurich": "switzerland 취리히 스위스",
}
"""Names of places that have no zone of that name, and Korean ones."""
_ALIASES: Final = {alias: zone for zone, aliases in _ALSO.items() for alias in aliases.split()}
_OFFSET: Final = re.compile(r"(?:utc|gmt)([+-])([0-9]{1,2})(?::?([0-9]{2}))?")


class Zone(Struct, frozen=True, forbid_unknown_fields=True):
    timezone: Annotated[
        str, Meta(max_length=64, description="Asia/Seoul, a city such as Seoul, 서울 or New York, or UTC+9.")
    ] = ""


class UnknownZone(ToolError):
    pass


class Now:
    name = "now"

    def __init__(self, usual_zone: str = "UTC") -> None:
        """`usual_zone` is told when none is asked for."""
        self._usual_zone = usual_zone

    def register(self, api: ExtensionApi) -> None:
        try:
            find_zone(self._usual_zone)
        except UnknownZone as error:
            raise ExtensionError(f"its usual time zone does not fit: {error}") from error
        api.tools.register(now_tool(api.clock, self._usual_zone))


def now_tool(clock: Clock, usual_zone: str = "UTC") -> Tool:
    @tool(NAME, _DESCRIPTION, group="finance")  # a group that needs no approval: it only looks at a clock
    async def now(args: Zone, scope: ToolScope) -> ToolOutput:
        own = reader_zone()
        name, zone = find_zone(args.timezone or (own and own.key) or usual_zone)
        moment = clock.now().astimezone(UTC).replace(microsecond=0)
        seconds = Decimal(int(moment.timestamp()))
        fact = Fact(subject=name, field="now", value=seconds, unit="unix", as_of=moment, source="clock")
        return ToolOutput(_format_moment(moment, name, moment.astimezone(zone)), (fact,))

    return now


def find_zone(asked: str) -> tuple[str, tzinfo]:
    """By its name, by a city in it, or by its distance from UTC. Raises UnknownZone."""
    key = re.sub(r"[\s_]+", "_", asked.strip()).lower()
    if key in ("utc", "gmt", "z", "utc+0", "utc-0"):
        return "UTC", UTC
    if offset := _OFFSET.fullmatch(key.replace("_", "")):
        return _fixed_offset(asked, offset)
    name = _ALIASES.get(key) or _by_name().get(key)
    if name is None:
        raise UnknownZone(f"there is no time zone or city {asked!r}; give a name such as Asia/Seoul, or UTC+9")
    from zoneinfo import ZoneInfo  # noqa: PLC0415  `cold_cpu`: 2 ms at the start, and few commands need a zone

    try:
        return name, ZoneInfo(name)
    except (KeyError, OSError, ValueError) as error:
        raise UnknownZone(
            f"this machine knows no time zone {name}; install tzdata, or ask for UTC+9 or alike"
        ) from error


@cache
def _by_name() -> dict[str, str]:
    """Every zone by its name and by its city, in small letters. Only names of the list are ever opened as files."""
    from zoneinfo import available_timezones  # noqa: PLC0415  start-up, as above

    names = sorted(available_timezones(), key=lambda name: (name.count("/") != 1, name))
    cities: dict[str, str] = {}
    for name in names:
        cities.setdefault(name.rpartition("/")[2].lower(), name)
    return cities | {name.lower(): name for name in names}


def _fixed_offset(asked: str, offset: re.Match[str]) -> tuple[str, tzinfo]:
    sign = offset[1]
    hours = int(offset[2])
    minutes = int(offset[3] or 0)
    if hours > 14 or minutes > 59:
        raise UnknownZone(f"no place is {asked} away; zones lie between UTC-12 and UTC+14")
    distance = timedelta(minutes=int(f"{sign}{60 * hours + minutes}"))
    return f"UTC{sign}{hours:02}:{minutes:02}", timezone(distance)


def _format_moment(moment: datetime, name: str, local: datetime) -> str:
    clock = f"{local:%H:%M:%S}"
    day = _DAYS[local.weekday()]
    day_ko = _DAYS_KO[local.weekday()]
    return "\n".join(
        [
            f"utc: {moment.isoformat()}",
            f"zone: {name}",
            f"local: {local.isoformat()}",
            f"weekday: {day}",
            f"text: {day}, {local.day} {_MONTHS[local.month - 1]} {local.year}, {clock} ({name})",
            f"text_ko: {local.year}년 {local.month}월 {local.day}일 {day_ko}요일 {clock} ({name})",
        ]
    )
