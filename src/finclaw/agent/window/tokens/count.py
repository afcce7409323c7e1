"""Count tokens of a text without a tokenizer: borders between kinds of characters, counted and weighted.

A tokenizer first cuts a text where letters, digits, signs and spaces meet. So the text is mapped to one class for each
character, and `count_tokens` counts the borders, all of it in C. The weights were fitted to two real tokenizers on
other texts than those on which they are tested; `tests/agent/test_tokens.py` tells how, and holds the measured errors.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import Final, NamedTuple
from zlib import adler32

from finclaw.agent.window.tokens.classes import NAMES, classes_of, named, only, pair, pairs_of
from finclaw.kernel.chunk import Vocabulary
from finclaw.kernel.message import Message

CountMessage = Callable[[Message], int]
CountText = Callable[[str], int]


class Weights(NamedTuple):
    """Tokens for each of what is counted, in the order in which it is counted."""

    word_after_space: float
    other_word: float
    """After a sign or a digit, or where a line begins."""
    small_letter: float
    capital: float
    seven_small_letters: float
    """In a row: a long word is seldom one token."""
    three_sevens: float
    """Of small letters: no word at all, and nothing that a tokenizer knows. `sixteen_capitals` likewise."""
    sixteen_capitals: float
    hump: float
    """A capital after a small letter, as in `camelCase`."""
    letter_beside_digit: float
    three_digits: float
    two_digits: float
    """At the end of a number, after its threes; `one_digit` likewise."""
    one_digit: float
    run_of_signs: float
    two_signs: float
    eight_signs: float
    """A ruled line is few tokens, however long."""
    gap: float
    """Two spaces or more: an indentation, for one."""
    sixteen_blanks: float
    """In a row: spaces, or empty lines."""
    syllable: float
    """Of Hangul."""
    korean_word: float
    four_syllables: float
    """In a row: a word with its endings, or text without spaces."""
    ideograph: float
    kana: float
    single_hangul: float
    """A letter that is no syllable, as in ㅋㅋ."""
    other_letter: float
    """With an accent, or Greek, Cyrillic, Arabic: whatever takes two bytes."""
    other_script: float
    """Those of three bytes, such as Thai and Devanagari."""
    symbol: float
    emoji: float


# fmt: off
WEIGHTS: Final[Mapping[Vocabulary, Weights]] = {
    "o200k": Weights(
        0.85, 0.40, 0.042, 0.20, 0.23, 8.9, 5.8, 1.70, 0.21, 1.11, 1.42, 1.20, 0.97, 0.15, 0.25, 1.09, 0.5,
        0.78, 0.0, 0.33, 0.72, 0.75, 1.1, 0.33, 0.39, 1.5, 2.3,
    ),
    "claude": Weights(
        0.75, 0.92, 0.065, 0.20, 0.28, 8.5, 5.9, 1.69, 0.06, 1.27, 1.10, 0.95, 0.95, 0.0, 0.41, 0.92, 0.5,
        1.37, 0.46, 0.0, 0.85, 1.20, 2.0, 0.80, 1.75, 1.5, 3.55,
    ),
}
# fmt: on


def count_tokens(text: str, vocabulary: Vocabulary = "o200k") -> float:
    """An estimate, not yet rounded: of the tested texts half are within 6 %, and none is under by 15 %."""
    weights, table = _SCALES[vocabulary]
    # A lone surrogate is nothing that UTF-8 knows, but it may stand in a person's text.
    encoded = text.encode("utf-8", "surrogatepass")
    classes = classes_of(encoded)
    pairs = pairs_of(classes)
    sevens = classes.count(_SEVEN_LETTERS)
    tokens = _sum(pairs.translate(table)) / _UNITS
    tokens += weights.small_letter * classes.count(_SMALL) + weights.seven_small_letters * sevens
    if sevens >= _THREE:
        tokens += weights.three_sevens * classes.count(_SEVEN_LETTERS * _THREE)
    # Most texts are short, and a look at one costs more than its length: to look for a byte is the fastest.
    if _DIGIT_PAIR in pairs:
        tokens += _numbers(classes, weights)
    if _SIGN_PAIR in pairs:
        tokens += _signs(classes, weights)
    if _SPACE_PAIR in pairs or _LINE_END_PAIR in pairs:
        tokens += _gaps(classes, weights)
    if _CAPITAL_PAIR in pairs:
        tokens += weights.sixteen_capitals * classes.count(_SIXTEEN_CAPITALS)
    if len(encoded) > len(text):
        tokens += _beyond_ascii(encoded, classes, pairs, weights)
    return tokens


def _sum(values: bytes) -> int:
    """The checksum is one of C that adds bytes; of so few it is the sum itself."""
    if len(values) <= _AT_ONCE:
        return adler32(values, 0) & 0xFFFF
    return sum([adler32(values[at : at + _AT_ONCE], 0) & 0xFFFF for at in range(0, len(values), _AT_ONCE)])


# What neighbours alone do not tell. Where a run was already counted sign by sign, the difference is added.


def _numbers(classes: bytes, weights: Weights) -> float:
    others = classes.replace(_THREE_DIGITS, b"")
    threes, twos = (len(classes) - len(others)) // 3, others.count(_TWO_DIGITS)
    return weights.three_digits * threes + weights.two_digits * twos - weights.one_digit * (3 * threes + 2 * twos)


def _signs(classes: bytes, weights: Weights) -> float:
    twos = classes.count(_TWO_SIGNS)
    eights = classes.count(_EIGHT_SIGNS) if twos >= _EIGHT // 2 else 0
    if not eights:
        return weights.two_signs * twos
    others = classes.replace(_EIGHT_SIGNS, b"")
    fewer = _runs_of_signs(others) - _runs_of_signs(classes)
    return weights.eight_signs * eights + weights.run_of_signs * fewer + weights.two_signs * others.count(_TWO_SIGNS)


def _runs_of_signs(classes: bytes) -> int:
    return (_LINE_END + classes).translate(_ONLY_SIGNS).count(b"-.")


def _gaps(classes: bytes, weights: Weights) -> float:
    classes = _LINE_END + classes
    tokens = weights.gap * classes.translate(_ONLY_SPACES).count(b"-  ")
    return tokens + weights.sixteen_blanks * (classes.count(_SIXTEEN_SPACES) + classes.count(_SIXTEEN_LINE_ENDS))


def _beyond_ascii(encoded: bytes, classes: bytes, pairs: bytes, weights: Weights) -> float:
    tokens = 0.0
    if _SYLLABLE_PAIR in pairs:
        tokens += weights.four_syllables * classes.count(_FOUR_SYLLABLES)
    if _EMOJI in classes:
        tokens += weights.emoji * classes.count(_EMOJI)
    if _KANA in classes:  # single Hangul was counted as such, with which it shares its first byte
        letters = encoded.count(b"\xe3\x84") + encoded.count(b"\xe3\x85")
        tokens += (weights.single_hangul - weights.kana) * letters
    return tokens


# ── what is told by a class and the one before it ───────────────────────────────────────────────────────────────────

_NONE, _ANY = NAMES[0], NAMES[1:]
_UNITS: Final = 100
"""In a token. All weights of what follows are whole numbers of them, and have room in a byte."""


def _table(weights: Weights) -> bytes:
    """What each pair of neighbours adds: for the border between them, and for the second as such."""
    added = dict.fromkeys(product(_ANY, _ANY), 0.0)
    for befores, behinds, weight in _borders(weights):
        added.update(dict.fromkeys(product(befores, behinds), weight))
    table = bytearray(256)
    for (before, behind), weight in added.items():
        table[pair(before + behind)] = round(_UNITS * (weight + _alone(behind, weights)))
    for name in _ANY:  # a text begins as a line does
        table[pair(_NONE + name)] = table[pair("\n" + name)]
    return bytes(table)


def _borders(weights: Weights) -> Iterable[tuple[str, str, float]]:
    """The classes before and behind; the last that fits counts."""
    return (
        (_but("aAx"), "aAx", weights.other_word),
        (" ", "aA", weights.word_after_space),
        ("0", "a", weights.other_word + weights.letter_beside_digit),
        ("a", "0", weights.letter_beside_digit),
        ("a", "A", weights.hump),
        (_but("."), ".", weights.run_of_signs),
        (_but("k"), "k", weights.korean_word),
    )


def _but(names: str) -> str:
    return "".join(name for name in _ANY if name not in names)


def _alone(name: str, weights: Weights) -> float:
    """Small letters are too light for a byte, and emoji too heavy."""
    of_class = {
        "A": weights.capital,
        "0": weights.one_digit,
        "k": weights.syllable,
        "c": weights.ideograph,
        "j": weights.kana,
        "x": weights.other_letter,
        "t": weights.other_script,
        "s": weights.symbol,
    }
    return of_class.get(name, 0.0)


_SCALES: Final = {vocabulary: (weights, _table(weights)) for vocabulary, weights in WEIGHTS.items()}
_AT_ONCE: Final = 65_520 // max(max(table) for _, table in _SCALES.values())
"""The checksum goes no further than that."""

_DIGIT_PAIR, _SIGN_PAIR, _SPACE_PAIR, _LINE_END_PAIR = map(pair, ("00", "..", "  ", "\n\n"))
_CAPITAL_PAIR, _SYLLABLE_PAIR = map(pair, ("AA", "kk"))
_KANA, _EMOJI = named("je")

_LINE_END: Final = named("\n")
_THREE: Final = 3
_SMALL: Final = named("a")
_SEVEN_LETTERS: Final = named("a" * 7)
_SIXTEEN_CAPITALS: Final = named("A" * 16)
_SIXTEEN_SPACES: Final = named(" " * 16)
_SIXTEEN_LINE_ENDS: Final = named("\n" * 16)
_ONLY_SPACES: Final = only(" ")
_TWO_DIGITS: Final = named("00")
_THREE_DIGITS: Final = named("000")
_TWO_SIGNS: Final = named("..")
_EIGHT: Final = 8
_EIGHT_SIGNS: Final = named("." * _EIGHT)
_ONLY_SIGNS: Final = only(".")
_FOUR_SYLLABLES: Final = named("kkkk")
