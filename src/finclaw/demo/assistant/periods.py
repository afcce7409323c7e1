"""Days and spans of time as people name them. One that the tools do not know is noticed and never bent to another."""

import re

from finclaw.numerals.find import HANGUL

UNKNOWN = "unknown"
SINCE_YESTERDAY = "since_yesterday"  # what a quote tells: the change since the close before

_COUNT = r"\d+|an?|one|two|three|four|five|six|seven|eight|nine|ten|twelve|few|couple of|several|some|many"
_UNIT = r"(?:hour|day|week|month|quarter|year|decade)s?"
_DAY_NAME = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)"
)
_KNOWN_COUNTS = {
    **{("day", 1): "day", ("day", 7): "week", ("day", 30): "month", ("day", 365): "year"},
    **{("week", 1): "week", ("week", 4): "month", ("week", 52): "year"},
    **{("month", 1): "month", ("month", 3): "quarter", ("month", 12): "year"},
    **{("quarter", 1): "quarter", ("year", 1): "year"},
}
_NUMBERS = {
    **{"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "six": 6, "seven": 7, "twelve": 12},
    **{"한": 1, "두": 2, "세": 3, "석": 3, "네": 4, "여섯": 6, "열두": 12},
}
_UNITS_KO = {"일": "day", "주": "week", "개월": "month", "달": "month", "분기": "quarter", "년": "year", "해": "year"}

_PARTICLES = (
    f"(?:에는|에도|에서는|엔|에|은|는|은요|는요|의|도|이|동안|동안은|간|사이|중|중에|들어|요|기준|치|보단)*(?!{HANGUL})"
)
_UNKNOWN_EN = (
    rf"\b(?:{_COUNT})\s+{_UNIT}\s+ago\b|\bin\s+(?:the next\s+)?(?:{_COUNT})\s+{_UNIT}\b|\bthe (?:next|coming) {_UNIT}\b"
    rf"|\b(?:day before yesterday|lately|recently|tomorrow(?:'s)?|tonight|weekend)\b|\bnext\s+(?:{_UNIT}|{_DAY_NAME})"
    rf"|\b(?:(?:last|this|on|since|until)\s+)?{_DAY_NAME}s?\b"
    rf"|\b(?:in|since|for|during|from|of|last|this|until|before|after|by)\s+{_MONTH}(?:\s+\d{{4}})?\b(?!\s*\d)"
    rf"|\b(?:since|until|till|before|after|between|from|by)\s+{_MONTH}\s+\d+\w*"
    r"|\bq[1-4]\b(?:\s*(?:19|20)\d\d)?|\b(?:first|second|third|fourth|1st|2nd|3rd|4th)\s+(?:half|quarter)\b"
    r"|\b(?:since|in|from|by|before|after|until|during|of|for)\s+(?:19|20)\d\d\b(?![-./]\d)"
    rf"|\bsince\s+(?:last|the)\s+\w+|\b(?:morning|afternoon|evening|overnight)\b"
)
_UNKNOWN_KO = (
    "(?:그저께|그제|엊그제|지지난|내일|모레|다음\\s?(?:주|달|분기|해)|내년|재작년|상반기|하반기|[1-4]\\s?분기|요즘|요새|아침|오전|오후|새벽"
    "|주말|[월화수목금토일]요일|(?:19|20)\\d\\d\\s?년(?!\\s?\\d+월)|\\d{1,2}월(?!\\s?\\d+\\s?일)"
    "|(?:\\d+|한|두|세|석|네|며칠|몇)\\s?(?:일|주일|주|개월|달|년|해)?\\s?전|(?:작년|지난\\s?해|지난\\s?달|지난\\s?주|어제|이번\\s?달)(?:부터|까지)"
    f"|최근(?!\\s?(?:\\d|한|일|두|세))){HANGUL}*"
)
_IN = r"\b(?:(?:in|over|during|for)\s+)?(?:the\s+)?"
_THIS_KO = {"week": "이번\\s?주|금주", "month": "이번\\s?달|이달|금월", "quarter": "이번\\s?분기"}
_LAST_KO = {
    **{"week": "(?:지난|저번)\\s?주|전주", "month": "(?:지난|저번)\\s?달|전월"},
    **{"quarter": "(?:지난|저번)\\s?분기|전분기", "year": "작년|전년|지난\\s?해"},
}
_TRAILING_KO = {"week": "일주일|주간", "month": "월간", "quarter": "최근\\s?분기", "year": "일\\s?년|연간"}
_NAMED = (
    (UNKNOWN, _UNKNOWN_EN, f"(?<!{HANGUL}|\\d){_UNKNOWN_KO}"),
    (
        SINCE_YESTERDAY,
        r"\b(?:since|than|from|vs\.?|versus|compared (?:to|with)|against)\s+yesterday(?:'s close)?",
        f"어제\\s?(?:보다|대비|에 비해|종가보다|종가 대비){HANGUL}*|전일\\s?(?:대비|보다)|전날\\s?(?:대비|보다)",
    ),
    ("yesterday", r"\byesterday(?:'s)?\b", "어제|어저께"),
    (
        "year_to_date",
        r"\b(?:(?:so far|in|over|during)\s+)?(?:ytd|year[- ]to[- ]date|this year(?:'s)?(?: so far)?"
        r"|since january(?! \d)|since the (?:start|beginning) of the year)\b",
        "올해|금년|연초\\s?(?:부터|대비|이후)|올\\s?들어",
    ),
    *((f"this_{unit}", _IN + rf"(?:this|the current)\s+{unit}(?:'s)?\b", ko) for unit, ko in _THIS_KO.items()),
    *((f"last_{unit}", _IN + rf"(?:(?<!the )last|previous)\s+{unit}(?:'s)?\b", ko) for unit, ko in _LAST_KO.items()),
    *(
        (unit, rf"{_IN}(?:the |a )?(?:past|last) {unit}\b|\b{unit}ly\b|^\W*(?:the |a )?{unit}\W*$", korean)
        for unit, korean in _TRAILING_KO.items()
    ),
    ("day", r"\bintraday\b|\b(?:today|the day)'s (?=range|high|low|open)|\bof the day\b", "하루|당일|장중|일중"),
)
_COUNTED = re.compile(
    r"\b(?:(?:over|during|for|in|within)\s+)?(?:the\s+)?(?:(?:last|past|previous)\s+)?"
    rf"(?P<n>{_COUNT})[\s-]+(?P<unit>day|week|month|quarter|year|hour|decade)s?\b"
    f"|(?<!{HANGUL}|[\\d.])"
    "(?:(?:최근|지난)\\s?)?(?:(?P<n2>\\d+)\\s?(?P<unit2>일|주(?=일|간|\\s?동안|\\s?(?:최고|최저|신고|신저|고가|저가))"
    f"|개월|달(?!러)|분기|년)|(?P<n3>한|두|세|석|네|여섯|열두)\\s?(?P<unit3>주|개월|달(?!러)|분기|해))(?:일|간|치)?{_PARTICLES}",
    re.IGNORECASE,
)
_PATTERNS = tuple(
    (name, re.compile(f"(?:{english})|(?:(?<!{HANGUL})(?:{korean}){_PARTICLES})", re.IGNORECASE))
    for name, english, korean in _NAMED
)
_DATES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?:\bon\s+)?(?<![\d.-])(?P<y>(?:19|20)\d\d)[-./](?P<m>\d{1,2})[-./](?P<d>\d{1,2})(?![\d-])"
        f"{_PARTICLES}",
        rf"(?:(?<!\d)(?P<y>\d{{4}})년\s?)?(?<!\d)(?P<m>\d{{1,2}})월\s?(?P<d>\d{{1,2}})일(?:날|자)?{_PARTICLES}",
        rf"(?:\bon\s+)?(?:the\s+)?\b(?P<n>{_MONTH})\.?\s+(?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?:,?\s+(?P<y>\d{{4}}))?\b",
        rf"(?:\bon\s+)?(?:the\s+)?\b(?P<d>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?(?P<n>{_MONTH})(?:,?\s+(?P<y>\d{{4}}))?\b",
    )
)
_RELATION = re.compile(r"(?:since|from|until|till|before|after|between|by|to|through)\s+(?:the\s+)?$", re.IGNORECASE)


