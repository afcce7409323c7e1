"""Tokens of a sentence: dates, periods, amounts, numbers of shares, holidays and currencies, each read once.

`read_sentence` puts the kind of each in its place: `apple last month in won` becomes `apple <period> <in>`. What cannot
be read stays in the text and fits no pattern. Korean particles belong to the token before them.
"""

import re
import unicodedata
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Final

from msgspec import Struct, field

from finclaw.finance.answers import has_two_readings
from finclaw.numerals.find import find_figures, read_value
from finclaw.numerals.tables import ENGLISH_CURRENCY, KOREAN_CURRENCY, find_currency

LONGEST: Final = 120
"""Characters of a sentence. They bound the time that all patterns take."""
_COURTESY: Final = (
    r"^(?:(?:hey|hi|hello|okay|ok|so|well|please|혹시|근데|그런데|안녕하세요)\b[, ]*)+(?=\S)",
    r"^(?:(?:can|could|would|will) you )?(?:please )?(?:tell|show|give|get)(?: me| us)? (?=\S)",
    r",? (?:please|pls|plz|thanks|thank you)$",
    r"(?:좀)? ?(?:줘요?|주세요|줄래요?|주실래요?|주시겠어요|주십시오|봐 ?줘요?|봐요?)$",
    r"(?:좀)? ?(?:알려|보여|말해|가르쳐|찾아|확인해|조회해|부탁해요?|부탁드려요|부탁드립니다|궁금해요?)$",
    r" ?좀$",
)
_NOW: Final = (
    r"\b(?:right now|at the moment|today(?:'s)?|now|currently)\b"
    r"|(?<![가-힣])(?:지금|현재(?!가)|오늘)(?:은|의|도)?(?![가-힣])"
)
_AND: Final = r"^(?:(?:and|what about|how about|also|then|그럼|그러면|그리고) )+"


class Sentence(Struct, kw_only=True):
    text: str
    slots: dict[str, str] = field(default_factory=dict[str, str])
    """The values of its tokens, by their kind."""
    is_now: bool = False
    """It said "today" or "now"."""
    is_follow_up: bool = False
    """It began with "and" or "what about"."""


def clean_text(text: str) -> str:
    """Composed Hangul, ASCII for full-width forms, no invisible characters, no marks at the end."""
    if len(text) > 4 * LONGEST:  # composing Hangul may leave a third of it
        return text
    text = unicodedata.normalize("NFKC", text)
    text = "".join(each for each in text if each == "\n" or unicodedata.category(each) not in ("Cf", "Cc", "Cs"))
    return text.replace("’", "'").strip(" \t\n.,!?~…。")


def read_sentence(text: str) -> Sentence | None:
    """The sentence of a cleaned text; None if it is long, has a token twice, or an amount with two readings."""
    if len(text) > LONGEST or re.search(r"[<>\n]", text) or has_two_readings(text):
        return None
    sentence = Sentence(text=text)
    for pattern in _COURTESY:
        sentence.text = re.sub(pattern, "", sentence.text, count=1, flags=re.IGNORECASE) or sentence.text
    for kind, pattern, read in _TOKENS:
        matches = list(re.finditer(pattern, sentence.text, re.IGNORECASE))
        if len(matches) > 1 or (kind == "quantity" and not _replace_amount(sentence)):
            return None
        for match in re.finditer(pattern, sentence.text, re.IGNORECASE):
            sentence.slots[kind] = read(match)
            sentence.text = f"{sentence.text[: match.start()]} <{kind}> {sentence.text[match.end() :]}"
    sentence.text, found = re.subn(_NOW, " ", sentence.text, flags=re.IGNORECASE)
    sentence.is_now = found > 0
    sentence.text, found = re.subn(_AND, "", sentence.text.strip(), flags=re.IGNORECASE)
    sentence.is_follow_up = found > 0
    sentence.text = " ".join(sentence.text.split())
    if "in" in sentence.slots:
        sentence.slots["currency"] = sentence.slots.pop("in")
    return sentence


