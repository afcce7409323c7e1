"""The line that keeps a made-up price from being taken for a real one."""

from finclaw.kernel.language import language_of
from finclaw.kernel.text import with_last_line

DEMO_LINES = {
    "en": "(Demo market: simulated prices, not real quotes.)",
    "ko": "(데모 시장: 실제 시세가 아닌 모의 가격입니다.)",
}


def disclose_demo(reply: str, question: str) -> str:
    """The reply with the line at its end, in the reply's language; unchanged if it has it or says nothing at all."""
    if not reply.strip() or any(line in reply for line in DEMO_LINES.values()):
        return reply
    spoken = reply if any(map(str.isalpha, reply)) else question  # a reply may be figures only
    return with_last_line(reply, DEMO_LINES[language_of(spoken)])