_TOMORROW = re.compile(rf"\btomorrow\b|내일(?:은|도|엔|에는|에)?(?!{HANGUL})", re.IGNORECASE)
_HOLIDAY = re.compile(
    r"\b(?:on\s+)?(?P<english>thanksgiving|christmas|new year's|good friday|memorial day|juneteenth|independence day"
    r"|labor day|labour day|seollal|chuseok|hangul day|children's day|liberation day)(?: day)?\b"
    "|(?P<korean>추석|설날|신정|성탄절|크리스마스|추수감사절|광복절|개천절|한글날|어린이날|현충일|삼일절|제헌절)"
    f"(?:\\s?연휴)?{_PARTICLES}",
    re.IGNORECASE,
)
_HOLIDAY_NAMES = {"크리스마스": "성탄절", "new year's": "New Year"}


def take_tomorrow(text: str) -> tuple[str | None, str]:
    found = _TOMORROW.search(text)
    return ("tomorrow", _without(text, found)) if found else (None, text)


def take_holiday(text: str) -> tuple[str | None, str]:
    """A holiday by its name, and the text without it."""
    found = _HOLIDAY.search(text)
    if found is None:
        return None, text
    name = (found["english"] or found["korean"]).casefold()
    return _HOLIDAY_NAMES.get(name, name), _without(text, found)


def take_date(text: str) -> tuple[str | None, str]:
    """One day, `2026-03-03` or `03-03`, and the text without it. UNKNOWN: several days, or since one."""
    day: str | None = None
    for pattern in _DATES:
        while found := pattern.search(text):
            alone = day is None and not _RELATION.search(text[: found.start()])
            day = _day(found) if alone else UNKNOWN
            text = _without(text, found)
    return day, text


def take_period(text: str) -> tuple[str | None, str]:
    """The period that is meant, and the text without it. UNKNOWN: one that nobody here can look at, or several."""
    named: list[str] = []
    for name, pattern in (*_PATTERNS[:1], ("", _COUNTED), *_PATTERNS[1:]):
        while found := pattern.search(text):
            named.append(name or _counted_period(found))
            text = _without(text, found)
    return (named[0] if len(set(named)) == 1 else UNKNOWN if named else None), text


def _day(found: re.Match[str]) -> str:
    given = found.groupdict()
    month = int(given["m"]) if "m" in given else _MONTHS.index(given["n"][:3].casefold()) + 1
    year = f"{given['y']}-" if given["y"] else ""
    return f"{year}{month:02}-{int(given['d']):02}"


def _counted_period(found: re.Match[str]) -> str:
    said = next(filter(None, found.group("n", "n2", "n3"))).casefold()
    unit = next(filter(None, found.group("unit", "unit2", "unit3"))).casefold()
    count = int(said) if said.isdecimal() else _NUMBERS.get(said, 0)
    return _KNOWN_COUNTS.get((_UNITS_KO.get(unit, unit), count), UNKNOWN)


def _without(text: str, found: re.Match[str]) -> str:
    return f"{text[: found.start()]} {text[found.end() :]}"
