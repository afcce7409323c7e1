"""What a summary must not lose: identifiers, amounts, dates and open questions, found without a model.

Every pattern takes time in proportion to the text: repetitions are bounded and none of them is nested.
"""

import re
from collections.abc import Generator, Iterable, Sequence
from itertools import chain, islice
from typing import Final, Literal

from msgspec import Struct

from finclaw.agent.gauge import CountText, is_summary
from finclaw.kernel.message import Message, Role, Text, ToolResult

Kind = Literal["question", "identifier", "amount", "date"]

HEADING: Final = "Kept facts:"
_MOST_FACTS: Final = 600
_MOST_READ: Final = 600_000
_MOST_LOOKS: Final = 15_000
"""More than a summary has room for, many times over; and so the search takes no longer in a longer conversation."""
_MOST_RESULTS: Final = 200
_OF_A_RESULT: Final = 300
_MOST_QUESTIONS: Final = 6
_LONGEST_QUESTION: Final = 240
_LONGEST_READ: Final = 20_000
"""Characters of one text, from its end: what matters is said in few."""
_AT_ONCE: Final = 4_000
"""Characters that are searched in one go."""

_NUMBER: Final = r"\d[\d,]{0,24}(?:\.\d{1,12})?"
_CODES: Final = r"(?:USD|KRW|EUR|JPY|GBP|CNY|HKD|CHF|CAD|AUD|BTC|ETH)"
_SCALE: Final = r"(?:[ ]?(?:million|billion|trillion|thousand|bn|mn|[kKmM]\b|천|만|억|조))?"
_UNIT: Final = (
    r"(?:%|％|퍼센트|bps?\b|원|달러|엔|유로|위안|주(?![가-힣])|계약"
    rf"|shares?\b|contracts?\b|dollars?\b|won\b|{_CODES}\b)"
)
_MONTH: Final = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}\.?"

_DATE: Final = (
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2})?"
    r"|\d{4}[./]\d{1,2}[./]\d{1,2}|\d{1,2}/\d{1,2}/\d{2,4}"
    r"|\d{4}년(?:[ ]?\d{1,2}월)?(?:[ ]?\d{1,2}일)?|\d{1,2}월[ ]?\d{1,2}일"
    rf"|\b{_MONTH}[ ]\d{{1,2}}(?:,?[ ]\d{{4}})?\b|\b\d{{1,2}}[ ]{_MONTH}(?:[ ]\d{{4}})?"
    r"|\b[1-4]?Q[1-4]?[ ]?\d{4}\b"
)
_AMOUNT: Final = rf"(?:[$€£¥₩￦]|\b{_CODES}[ ]?){_NUMBER}{_SCALE}|(?<![\w.]){_NUMBER}{_SCALE}[ ]?{_UNIT}"
_IDENTIFIER: Final = (
    r"\$[A-Z]{1,6}\b"
    r"|(?<![A-Za-z0-9_.,-])(?=[A-Za-z_-]{0,24}[0-9])[A-Za-z0-9][A-Za-z0-9_-]{4,47}(?:\.[A-Z]{1,4})?"  # orders, ISINs
    r"|\b[A-Z]{1,5}[.:][A-Z0-9]{1,6}\b"
    r"|(?<![A-Z])[A-Z]{2,5}(?![A-Za-z])"  # tickers, and other words in capitals
)
_FACT: Final = re.compile(f"(?P<date>{_DATE})|(?P<amount>{_AMOUNT})|(?P<identifier>{_IDENTIFIER})")
_BEGINNING: Final = re.compile(r"[0-9A-Z$€£¥₩￦]")
_RUN: Final = re.compile(r"[0-9]+|[A-Z]+|.", re.DOTALL)
_SENTENCE: Final = re.compile(r"[^.!?。？！\n]{1,400}[.!?。？！\n]?")
_NOTHING_SAID: Final = {ord(sign): None for sign in ", \t\n"}
_KINDS: Final[dict[str, Kind]] = {"date": "date", "amount": "amount", "identifier": "identifier"}
_RANK: Final[dict[Kind, int]] = {"question": 0, "identifier": 1, "amount": 2, "date": 3}


class KeptFact(Struct, frozen=True):
    kind: Kind
    text: str


def facts_of(messages: Sequence[Message]) -> tuple[KeptFact, ...]:
    """The facts of these messages, each once: the person's own first, then the assistant's, of each the latest first.

    Of tools only identifiers, and only lately: they are full of figures, and what counted was said again in words.
    """
    found: dict[KeptFact, None] = dict.fromkeys(open_questions(messages))
    for fact in chain.from_iterable(_searches(messages)):
        found.setdefault(fact)
        if len(found) >= _MOST_FACTS:
            break
    return tuple(found)


