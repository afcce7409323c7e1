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
_SIGNS = r"[$₩€¥£]"
_CODES = "|".join(english for english, _ in _WORDS.values())
_KOREAN = "|".join(korean for _, korean in _WORDS.values())

_UNITS = {"조": 10**12, "억": 10**8, "만": 10**4, "천": 1_000, "백": 100, "십": 10}
_SCALES = {
    **{"k": 10**3, "thousand": 10**3, "m": 10**6, "mn": 10**6, "million": 10**6},
    **{"b": 10**9, "bn": 10**9, "billion": 10**9},
}

_HANGUL = "(?-i:[가-힣])"
"""It has no case; to look for one in all its eleven thousand would take a millisecond and a half."""
_DIGITS = r"\d[\d,]*(?:\.\d+)?"
_KOREAN_NUMBER = rf"(?:{_DIGITS}\s?[천백십]?\s?[조억만]\s?|{_DIGITS}\s?[천백]\s?)+(?:{_DIGITS})?"
_WORD_NUMBER = r"[천백십]?[만억]|[천백]"
_AMOUNT = re.compile(
    rf"(?P<sign>{_SIGNS})?\s?(?P<code>\b(?:usd|krw|eur|jpy|gbp|btc|eth)\s)?"
    rf"(?P<korean>{_KOREAN_NUMBER})(?:\s?(?P<after_korean>{_KOREAN}))?"
    rf"|(?<!{_HANGUL}|\d)(?P<words>{_WORD_NUMBER})\s?(?P<after_words>{_KOREAN})"
    rf"|(?P<sign2>{_SIGNS})?\s?(?P<code2>\b(?:usd|krw|eur|jpy|gbp|btc|eth)\s)?(?<![\w.])(?P<digits>{_DIGITS})"
    rf"\s?(?P<scale>(?:k|mn|m|bn|b|thousand|million|billion)\b)?"
    rf"(?:\s?(?:(?P<after>{_CODES})(?![a-z])|(?P<after_ko>{_KOREAN})(?![a-z\d%]))|(?![\w%]))",
    re.IGNORECASE,
)
_TARGET = re.compile(
    rf"\b(?:in|to|into|as)\s+(?:the\s+)?(?P<english>{_CODES})(?![a-z])"
    rf"|(?:^|(?<=\s))(?P<korean>{_KOREAN})\s?(?:으로|로)(?:는|도|요|은)?(?=\s|\W|$|{_HANGUL}*[?？]|환전|환산|바꾸|바꿔|하면|얼마|계산)"
    rf"|몇\s?(?P<how_many>{_KOREAN})\S*",
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


def take_amounts(text: str) -> tuple[tuple[Amount, ...], str]:
    """The person's figures, and the text without them. A bare six-digit figure is a KRX code before it is an amount."""
    found = [match for match in _AMOUNT.finditer(text) if not _is_code(match)]
    for match in reversed(found):
        text = f"{text[: match.start()]} {text[match.end() :]}"
    return tuple(_amounts(found)), text


def _is_code(match: re.Match[str]) -> bool:
    return bool(_CODE.fullmatch(match.group().strip())) and _currency(match) is None


def _amounts(found: list[re.Match[str]]) -> Iterator[Amount]:
    for match in found:
        if match["korean"]:
            value = _korean_value(match["korean"])
        elif match["words"]:
            value = _korean_value(match["words"])
        else:
            scale = _SCALES.get((match["scale"] or "").casefold(), 1)
            value = Decimal(match["digits"].replace(",", "")) * scale
        yield Amount(value, _currency(match))


def _currency(match: re.Match[str]) -> str | None:
    said = ("sign", "sign2", "code", "code2", "after", "after_ko", "after_korean", "after_words")
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
