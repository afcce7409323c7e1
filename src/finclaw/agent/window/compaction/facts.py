"""Facts that a summary must not lose: identifiers, amounts, dates and open questions, found without a model.

Every pattern takes time in proportion to the text: repetitions are bounded and none of them is nested.
"""

import re
from collections.abc import Generator, Iterable, Sequence
from itertools import chain, islice
from typing import Final, Literal, cast

from msgspec import Struct

from finclaw.agent.window.compaction.options import is_summary
from finclaw.agent.window.tokens import CountText
from finclaw.kernel.message import Message, Role, Text, ToolResult
from finclaw.numerals.find import AMOUNT, CODES, DATE

Kind = Literal["question", "identifier", "amount", "date"]

HEADING: Final = "Kept facts:"
_MOST_FACTS: Final = 600
_MOST_READ: Final = 150_000  # characters that are searched, in under a tenth of a second
_MOST_RESULTS: Final = 200
_OF_A_RESULT: Final = 300
_MOST_QUESTIONS: Final = 6
_MOST_NAMES: Final = 12
_LONGEST_QUESTION: Final = 240
_LONGEST_READ: Final = 20_000  # characters of one text, from its end
_READ_FOR_NAMES: Final = 4_000

# The patterns are strings: `re` compiles one when it is first used and keeps it, and most commands end before.
_IDENTIFIER: Final = (
    r"\$[A-Z]{1,6}\b"
    r"|(?<![A-Za-z0-9_.,-])(?=[A-Za-z_-]{0,24}[0-9])[A-Za-z0-9][A-Za-z0-9_-]{4,47}(?:\.[A-Z]{1,4})?"  # orders, ISINs
    r"|\b[A-Z]{1,5}[.:][A-Z0-9]{1,6}\b"
    r"|(?<![A-Z])[A-Z]{2,5}(?![A-Za-z])"  # tickers, and other words in capitals
)
_BEGINNING: Final = r"(?=[-+\u2212\u00b1$€£¥₩￦0-9A-Z]|(?<![A-Za-z0-9_.,-])[a-z][A-Za-z_-]{0,23}[0-9])"
"""What any fact begins with. Most of a text is passed over quickly with it: that makes the search ten times faster."""
_FACT: Final = f"(?a){_BEGINNING}(?:(?P<date>{DATE})|(?P<amount>{AMOUNT})|(?P<identifier>{_IDENTIFIER}))"
"""In ASCII, because a Korean particle follows without a space: `USD를` is a separate word only there."""
_SENTENCE: Final = r"[^.!?。？！\n]{1,400}[.!?。？！\n]?"
_MINUS: Final = ("-", "\u2212")
_LEFT_OUT: Final = {ord(sign): None for sign in ", \t\n"}
_RANK: Final[dict[Kind, int]] = {"question": 0, "identifier": 1, "amount": 2, "date": 3}


class KeptFact(Struct, frozen=True):
    kind: Kind
    text: str


def facts_of(messages: Sequence[Message]) -> tuple[KeptFact, ...]:
    """The facts of these messages, each once: the person's own first, then the assistant's, of each the latest first.

    Of tools only identifiers, and only lately: they are full of figures, and what counted was said again in words.
    A summary or a note counts as the person's: what was kept once is kept again.
    """
    by_role: dict[Role, list[Message]] = {"user": [], "assistant": [], "tool": [], "system": []}
    for message in reversed(messages):
        by_role["user" if is_summary(message) else message.role].append(message)
    said = chain(_texts(by_role["user"]), _texts(by_role["assistant"]))
    results = islice(_texts(by_role["tool"]), _MOST_RESULTS)
    facts = dict.fromkeys(_open_questions(messages))
    for fact in chain(_find(said), _identifiers(results)):
        if len(facts) >= _MOST_FACTS:
            break
        facts[fact] = None
    return tuple(facts)


def missing(facts: Iterable[KeptFact], summary: str) -> list[KeptFact]:
    plain = _normalize(summary)
    told = {_normalize(fact.text) for fact in _find([summary])}
    texts = ((fact, _normalize(fact.text)) for fact in facts)
    lost = [fact for fact, text in texts if text not in told and not _contains(plain, text)]
    return sorted(lost, key=lambda fact: _RANK[fact.kind])


def kept_list(lost: Sequence[KeptFact], tokens: int, count: CountText) -> str:
    lines: list[str] = []
    for kind in _RANK:
        words = [fact.text for fact in lost if fact.kind == kind]
        while words:
            line = f"- {kind}s: {'; '.join(words)}"
            if kind == "question":
                line = f"- open: {' / '.join(words)}"
            if count("\n".join((HEADING, *lines, line))) <= tokens:
                lines.append(line)
                break
            words = words[: len(words) * 3 // 4]
    return "\n".join((HEADING, *lines)) if lines else ""


def names_in(text: str, tokens: int, count: CountText) -> str:
    """Identifiers at the beginning of a tool's result, as many as the room allows; those with a digit say the most."""
    found = dict.fromkeys(fact.text for fact in _identifiers([text[:_READ_FOR_NAMES]]))
    names = [name for name in islice(found, _MOST_NAMES) if not re.fullmatch(CODES, name)]
    names.sort(key=lambda name: not re.search("[0-9]", name))
    while names and count(", ".join(names)) > tokens:
        names = names[: len(names) * 3 // 4]
    return ", ".join(names)


def _open_questions(messages: Sequence[Message]) -> list[KeptFact]:
    """What was asked last, by whomever, since what stays may answer it; and what the person asked in vain."""
    found: list[KeptFact] = []
    for message in reversed(messages):
        text = message.text.strip()
        if message.role not in ("user", "assistant") or is_summary(message) or not text:
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
    sentences = (match.group().strip() for match in re.finditer(_SENTENCE, text[-_LONGEST_READ:]))
    asked = (one for one in sentences if one.endswith(("?", "？")) and len(one) > 1)
    return [KeptFact("question", one[-_LONGEST_QUESTION:]) for one in asked]


def _texts(messages: Sequence[Message]) -> Generator[str]:
    for message in messages:
        for block in message.blocks:
            if isinstance(block, Text):
                yield block.text[-_LONGEST_READ:]
            elif isinstance(block, ToolResult):
                yield block.content[:_OF_A_RESULT]


def _find(texts: Iterable[str]) -> Generator[KeptFact]:
    unread = _MOST_READ
    for text in texts:
        unread -= len(text)
        if unread < 0:
            return
        for match in re.finditer(_FACT, text):
            yield KeptFact(cast(Kind, match.lastgroup), match.group())


def _identifiers(texts: Iterable[str]) -> Generator[KeptFact]:
    return (fact for fact in _find(texts) if fact.kind == "identifier")


def _normalize(text: str) -> str:
    return text.casefold().translate(_LEFT_OUT)


def _contains(text: str, fact: str) -> bool:
    """5% is not in 15%, nor in -5%."""
    at = text.find(fact)
    while at >= 0:
        before = text[at - 1 : at]
        after = text[at + len(fact) : at + len(fact) + 1]
        is_other = fact[:1].isdigit() and (before.isdigit() or before in _MINUS)
        if not is_other and not (after.isdigit() and fact[-1:].isdigit()):
            return True
        at = text.find(fact, at + 1)
    return False