_PARTICLE: Final = (
    "(?:에는|에도|에서는|에서|엔|에|은요?|는요?|이면|면|이|가|을|를|의|도|만|이랑|랑|인데|이라는데)?(?![가-힣])"
)
_START: Final = "(?<![가-힣])"
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH: Final = (
    r"jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?"
)
_DATE: Final = (
    r"(?:\bon )?(?:the )?(?<![\w.-])(?:(?P<y1>\d{4})[-./](?P<m1>\d{1,2})[-./](?P<d1>\d{1,2})(?![\d-])"
    r"|(?:(?P<y2>\d{4})년 ?)?(?P<m2>\d{1,2})월 ?(?P<d2>\d{1,2})일(?:날|자)?"
    rf"|(?P<m3>{_MONTH})\.? (?P<d3>\d{{1,2}})(?:st|nd|rd|th)?(?:,? (?P<y3>\d{{4}}))?\b"
    rf"|(?P<d4>\d{{1,2}})(?:st|nd|rd|th)? (?:of )?(?P<m4>{_MONTH})(?:,? (?P<y4>\d{{4}}))?\b){_PARTICLE}"
)


def _read_date(found: re.Match[str]) -> str:
    given = {name[0]: text for name, text in found.groupdict().items() if text}
    month = given["m"][:3].casefold()
    number = int(month) if month.isdigit() else _MONTHS.index(month) + 1
    year = f"{given['y']}-" if "y" in given else ""
    return f"{year}{number:02}-{int(given['d']):02}"


HALF_YEAR: Final = "half_year"
_PERIODS: Final = (
    ("yesterday", "yesterday(?:'s)?", "어제|전일"),
    ("this_week", "this week", "이번 ?주|금주"),
    ("last_week", "(?<!the )last week", "(?:지난|저번) ?주"),
    ("this_month", "this month", "이번 ?달|이달"),
    ("last_month", "(?<!the )last month", "(?:지난|저번) ?달"),
    ("this_quarter", "this quarter", "이번 ?분기"),
    ("last_quarter", "(?<!the )last quarter", "지난 ?분기"),
    ("year_to_date", "this year|ytd|year to date", "올해|금년"),
    ("last_year", "(?<!the )last year", "작년|지난 ?해"),
    ("week", "past week|(?<=the )last week|(?:a|one|1)[ -]week|7 days", "(?:일|1) ?주일|1 ?주간"),
    ("month", "past month|(?<=the )last month|(?:a|one|1|last 1)[ -]month|30 days", "한 ?달|1 ?개월"),
    (
        "quarter",
        "past quarter|(?<=the )last quarter|(?:past |last )?(?:3|three)[ -]months?",
        "(?:3|세|석) ?(?:개월|달)",
    ),
    (HALF_YEAR, "(?:past |last )?(?:6|six)[ -]months?", "6 ?개월|여섯 ?달"),
    ("year", "past year|(?<=the )last year|(?:a|one|1)[ -]year|12[ -]months|52[ -]weeks?", "[1일] ?년|12 ?개월|52주"),
)
_PERIOD: Final = (
    r"\b(?:(?:over|in|during|for|within|of) )?(?:the )?(?:"
    + "|".join(f"(?P<{name}_en>{english})" for name, english, _ in _PERIODS)
    + rf")\b(?:'s\b)?(?! ago)|{_START}(?:최근 ?)?(?:"
    + "|".join(f"(?P<{name}_ko>{korean})" for name, _, korean in _PERIODS)
    + f")(?: ?(?:동안|간|치))?(?! ?전){_PARTICLE}"
)
CSAT: Final = "CSAT"
_HOLIDAY: Final = (
    r"\b(?:on )?(?P<en>thanksgiving|christmas|new year's|good friday|memorial day|juneteenth|independence day|labor day"
    r"|seollal|chuseok|children's day|csat|college entrance exam)(?: day)?\b|(?P<ko>추석|설날|신정|성탄절|크리스마스"
    f"|추수감사절|광복절|개천절|한글날|어린이날|현충일|삼일절|제헌절|수능)(?:날|일)?(?: ?연휴)?{_PARTICLE}"
)
_HOLIDAY_NAMES: Final = {
    **dict.fromkeys(("수능", "csat", "college entrance exam"), CSAT),
    **{"크리스마스": "성탄절", "new year's": "New Year"},
}


