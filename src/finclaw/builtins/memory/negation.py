"""Negations in what a person says, English and Korean: a note that leaves one out says the opposite of what they meant.

Word lists and no grammar. A word too many costs one question to the person; a word too few turns their wish around.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable
from typing import Final

from finclaw.builtins.memory.words import forms, index_words, query_words

_NEGATION: Final = re.compile(
    r"""
      (?<![a-z])(?:
        no|not|never|none|nothing|nobody|nowhere|neither|nor|without|cannot
      | \w{1,8}n't | (?:do|does|did|wo|ca|is|are|was|were|would|should|could|have|has|must|need)nt
      | avoid\w{0,3}|refus\w{1,3}|refrain\w{0,3}|stop\w{0,4}|forb[aio]\w{1,6}|exclud\w{1,3}|except|against|quit
      | zero|lacks?|unless
      )(?![a-z])
    | (?<![가-힣])안(?!녕|전|정|내|건|경|과|방|주|락|심|보|산|양)(?=[\s가-힣]) | (?<![가-힣])못
    | 않|[지진질]\s?(?:마|말|못)|말[고라자아]|말\s?것|아니|아닌|아닙|없
    | 금지|절대|결코|거부|피하|피한|피해|제외|빼고|그만
    """,
    re.VERBOSE,
)
_DOUBT: Final = re.compile(
    r"""
      (?<![a-z])(?:
        wrong|false|fake|lie[sd]?|lying|mistake\w{0,2}|scam(?=s?\W+(?:is|was|are|to|if)\b)|ignor\w{1,3}|den(?:y|ies|ied)
      | reject\w{0,3}|doubt\w{0,4}|beware|opposite|contrary|instead|rather|disagree\w{0,2}|hardly|untrue|nonsense|if
      | pretend\w{0,3}|suppos\w{1,3}|hate\w{0,1}|dangerous|stupid|foolish|bad|says?|said|claims?|want(?:s|ed)?\ me
      | dislik\w{1,3}
      )(?![a-z])
    | 거짓|가짜|틀[렸린리]|반대|무시|의심|위험|사기(?=[라야다는를을]|꾼)|잘못|속지|싫|대신|만약|(?<![가-힣])만일
    """,
    re.VERBOSE,
)
"""What may turn the rest of a message around without a "not" in it."""
_WISH: Final = re.compile(
    r"(?:do not|don't|dont|never)(?: ever)? forget(?: that)?|잊지\s?(?:마|말)[가-힣]{0,3}(?:\s(?:주|줘)[가-힣]{0,3})?"
)
"""A wish to remember that is worded with a negation of its own."""
_NEGATED_BEHIND: Final = re.compile(
    r"[가-힣\s]{0,6}?(?:지\s?(?:마|말|않|못)|면\s?안|[서선]는?\s?안|선\s?안|지는\s?(?:마|말))"
)
_LONGEST_CLAUSE: Final = 500
_SENTENCE: Final = re.compile(r"[.!?。…](?=\s|$)|\n")


def in_plain_letters(text: str) -> str:
    """In one spelling: small letters, one kind of apostrophe."""
    return unicodedata.normalize("NFKC", text).casefold().replace("’", "'")


def negates(text: str) -> bool:
    return _NEGATION.search(_WISH.sub(" ", in_plain_letters(text))) is not None


def turns_around(text: str) -> bool:
    """Whether something in it may mean that what stands beside it is not so, or not wanted."""
    plain = _WISH.sub(" ", in_plain_letters(text))
    return _NEGATION.search(plain) is not None or _DOUBT.search(plain) is not None


def drops_negation(said: Iterable[str], note: str, is_wish: Callable[[str], object]) -> bool:
    """Whether what they said of the same thing is negated, and the note is not. `said`: the newest first.

    The newest text that is about the same thing decides: people change their minds.
    """
    if negates(note):
        return False
    telling = {form for word in query_words(note) for form in forms(word)}
    for text in said:
        about = [each for each in _SENTENCE.split(text) if not telling.isdisjoint(index_words(each))]
        if about:
            return any(negates(each) and not _is_wish_alone(each, telling, is_wish) for each in about)
    return False


def _is_wish_alone(sentence: str, telling: Collection[str], is_wish: Callable[[str], object]) -> bool:
    """Whether one clause has the wish and what it is about: the negation beside it is about something else."""
    clauses = (each for each in re.split(r"[,;，]", sentence) if is_wish(each) and not negates(each))
    return any(word in telling for clause in clauses for word in index_words(clause))


def negates_wish(text: str, found: re.Match[str], *, whole_sentence: bool) -> bool:
    """Whether the wish that was found in a text is one not to do it: English negates before the verb, Korean behind.

    `whole_sentence`: also a negation in another clause before it counts.
    """
    clause = text[max(0, found.start() - _LONGEST_CLAUSE) : found.start()]
    before = re.split(r"[.!?。…\n]" if whole_sentence else r"[.!?。…\n,;:]", clause)[-1]
    return negates(before) or _NEGATED_BEHIND.match(in_plain_letters(text[found.end() : found.end() + 20])) is not None
