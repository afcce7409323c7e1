"""Amounts and currencies as people write them: $100, 1.5k USD, 50만원, 3만5천 원, "in won", 달러로."""

import re
from collections.abc import Iterator
from decimal import Decimal

from msgspec import Struct

_WORDS = {
    "KRW": (r"korean won|won|krw|₩", "원화|원"),
    "USD": (r"us dollars?|u\.s\. dollars?|dollars?|usd|bucks?|\$", "미국 ?달러|달러화|달러|미화|불"),
    "EUR": (r"euros?|eur|€", "유로화|유로"),
    "JPY": (r"japanese yen|yen|jpy|¥", "엔화|엔"),
    "GBP": (r"british pounds?|pounds?|sterling|gbp|£", "파운드화|파운드"),
    "BTC": (r"bitcoins?|btc", "비트코인|비트"),
    "ETH": (r"ethereum|ether|eth", "이더리움|이더"),
    "SOL": (r"solana|sol", "솔라나"),
    "XRP": (r"ripple|xrp", "리플"),
}
FIAT = frozenset(("KRW", "USD", "EUR", "JPY", "GBP"))
_SIGNS = r"(?<![A-Za-z])[$₩€¥£]"
_FIAT = "|".join(english for code, (english, _) in _WORDS.items() if code in FIAT)
_CODES = "|".join(english for english, _ in _WORDS.values())
_KOREAN = "|".join(korean for _, korean in _WORDS.values())

_UNITS = {"조": 10**12, "억": 10**8, "만": 10**4, "천": 1_000, "백": 100, "십": 10}
_SCALES = {
    **{"k": 10**3, "thousand": 10**3, "m": 10**6, "mn": 10**6, "million": 10**6},
    **{"b": 10**9, "bn": 10**9, "billion": 10**9},
}

HANGUL = "(?-i:[가-힣])"
"""A syllable. It has no case: to look for one in all eleven thousand takes a millisecond of `cold_cpu` each time."""
_DIGITS = r"\d[\d,]*(?:\.\d+)?"
_KOREAN_NUMBER = rf"(?:{_DIGITS}\s?[천백십]?\s?[조억만]\s?|{_DIGITS}\s?[천백]\s?)+(?:{_DIGITS})?"
_WORD_NUMBER = r"[천백십]?[만억]|[천백]"
_AMOUNT = re.compile(
    rf"(?P<sign>{_SIGNS})?\s?(?P<code>\b(?:usd|krw|eur|jpy|gbp|btc|eth)\s)?"
    rf"(?P<korean>{_KOREAN_NUMBER})(?:\s?(?P<after_korean>{_KOREAN}))?"
    rf"|(?<!{HANGUL}|\d)(?P<words>{_WORD_NUMBER})\s?(?P<after_words>{_KOREAN})"
    rf"|\b(?P<one>one|an?)\s(?P<after_one>{_FIAT})(?![a-z])"
    rf"|(?P<sign2>{_SIGNS})?\s?(?P<code2>\b(?:usd|krw|eur|jpy|gbp|btc|eth)\s)?(?<![\w.])(?P<digits>{_DIGITS})"
    rf"\s?(?P<scale>(?:k|mn|m|bn|b|thousand|million|billion)\b)?"
    rf"(?:\s?(?:(?P<after>{_CODES})(?![a-z])|(?P<after_ko>{_KOREAN})(?![a-z\d%]))|(?![\w%]))",
    re.IGNORECASE,
)
_TARGET = re.compile(
    rf"\b(?:in|to|into|as)\s+(?:the\s+)?(?P<english>{_CODES})(?![a-z])"
    rf"|(?:^|(?<=\s))(?P<korean>{_KOREAN})\s?(?:으로|로)(?:는|도|요|은)?(?=\s|\W|$|{HANGUL}*[?？]|환전|환산|바꾸|바꿔|하면|얼마|계산)"
    rf"|\bhow many\s+(?P<how_many_en>{_CODES})(?![a-z])"
    rf"|몇\s?(?P<how_many>{_KOREAN})(?:이야|야|예요|이에요|에요|인가요?|인지|임|이지|지|이죠|죠|이니|니|이냐|냐|정도야?)?(?!{HANGUL})",
    re.IGNORECASE,
)
_ALONE = re.compile(rf"(?:{_CODES}|{_KOREAN})", re.IGNORECASE)
_CODE = re.compile(r"\d{6}|\d[MB]")
"""A KRX code, or a name such as 3M, unless a currency stands beside it."""
_PARTICLE = re.compile("(?:은|는|이|가|을|를|도|요|로|으로|로는|으로는)$")


class Amount(Struct, frozen=True):
    """The person's own figure. `currency` is None when they gave none."""

    value: Decimal
    currency: str | None


def currency_of(word: str) -> str | None:
    """The currency that a word is, with or without a Korean particle."""
    for form in (word.strip(), _PARTICLE.sub("", word.strip())):
        if _ALONE.fullmatch(form):
            return next(
                code
                for code, (english, korean) in _WORDS.items()
                if re.fullmatch(f"(?:{english})|(?:{korean})", form, re.IGNORECASE)
            )
    return None


