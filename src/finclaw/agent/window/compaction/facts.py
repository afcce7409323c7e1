"""Facts that a summary must not lose: identifiers, amounts, dates and open questions, found without a model.

Every pattern takes time in proportion to the text: repetitions are bounded and none of them is nested.
"""

import re
from collections.abc import Generator, Iterable, Sequence
from itertools import islice
from string import ascii_letters
from typing import Final, Literal

from msgspec import Struct

from finclaw.agent.window.compaction.options import is_summary
from finclaw.agent.window.tokens import CountText
from finclaw.kernel.message import SUMMARY, Message, Role, Text, ToolResult
from finclaw.numerals.find import AMOUNT, CODES, DATE, SIGNS

Kind = Literal["question", "identifier", "amount", "date"]

HEADING: Final = "Kept facts:"
_MOST_FACTS: Final = 600
_MOST_READ: Final = 600_000
_MOST_LOOKS: Final = 10_000
"""More than a summary has room for, many times over; and so the search takes no longer in a longer conversation."""
_MOST_RESULTS: Final = 200
_OF_A_RESULT: Final = 300
_MOST_QUESTIONS: Final = 6
_MOST_NAMES: Final = 12
_LONGEST_QUESTION: Final = 240
_LONGEST_READ: Final = 20_000
"""Characters of one text, from its end: what matters is said in few."""
_AT_ONCE: Final = 4_000
"""Characters that are searched in one go."""

# The patterns are strings: `re` compiles one when it is first used and keeps it, and most commands end before.
_IDENTIFIER: Final = (
    r"\$[A-Z]{1,6}\b"
    r"|(?<![A-Za-z0-9_.,-])(?=[A-Za-z_-]{0,24}[0-9])[A-Za-z0-9][A-Za-z0-9_-]{4,47}(?:\.[A-Z]{1,4})?"  # orders, ISINs
    r"|\b[A-Z]{1,5}[.:][A-Z0-9]{1,6}\b"
    r"|(?<![A-Z])[A-Z]{2,5}(?![A-Za-z])"  # tickers, and other words in capitals
)
_FACT: Final = f"(?a)(?P<date>{DATE})|(?P<amount>{AMOUNT})|(?P<identifier>{_IDENTIFIER})"
"""In ASCII, because a Korean particle follows without a space: `USD를` is a word of its own only there."""
_BEGINNING: Final = r"[0-9A-Z$€£¥₩￦](?:(?<=[0-9])[0-9]*|(?![a-z])[A-Z]*|(?=an|eb|ar|pr|ay|un|ul|ug|ep|ct|ov|ec))"
"""Digits, capitals or a currency, and a month: no other word that only begins with a capital."""
_BEGINNING_OF_NAME: Final = (
    r"[0-9A-Z$](?:(?<=[0-9])(?:(?=[A-Za-z0-9_-]{4})|(?<=[A-Za-z_-].))[0-9]*|(?<=[A-Z$])(?=[A-Z.:])[A-Z]*)"
)
"""The same for identifiers alone: figures are short, and results are full of them."""
_DIGIT: Final = r"[0-9]"
_SENTENCE: Final = r"[^.!?。？！\n]{1,400}[.!?。？！\n]?"
_MINUS: Final = ("-", "\u2212")
_WORD_SIGNS: Final = frozenset(ascii_letters + "_-")
_GOES_BEFORE: Final = _WORD_SIGNS.union(SIGNS)
_NOTHING_SAID: Final = {ord(sign): None for sign in ", \t\n"}
_KINDS: Final[dict[str | None, Kind]] = {"date": "date", "amount": "amount", "identifier": "identifier"}
_RANK: Final[dict[Kind, int]] = {"question": 0, "identifier": 1, "amount": 2, "date": 3}


class KeptFact(Struct, frozen=True):
    """A fact that a summary has to keep."""

    kind: Kind
    text: str


def facts_of(messages: Sequence[Message]) -> tuple[KeptFact, ...]:
    """The facts of these messages, each once: the person's own first, then the assistant's, of each the latest first.

    Of tools only identifiers, and only lately: they are full of figures, and what counted was said again in words.
    """
    questions = open_questions(messages)
    search = _Search(_MOST_FACTS - len(questions))
    said = _by_role(messages)
    search.read(_texts(said["user"]))
    search.read(_texts(said["assistant"]))
    search.read(islice(_texts(said["tool"]), _MOST_RESULTS), only="identifier")
    return (*questions, *search.facts)