def _searches(messages: Sequence[Message]) -> Generator[Iterable[KeptFact]]:
    search = _Search()
    yield from map(search, _together(_texts(messages, "user")))
    yield from map(search, _together(_texts(messages, "assistant")))
    for text in _together(islice(_texts(messages, "tool"), _MOST_RESULTS)):
        yield (fact for fact in search(text) if fact.kind == "identifier")


def missing(facts: Iterable[KeptFact], summary: str) -> list[KeptFact]:
    """Those that the summary does not have, the most important first."""
    told = {_plain(fact.text) for fact in _Search()(summary)}
    plain = _plain(summary)
    lost = [fact for fact in facts if _plain(fact.text) not in told and not _stands_in(_plain(fact.text), plain)]
    return sorted(lost, key=lambda fact: _RANK[fact.kind])


def kept_list(lost: Sequence[KeptFact], tokens: int, count: CountText) -> str:
    """As many of them as the room allows, as a short list; empty when there is none."""
    lines: list[str] = []
    for kind in _RANK:
        words = [fact.text for fact in lost if fact.kind == kind]
        while words:
            line = f"- {kind}s: {'; '.join(words)}" if kind != "question" else f"- open: {' / '.join(words)}"
            if count("\n".join((HEADING, *lines, line))) <= tokens:
                lines.append(line)
                break
            words = words[: len(words) * 3 // 4]
    return "\n".join((HEADING, *lines)) if lines else ""


def open_questions(messages: Sequence[Message]) -> list[KeptFact]:
    """What was asked last, by whomever, since what stays may answer it; and what the person asked in vain."""
    found: list[KeptFact] = []
    for message in reversed(messages):
        if message.role not in ("user", "assistant") or is_summary(message) or not (text := message.text.strip()):
            continue
        if message.role == "assistant" and found:
            break
        found += reversed(_questions(text))
        if message.role == "assistant" or len(found) >= _MOST_QUESTIONS:
            break
    return found[:_MOST_QUESTIONS]


def _questions(text: str) -> list[KeptFact]:
    if "?" not in text and "？" not in text:
        return []
    sentences = (each.group().strip() for each in _SENTENCE.finditer(text[-_LONGEST_READ:]))
    return [
        KeptFact("question", one[-_LONGEST_QUESTION:]) for one in sentences if one.endswith(("?", "？")) and one[:-1]
    ]


def _texts(messages: Sequence[Message], role: Role) -> Generator[str]:
    """The latest first. A summary or a note counts as the person's: what was kept once is kept again."""
    for message in reversed(messages):
        if message.role == role or (role == "user" and message.metadata and is_summary(message)):
            for block in message.blocks:
                if isinstance(block, Text):
                    yield block.text[-_LONGEST_READ:]
                elif isinstance(block, ToolResult):
                    yield block.content[:_OF_A_RESULT]


def _together(texts: Iterable[str]) -> Generator[str]:
    """Many short texts as a few long ones: no fact goes on behind the end of a line, so none is made by it."""
    some: list[str] = []
    size = 0
    for text in texts:
        some.append(text)
        size += len(text)
        if size >= _AT_ONCE:
            yield "\n".join(some)
            some, size = [], 0
    yield "\n".join(some)


class _Search:
    """Finds the facts of text after text, until it has looked closely often enough."""

    def __init__(self) -> None:
        self._left = _MOST_LOOKS
        self._unread = _MOST_READ

    def __call__(self, text: str) -> Generator[KeptFact]:
        """Most of a text is small letters: only where something else begins is it worth looking closer."""
        self._unread -= len(text)
        end = 0
        for sign in _BEGINNING.finditer(text) if self._unread >= 0 else ():
            at = sign.start()
            if at < end:
                continue
            if self._left <= 0:
                return
            self._left -= 1
            match = _FACT.match(text, _word_start(text, at, end))
            end = (match or _RUN.match(text, at) or sign).end()
            if match is not None:
                yield KeptFact(_KINDS[match.lastgroup or ""], match.group().strip())


def _word_start(text: str, at: int, end: int) -> int:
    """An identifier may begin with small letters before its first digit."""
    if not text[at].isdigit():
        return at
    start = at
    while start > max(end, at - 24) and (before := text[start - 1]).isascii() and (before.isalpha() or before in "_-"):
        start -= 1
    return start


def _plain(text: str) -> str:
    return text.casefold().translate(_NOTHING_SAID)


def _stands_in(fact: str, text: str) -> bool:
    """5% does not stand in 15%."""
    at = text.find(fact)
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(fact) : at + len(fact) + 1]
        if not (before.isdigit() and fact[:1].isdigit()) and not (after.isdigit() and fact[-1:].isdigit()):
            return True
        at = text.find(fact, at + 1)
    return False