def take_target(text: str) -> tuple[str | None, str]:
    """The currency that is wanted, and the text without the words for it."""
    found = _TARGET.search(text)
    if found is None:
        return None, text
    word = next(filter(None, found.groups()), "")
    asks = " 얼마 " if found["how_many"] else " "
    return currency_of(word), text[: found.start()] + asks + text[found.end() :]


def take_amounts(text: str, *, bare: bool = True) -> tuple[tuple[Amount, ...], str]:
    """The person's figures, and the text without them. A bare six-digit figure is a KRX code before it is an amount.

    Not `bare`: a figure without a currency stays in the text, where it may be part of a name (KODEX 200) or too much.
    """
    found = [match for match in _AMOUNT.finditer(text) if not _is_code(match) and (bare or _currency(match))]
    for match in reversed(found):
        text = f"{text[: match.start()]} {text[match.end() :]}"
    return tuple(_amounts(found)), text


_SHARES = re.compile(
    rf"(?<![\w.,-])(?:(?P<count>{_DIGITS})\s?(?P<hundred>[만천백])?|(?P<word>한|두|세|네|다섯|열))\s?(?:주|개)"
    rf"(?:는|은|면|이면|에|의|를|을|요|만)?(?!{HANGUL})"
    rf"|(?<![\w.,-])(?:(?P<count2>{_DIGITS})|(?P<word2>a|an|one))\s+(?:shares?|stocks?|units?|coins?)\b(?:\s+of\b)?",
    re.IGNORECASE,
)
_FEW = {"한": 1, "두": 2, "세": 3, "네": 4, "다섯": 5, "열": 10, "a": 1, "an": 1, "one": 1}


def take_quantity(text: str) -> tuple[Decimal | None, str]:
    """How many pieces are meant, and the text without the words for it. Several are none: they stay in the text."""
    found = list(_SHARES.finditer(text))
    if len(found) != 1:
        return None, text
    given = found[0].groupdict()
    digits = given["count"] or given["count2"]
    count = Decimal(digits.replace(",", "")) if digits else Decimal(_FEW[(given["word"] or given["word2"]).casefold()])
    return count * _UNITS.get(given["hundred"] or "", 1), text[: found[0].start()] + " " + text[found[0].end() :]


_NUMERAL = re.compile(r"(?<![\w.,])\d+(?:[.,]\d+)+(?![\d])")
_PLAIN = re.compile(r"(?!0?[1-9]\d{0,2}\.\d{3}$)(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\d{6}(?:,\d{6})+")
_NEGATIVE = re.compile(rf"(?:^|(?<=\s)|(?<=\())[-−–]\s?(?:{_SIGNS})?\s?\d[\d.,]*|{_SIGNS}\s?[-−–]\s?\d[\d.,]*")


def unclear_number(text: str) -> str | None:
    """A figure that two countries read differently: 1.234,56 and 1,5; and 5.000, which is five or five thousand."""
    return next((each for each in _NUMERAL.findall(text) if not _PLAIN.fullmatch(each)), None)


def negative_number(text: str) -> str | None:
    found = _NEGATIVE.search(text)
    return found.group().strip() if found else None


def _is_code(match: re.Match[str]) -> bool:
    return bool(_CODE.fullmatch(match.group().strip())) and _currency(match) is None


def _amounts(found: list[re.Match[str]]) -> Iterator[Amount]:
    for match in found:
        if match["korean"]:
            value = _korean_value(match["korean"])
        elif match["words"]:
            value = _korean_value(match["words"])
        elif match["one"]:
            value = Decimal(1)
        else:
            scale = _SCALES.get((match["scale"] or "").casefold(), 1)
            value = Decimal(match["digits"].replace(",", "")) * scale
        whole = value.to_integral_value()
        yield Amount(whole if value == whole else value, _currency(match))


def _currency(match: re.Match[str]) -> str | None:
    said = ("sign", "sign2", "code", "code2", "after", "after_ko", "after_korean", "after_words", "after_one")
    return next((currency_of(match[name]) for name in said if match[name]), None)


def _korean_value(text: str) -> Decimal:
    """3만5천 is three ten-thousands and five thousands; 1억 2천만 has a unit under a unit."""
    total, part, number = Decimal(0), Decimal(0), Decimal(0)
    seen = False
    for token in re.findall(rf"{_DIGITS}|[조억만천백십]", text):
        if token in ("조", "억", "만"):
            part += number if seen else Decimal(0)
            total += (part or Decimal(1)) * _UNITS[token]
            part, number, seen = Decimal(0), Decimal(0), False
        elif token in _UNITS:
            part += (number if seen else Decimal(1)) * _UNITS[token]
            number, seen = Decimal(0), False
        else:
            number, seen = Decimal(token.replace(",", "")), True
    return total + part + number