def missing(facts: Iterable[KeptFact], summary: str) -> list[KeptFact]:
    """Those that the summary does not have, the most important first."""
    told = {_normalize_text(fact.text) for fact in _facts_in(summary)}
    plain = _normalize_text(summary)
    lost = [
        fact
        for fact in facts
        if _normalize_text(fact.text) not in told and not _stands_in(_normalize_text(fact.text), plain)
    ]
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


def names_in(text: str, tokens: int, count: CountText) -> str:
    """Identifiers at the beginning of a tool's result, as many as the room allows; those with a digit say the most."""
    search = _Search(_MOST_NAMES)
    search.read([text[:_AT_ONCE]], only="identifier")
    found = [fact.text for fact in search.facts if not re.fullmatch(CODES, fact.text)]
    names = sorted(found, key=lambda name: not re.search(_DIGIT, name))
    while names and count(", ".join(names)) > tokens:
        names = names[: len(names) * 3 // 4]
    return ", ".join(names)


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
    sentences = (each.group().strip() for each in re.finditer(_SENTENCE, text[-_LONGEST_READ:]))
    return [
        KeptFact("question", one[-_LONGEST_QUESTION:]) for one in sentences if one.endswith(("?", "？")) and one[:-1]
    ]


def _by_role(messages: Sequence[Message]) -> dict[Role, list[Message]]:
    """A summary or a note counts as the person's: what was kept once is kept again."""
    said: dict[Role, list[Message]] = {"user": [], "assistant": [], "tool": [], "system": []}
    for message in messages:
        said["user" if SUMMARY in message.metadata else message.role].append(message)
    return said


def _texts(messages: Sequence[Message]) -> Generator[str]:
    """The latest first."""
    for message in reversed(messages):
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


def _facts_in(text: str) -> Iterable[KeptFact]:
    search = _Search(len(text))
    search.read([text])
    return search.facts


class _Search:
    """Finds the facts of text after text, until it has enough of them or has looked closely often enough."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._looks = _MOST_LOOKS
        self._unread = _MOST_READ
        self._found: dict[tuple[str | None, str], None] = {}

    @property
    def facts(self) -> Iterable[KeptFact]:
        return (KeptFact(_KINDS[kind], text) for kind, text in islice(self._found, self._most))

    def read(self, texts: Iterable[str], only: Literal["identifier"] | None = None) -> None:
        for text in _together(texts):
            self._unread -= len(text)
            if self._unread < 0 or self._looks <= 0 or len(self._found) >= self._most:
                return
            self._look(text, only)

    def _look(self, text: str, only: Literal["identifier"] | None) -> None:
        """Most of a text is small letters: only where something else begins is it worth looking closer."""
        found, fact_at, looks, end = self._found, re.compile(_FACT).match, self._looks, 0
        beginnings = _BEGINNING if only is None else _BEGINNING_OF_NAME
        for beginning in re.finditer(beginnings, text):
            at, stop = beginning.span()
            if at < end:
                continue
            if looks <= 0:
                break
            looks -= 1
            match = _longest(text, at, end) if text[at - 1 : at] in _GOES_BEFORE else fact_at(text, at)
            if match is None:
                end = stop
                continue
            end = match.end()
            if only is None or match.lastgroup == only:
                found[match.lastgroup, match.group()] = None
        self._looks = looks


def _longest(text: str, at: int, end: int) -> re.Match[str] | None:
    """An amount may begin with a sign, and an identifier with small letters before its first digit."""
    start = at
    if text[at].isdigit():
        while start > max(end, at - 24) and text[start - 1] in _WORD_SIGNS:
            start -= 1
    if start == at > end and text[at - 1] in SIGNS:
        start -= 1
    match_fact = re.compile(_FACT).match
    return match_fact(text, start) or (match_fact(text, at) if start < at else None)


def _normalize_text(text: str) -> str:
    return text.casefold().translate(_NOTHING_SAID)


def _stands_in(fact: str, text: str) -> bool:
    """5% does not stand in 15%, nor in -5%."""
    at = text.find(fact)
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(fact) : at + len(fact) + 1]
        is_other = fact[:1].isdigit() and (before.isdigit() or before in _MINUS)
        if not is_other and not (after.isdigit() and fact[-1:].isdigit()):
            return True
        at = text.find(fact, at + 1)
    return False