def _read_holiday(found: re.Match[str]) -> str:
    name = (found["en"] or found["ko"]).casefold()
    return _HOLIDAY_NAMES.get(name, name)


_NUMBER: Final = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?<![1-9]\.\d{3})"
"""Not 5.000, which is five or five thousand."""
_FEW: Final = {**{"a": 1, "one": 1, "ten": 10}, **{"한": 1, "두": 2, "세": 3, "네": 4, "다섯": 5, "열": 10}}
_QUANTITY: Final = (
    rf"(?<![\w.,+−-])(?:(?P<en>{_NUMBER}|a|one|ten) (?:(?:shares?|units?|coins?)\b(?: of\b)?|of (?:it|them)\b)"
    rf"|(?P<ko>{_NUMBER}[천백만]?|한|두|세|네|다섯|열) ?(?:주|개){_PARTICLE})"
)
_CURRENCY: Final = (
    rf"\b(?:(?:in|to|into|as) (?:the )?|how many )(?P<en>{ENGLISH_CURRENCY})\b"
    rf"|{_START}(?P<ko>{KOREAN_CURRENCY}) ?(?:으로|로)(?:는|은|도|요)?(?![가-힣])"
    rf"|몇 ?(?P<many>{KOREAN_CURRENCY})(?:이야|야|예요|이에요|에요|인가요?|인지|임|이지|지|이죠|죠)?(?![가-힣])"
)


def _replace_amount(sentence: Sentence) -> bool:
    """Put `<amount>` in the place of an amount of money; False if there are several, or one that is not sure."""
    found = [each for each in find_figures(sentence.text) if each.currency]
    if not found:
        return True
    figure = found[0]
    before, after = sentence.text[: figure.start], sentence.text[figure.end :]
    digits = re.findall(r"\d[\d.,]*", sentence.text[figure.start : figure.end])
    if len(found) > 1 or figure.kind != "amount" or figure.high is not None or figure.value < 0:
        return False
    if not all(re.fullmatch(_NUMBER, each) for each in digits) or re.search(r"[\d.,+−-]\s?$", before):
        return False
    value = Decimal(_write_decimal(figure.value))
    if figure.decimals:
        value = value.quantize(Decimal(1).scaleb(-figure.decimals))
    sentence.slots |= {"amount": f"{value:f}", "base": figure.currency}
    sentence.text = f"{before} <amount> {re.sub(f'^{_PARTICLE}', '', after)}"
    return True


def _read_quantity(found: re.Match[str]) -> str:
    written = (found["en"] or found["ko"]).casefold()
    return str(_FEW.get(written) or _write_decimal(read_value(written.replace(",", ""))))


def _write_decimal(value: Fraction) -> str:
    return f"{Decimal(value.numerator) / Decimal(value.denominator):f}"


_TOKENS: Final[tuple[tuple[str, str, Callable[[re.Match[str]], str]], ...]] = (
    ("date", _DATE, _read_date),
    ("period", _PERIOD, lambda found: (found.lastgroup or "")[:-3]),
    ("quantity", _QUANTITY, _read_quantity),
    ("holiday", _HOLIDAY, _read_holiday),
    ("tomorrow", rf"\btomorrow\b|{_START}내일{_PARTICLE}", lambda found: "tomorrow"),
    ("in", _CURRENCY, lambda found: find_currency(found[found.lastgroup or ""]) or ""),
)
