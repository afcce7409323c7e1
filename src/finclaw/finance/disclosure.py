"""The line that keeps a made-up price from being taken for a real one."""

import re

DEMO_LINES = {
    "en": "(Demo market: simulated prices, not real quotes.)",
    "ko": "(데모 시장: 실제 시세가 아닌 모의 가격입니다.)",
}

_HANGUL = re.compile("[가-힣]")
_LATIN = re.compile("[A-Za-z]")


def disclose_demo(reply: str, question: str) -> str:
    """The reply with the line at its end, in the reply's language; unchanged if it has it or says nothing at all."""
    if not reply.strip() or any(line in reply for line in DEMO_LINES.values()):
        return reply
    return f"{reply.rstrip()}\n\n{DEMO_LINES[_language(reply) or _language(question) or 'en']}"


def _language(text: str) -> str | None:
    """By weight and not by presence: an English reply may name 삼성전자, a Korean one many tickers."""
    hangul, latin = len(_HANGUL.findall(text)), len(_LATIN.findall(text))
    if not hangul and not latin:
        return None
    return "ko" if 2 * hangul >= latin else "en"
