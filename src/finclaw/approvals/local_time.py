"""Times in the person's zone, or in that of this machine (`TZ`)."""

import os
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final

from finclaw.kernel.person import reader_zone
from finclaw.text import Language

_KOREA: Final = timezone(timedelta(hours=9), "KST")
_NAMES: Final[dict[Language, dict[str, str]]] = {"en": {}, "ko": {"KST": "한국 시간"}}


def time_of_day(moment: datetime, language: Language) -> str:
    local = moment.astimezone(_zone(moment, language))
    name = local.tzname() or "UTC"
    return f"{local:%H:%M:%S} ({_NAMES[language].get(name, name)})"


def day_and_time(moment: datetime, language: Language = "en") -> str:
    return f"{moment.astimezone(_zone(moment, language)):%Y-%m-%d %H:%M:%S %Z}"


def day_of(moment: datetime, language: Language = "en") -> str:
    return f"{moment.astimezone(_zone(moment, language)):%Y-%m-%d}"


def _zone(moment: datetime, language: Language) -> tzinfo | None:
    """The person's own, else this machine's (None). One that was left at UTC says nothing about where people are, but
    their language may.
    """
    if own := reader_zone():
        return own
    chosen = os.environ.get("TZ") or moment.astimezone().utcoffset()
    return None if chosen else _KOREA if language == "ko" else UTC
