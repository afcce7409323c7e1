"""Spans of time as people name them. One that the market tools do not know is noticed and never bent to another."""

import re

UNKNOWN = "unknown"

_NUMBER = r"\d+|an?|one|two|three|four|five|six|seven|eight|nine|ten|twelve|few|couple of|several"
_COUNTED = re.compile(rf"\b(?P<n>{_NUMBER})\s+(?P<unit>day|week|month|year)s?\b", re.IGNORECASE)
_COUNTED_KO = re.compile(
    r"(?<![가-힣\d])(?:(?P<n>\d+)\s?(?P<unit>일|주일|주|개월|달|년)|(?P<n2>한|두|세|석|네|여섯)\s?(?P<unit2>주일|주|개월|달))"
    r"(?![가-힣]*요일|식|가|러|주)(?:간|동안|전|새|은|는|의|에)*"
)
"""Not the 달 of 달러 and not the 주 of 주식 or 주가."""
_COUNTS = {
    **{"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "six": 6, "seven": 7, "twelve": 12},
    **{"한": 1, "두": 2, "세": 3, "석": 3, "여섯": 6},
}
_KNOWN = {
    ("day", 1): "day",
    ("day", 7): "week",
    ("day", 30): "month",
    ("day", 365): "year",
    ("week", 1): "week",
    ("week", 4): "month",
    ("week", 52): "year",
    ("month", 1): "month",
    ("month", 3): "quarter",
    ("month", 12): "year",
    ("year", 1): "year",
}
_UNITS_KO = {"일": "day", "주일": "week", "주": "week", "개월": "month", "달": "month", "년": "year"}

_LEAD = r"(?:(?:over|in|during|for|since|this|last|past|the|previous)\s+)*"
_NAMED = (
    ("day", r"\b(?:intraday|today's (?=range|high|low))", "하루|당일|장중|일중"),
    ("yesterday", rf"\b{_LEAD}yesterday(?:'s)?\b", "어제|어저께"),
    ("year_to_date", rf"\b{_LEAD}(?:ytd|year[- ]to[- ]date|this year|january)\b", "올해|연초|금년"),
    ("quarter", rf"\b{_LEAD}quarter(?:ly)?\b", "(?:이번|지난)?\\s?분기"),
    ("week", rf"\b{_LEAD}week(?:ly)?\b", "(?:이번|지난|저번|최근|한)\\s?주(?!식|가)(?:간|일)?|주간|일주일"),
    ("month", rf"\b{_LEAD}month(?:ly)?\b", "(?:이번|지난|저번|최근|한)\\s?달|월간"),
    ("year", rf"\b{_LEAD}year(?:ly)?\b", "작년|지난\\s?해|연간|일년"),
)
_PARTICLES = "(?:은|는|이|에|의|도|간|중|동안|들어|까지|부터|만)*"
_PATTERNS = tuple(
    (name, re.compile(f"(?:{english})|(?:{korean}){_PARTICLES}", re.IGNORECASE)) for name, english, korean in _NAMED
)


def take_period(text: str) -> tuple[str | None, str]:
    """The period that is meant, and the text without it. UNKNOWN: one that nobody here can look at."""
    for pattern in (_COUNTED, _COUNTED_KO):
        if found := pattern.search(text):
            return _counted(found), _without(text, found)
    for name, pattern in _PATTERNS:
        if found := pattern.search(text):
            return name, _without(text, found)
    return None, text


def _counted(found: re.Match[str]) -> str:
    given = found.groupdict()
    said, unit = given["n"] or given["n2"], given["unit"] or given["unit2"]
    said, unit = said.casefold(), unit.casefold()
    count = int(said) if said.isdecimal() else _COUNTS.get(said, 0)
    return _KNOWN.get((_UNITS_KO.get(unit, unit), count), UNKNOWN)


def _without(text: str, found: re.Match[str]) -> str:
    return f"{text[: found.start()]} {text[found.end() :]}"
