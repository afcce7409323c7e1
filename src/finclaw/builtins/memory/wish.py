"""Detection of a wish to save or forget, in the person's own words of this turn.

What they quote does not count, nor what any tool or page says.
"""

import re
import unicodedata
from dataclasses import dataclass
from typing import Final

from finclaw.builtins.memory.negation import drops_negation, in_plain_letters, negates_wish, turns_around
from finclaw.builtins.memory.notes import Note
from finclaw.builtins.memory.owner import is_private
from finclaw.builtins.memory.words import forms, index_words, normalize_text, query_words
from finclaw.kernel.message import Append, Message
from finclaw.kernel.scope import TurnContext
from finclaw.taint.sources import kept_sources, own_words, unquoted_part

_TO_REMEMBER: Final = re.compile(
    r"""
      (?<!\bdo\ you\ )(?<!\byou\ )(?<!\bi\ )(?<!\bnot\ )(?<!n't\ )(?<!\bnever\ )(?<!\bwe\ )\bremember(?!ed|ing|s)\b
    | \b(?:can|could|will|would)\ you\ (?:please\ )?remember\b
    | \b(?:do\ not|don't|never)\ forget\b
    | \bkeep\ (?:this|that|it|\S+(?:\ \S+){0,6})\ in\ mind\b | \bkeep\ in\ mind\b | \bmemori[sz]e\b
    | \b(?:make|take|leave)\ a\ note\b | \bnote\ (?:down|this|that|it|my)\b | \bnote\s*: | \bjot\b
    | \b(?:save|store)\ (?:this|that|it|the\ following)\b | \b(?:save|store|put|add)\b.{1,200}\b(?:memory|notes?)\b
    | \bwrite\ (?:this|that|it)\ down\b
    | 기억\s*(?:을\s*)?(?:해(?!\s*요?\s*\?|\s*(?:봐|보|내|냈))|하세요|하고\s*있어\s*[줘주]|부탁|시켜)
    | 저장\s*(?:을\s*)?(?:해(?!\s*요?\s*\?)|하세요|부탁|시켜)
    | 메모\s*(?:를\s*|로\s*)?(?:해|남겨|부탁|하세요) | 기록\s*(?:을\s*|으로\s*)?(?:해|남겨|부탁|하세요)
    | 적어\s*[둬두놔놓줘주] | 잊지\s*[마말] | 외워
    """,
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
"""Wide enough for how people say it; a wish in other words is asked about once, and then it is a yes."""

_TO_FORGET: Final = re.compile(
    r"""
      (?<!\bnot\ )(?<!n't\ )(?<!\bnever\ )(?<!\bi\ )(?<!\bi'll\ )\bforget\b
    | (?<!\bnot\ )(?<!n't\ )(?<!\bnever\ )\b(?:delete|erase|remove|drop|clear)\b
    | 잊어(?!버리지|\s*먹) | (?:삭제|제거)\s*(?:를\s*)?(?:해|하세요|부탁) | 지워 | 없애
    """,
    re.IGNORECASE | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Wish:
    asked: re.Pattern[str]
    """How a person asks for it."""
    offered: re.Pattern[str]
    """A word of this kind is in our own reply when a yes to it means this, and not something else."""


REMEMBER: Final = Wish(
    _TO_REMEMBER, re.compile("remember|memor|note|save|keep|store|기억|저장|메모|기록|적어", re.IGNORECASE)
)
FORGET: Final = Wish(_TO_FORGET, re.compile("forget|delete|remove|erase|삭제|지우|지울|잊|없애", re.IGNORECASE))

_QUOTED: Final = re.compile(
    r"""
      ```.*?(?:```|\Z) | `[^`\n]*`
    | "[^"]*" | “[^“”]*” | ‘[^‘’]*’ | «[^«»]*» | 「[^「」]*」 | 『[^『』]*』 | (?<!\w)'[^'\n]*'(?!\w)
    """,
    re.VERBOSE | re.DOTALL,
)

_BEGINS: Final = r"""
      [.!?…]\s
    | \b(?:remember|note|save|store|mind|forget|memori[sz]e|jot)
      (?:\ (?:this|that|the|following|down|please|for|me|to|in|memory|notes?|it|one|thing)){0,6}\s?[:;,–—-]?
    | (?:기억|저장|메모|기록|적어|외워|잊지)[가-힣\ ]{0,12}[:;,–—-]
"""
_ENDS: Final = r"[.!?…]|,?\ (?:and\b|please\b|그리고|기억|저장|메모|기록|적어|잊지)"
"""Where a thing that somebody says begins and ends: with a sentence, or behind the wish. A comma, a colon and a dash
do neither anywhere else: a condition or a "never" may stand on their other side.
"""

_YES: Final = re.compile(
    r"yes|yeah|yep|yup|sure|ok|okay|please|do|it|go|ahead|correct|right|exactly|that|that's|is|thanks"
    "|네|넵|예|응|어|웅|그래|그래요|좋아|좋아요|좋습니다|맞아|맞아요|맞습니다|그렇게|해|해줘|해주세요|주세요|줘"
    "|부탁해|부탁해요|부탁드려요|부탁드립니다|오케이|ㅇㅇ|ㅇㅋ|ㄱㄱ|당연하지|물론"
)
_LATELY: Final = 20
"""Messages before this turn that count as just said."""
_LONGEST: Final = 20_000
"""Characters of each that are looked at."""
_MOST_READ: Final = 200_000
"""Characters of a message in which a negation is looked for. In a longer one nothing is the person's own sentence."""
_SHARE: Final = 3
"""Of a note's telling words one in so many must have been heard; a model may word it in its own way."""
_LONGEST_YES: Final = 5
"""Words: in a longer answer there is more than a yes."""


def has_wished(turn: TurnContext, wish: Wish, text: str) -> bool:
    """Asked for in this turn, or a plain yes to a reply of ours that offered it with these very words.

    What somebody passes on was another's wish.
    """
    if turn.context.inbound.forwarded:
        return False
    said = (remove_quotes(own_words(each))[:_LONGEST] for each in _own_messages(turn))
    return any(_asks_for(wish, each) for each in said) or has_agreed(turn, wish, text)


def _asks_for(wish: Wish, text: str) -> bool:
    """To forget is for good, so that no negation may stand anywhere before it."""
    found = wish.asked.finditer(text)
    return any(not negates_wish(text, each, whole_sentence=wish is FORGET) for each in found)


def has_heard(turn: TurnContext, text: str) -> bool:
    """Whether the person wrote or could read such words: a page must not ride on a wish for something else."""
    telling = query_words(text)
    lately = [each for each in turn.conversation.base_messages[-_LATELY:] if each.role in ("user", "assistant")]
    known = {
        word
        for each in (*lately, *_own_messages(turn))
        if not each.passing
        for word in index_words(each.text[:_LONGEST])
    }
    return _SHARE * sum(not known.isdisjoint(forms(word)) for word in telling) >= len(telling)


def has_said(turn: TurnContext, text: str) -> bool:
    """Whether the note is, from its first word to its last, something the person has just written: no part of a
    sentence, and nothing that the rest of what they wrote may turn around.
    """
    wanted = normalize_text(text)
    if not wanted:
        return False
    exactly = re.compile(rf"(?:^|{_BEGINS})\s*{re.escape(wanted)}(?:$|{_ENDS})", re.VERBOSE)
    said = [own_words(each) for each in _own_messages(turn)]
    if any(len(each) > _MOST_READ for each in said):
        return False
    rest = "\n".join(" ".join(in_plain_letters(each).split()).replace(wanted, " ", 1) for each in said)
    unquoted_lines = (_in_one_line(own_words(each)) for each in _own_messages(turn))
    return any(map(exactly.search, unquoted_lines)) and not turns_around(rest)


def keeps_negation(turn: TurnContext, text: str) -> bool:
    """Whether no "never" of theirs is missing in the note, also where the model words it in its own way."""
    now = "\n".join(own_words(each)[:_LONGEST] for each in reversed(_own_messages(turn)))
    before = (each for each in reversed(turn.conversation.base_messages[-_LATELY:]) if each.source.kind == "user")
    sender = turn.context.inbound.sender.id
    earlier = [own_words(each)[:_LONGEST] for each in before if each.source.id == sender]
    return not drops_negation([now, *earlier], text, REMEMBER.asked.search)


def is_meant(turn: TurnContext, note: Note) -> bool:
    """Whether the person speaks of this note: by its number, or with one of its words."""
    words = {word for said in _own_messages(turn) for word in index_words(remove_quotes(own_words(said))[:_LONGEST])}
    return str(note.number) in words or any(not words.isdisjoint(forms(word)) for word in query_words(note.text))


def _in_one_line(text: str) -> str:
    return normalize_text(remove_quotes(text)[:_LONGEST].replace("\n", " . "))


def _own_messages(turn: TurnContext) -> list[Message]:
    """The person's own messages of this turn, the one that began it and those that joined it; not what they pass on."""
    events = (each.message for each in turn.conversation.events if isinstance(each, Append))
    sender = turn.context.inbound.sender.id
    joined = [each for each in events if each.source.kind == "user" and each.source.id == sender and not each.passing]
    return [each for each in joined or [turn.input] if not any(kept_sources(each))]


def remove_quotes(text: str) -> str:
    own = _QUOTED.sub(" … ", unquoted_part(unicodedata.normalize("NFC", text), " … "))
    return re.sub(r"[ \t]+", " ", own.replace("’", "'"))


def has_agreed_to_each_word(turn: TurnContext, wish: Wish, text: str) -> bool:
    """A yes to these words in quotation marks: not to some words of a reply that had them in passing."""
    quoted = re.compile(rf"[«‹\"“„'‘`「『*]\s?{re.escape(normalize_text(text))}[\s.!?…]*[»›\"”'’`」』*]")
    return has_agreed(turn, wish, text) and quoted.search(normalize_text(_last_reply(turn))) is not None


def has_agreed(turn: TurnContext, wish: Wish, text: str) -> bool:
    """Only where one person talks with us: in a group a yes may be meant for anybody."""
    said = _own_messages(turn)
    if not said or not is_private(turn.context.inbound) or not is_yes(own_words(said[-1])):
        return False
    reply = _last_reply(turn)
    return bool(wish.offered.search(reply)) and normalize_text(text) in normalize_text(reply)


def _last_reply(turn: TurnContext) -> str:
    """What we said right before this turn; nothing where somebody else spoke since."""
    before = [each for each in turn.conversation.base_messages[-_LATELY:] if not each.passing]
    return before[-1].text if before and before[-1].role == "assistant" else ""


def is_yes(text: str) -> bool:
    words = re.findall(r"[\w']+", text.casefold().replace("’", "'"))
    return 0 < len(words) <= _LONGEST_YES and all(map(_YES.fullmatch, words))
