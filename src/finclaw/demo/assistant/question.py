"""Reading a person's message: its language, and clause by clause what they want."""

import re
import unicodedata
from itertools import islice

from msgspec import Struct

from finclaw.demo.assistant.arithmetic import read_arithmetic
from finclaw.demo.assistant.clause import Clause, read_clause
from finclaw.demo.assistant.intent import intent_of
from finclaw.text import Language, language_of

LONGEST = 600
"""Letters. A longer text is no question to this assistant; it says so instead of picking words out of it."""
_MOST_CLAUSES, _MOST_JOINTS = 4, 12

_SENTENCE_END = re.compile(r"[?!;\n。？！]+|(?<=[^\d\s])\.(?=\s|$)|(?<=\d)\.(?=\s+[A-Za-z가-힣]|$)")
_MAYBE_CLAUSE_END = re.compile(
    r"(?:(?<!\d),|,(?!\d))\s*(?:and\s+)?|\s+and\s+(?:also\s+)?|\s*그리고\s+|(?<=주고)\s+|(?<=하고)\s+|(?<=이랑)\s+|(?<=랑)\s+",
    re.I,
)
_WHOLE = frozenset(("compare", "convert", "alert_add", "alert_remove", "advice", "trade", "news", "clock"))
"""Two halves of these mean less than the whole: "compare Apple and Tesla's price"."""
_COUNTS_AS_ASKING = frozenset(
    ("price", "change", "hours", "calendar", "portfolio", "alert_list", "convert", "compare", "alert_add", "help")
)


class ParsedQuestion(Struct, frozen=True):
    language: Language
    clauses: tuple[Clause, ...]
    too_long: bool = False
    too_many: bool = False


def read_question(text: str, language: Language | None = None) -> ParsedQuestion:
    language = language or language_of(text[:LONGEST])
    if len(text) > 2 * LONGEST:  # composing Hangul may halve it; beyond that nothing of it is looked at
        return ParsedQuestion(language, (), too_long=True)
    text = _clean(text)
    if len(text) > LONGEST:
        return ParsedQuestion(language, (), too_long=True)
    sentences = [each for each in _SENTENCE_END.split(text) if any(map(str.isalnum, each)) or _is_jamo(each)]
    clauses = [read_clause(part) for sentence in sentences for part in _parts(sentence)]
    spoken = tuple(clause for clause in clauses if not clause.says_nothing)
    return ParsedQuestion(language, spoken[:_MOST_CLAUSES], too_many=len(spoken) > _MOST_CLAUSES)


def _parts(sentence: str) -> list[str]:
    """Cut where both sides ask for something by themselves; a comma between two names is no cut."""
    if intent_of(sentence) in _WHOLE or read_arithmetic(sentence.strip()):
        return [sentence]
    for joint in islice(_MAYBE_CLAUSE_END.finditer(sentence), _MOST_JOINTS):
        before, after = sentence[: joint.start()], sentence[joint.end() :]
        if intent_of(before) in _COUNTS_AS_ASKING and intent_of(after) in _COUNTS_AS_ASKING:
            return [before, *_parts(after)]
    return [sentence]


def _clean(text: str) -> str:
    """Composed Hangul, ASCII digits for full-width ones, and nothing invisible: direction marks, joiners, controls."""
    text = unicodedata.normalize("NFKC", text)
    return "".join(each for each in text if each in "\n\t" or unicodedata.category(each) not in ("Cf", "Cc", "Cs"))


def _is_jamo(text: str) -> bool:
    return bool(re.search("[ㄱ-ㆎ]", text))
