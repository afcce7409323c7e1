"""Words and signs in numerals: scales, Korean units, vulgar fractions, currencies."""

import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

SCALES: Final = {
    **{"k": 10**3, "m": 10**6, "mn": 10**6, "mm": 10**6, "b": 10**9, "bn": 10**9, "tn": 10**12, "trn": 10**12},
    **{"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12},
}
KOREAN_SMALL: Final = {"십": 10, "백": 100, "천": 1_000}
KOREAN_LARGE: Final = {"만": 10**4, "억": 10**8, "조": 10**12, "경": 10**16}
VULGAR: Final = {
    **{"½": Fraction(1, 2), "⅓": Fraction(1, 3), "⅔": Fraction(2, 3), "¼": Fraction(1, 4), "¾": Fraction(3, 4)},
    **{"⅕": Fraction(1, 5), "⅖": Fraction(2, 5), "⅗": Fraction(3, 5), "⅘": Fraction(4, 5)},
    **{"⅛": Fraction(1, 8), "⅜": Fraction(3, 8), "⅝": Fraction(5, 8), "⅞": Fraction(7, 8)},
}

CURRENCY_SIGNS: Final = {"$": "USD", "€": "EUR", "£": "GBP", "¥": "JPY", "￥": "JPY", "₩": "KRW", "￦": "KRW"}
CURRENCY_WORDS: Final = {
    "KRW": ("korean won|won|krw", "원화|원"),
    "USD": (r"us dollars?|u\.s\. dollars?|dollars?|usd|bucks?", "미국 ?달러|달러화|달러|미화|불"),
    "EUR": ("euros?|eur", "유로화|유로"),
    "JPY": ("japanese yen|yen|jpy", "엔화|엔"),
    "GBP": ("british pounds?|pounds?|sterling|gbp", "파운드화|파운드"),
    "BTC": ("bitcoins?|btc", "비트코인|비트"),
    "ETH": ("ethereum|ether|eth", "이더리움|이더"),
    "SOL": ("solana|sol", "솔라나"),
    "XRP": ("ripple|xrp", "리플"),
}
"""By code: patterns of its English and of its Korean words."""
FIAT: Final = frozenset(("KRW", "USD", "EUR", "JPY", "GBP"))
ENGLISH_CURRENCY: Final = "|".join(english for english, _ in CURRENCY_WORDS.values())
KOREAN_CURRENCY: Final = f"(?-i:{'|'.join(korean for _, korean in CURRENCY_WORDS.values())})"


@lru_cache(256)
def find_currency(word: str) -> str | None:
    if word in CURRENCY_SIGNS:
        return CURRENCY_SIGNS[word]
    for code, (english, korean) in CURRENCY_WORDS.items():
        if re.fullmatch(f"(?:{english})|(?:{korean})", word, re.IGNORECASE):
            return code
    return None
