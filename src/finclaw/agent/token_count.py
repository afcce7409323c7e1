"""How many tokens a text will be, without a tokenizer: borders between kinds of characters, counted and weighted.

A tokenizer first cuts a text where letters, digits, signs and spaces meet. So the text is mapped to one class for each
character, and the borders are counted, all of it in C. The weights were fitted to two real tokenizers on other texts
than those on which they are tested; `tests/agent/test_tokens.py` tells how, and holds the measured errors.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from finclaw.kernel.chunk import Vocabulary


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
    weights = WEIGHTS[vocabulary]
    # A lone surrogate is nothing that UTF-8 knows, but it may stand in a person's text.
    encoded = text.encode("utf-8", "surrogatepass")
    classes = b"\n" + encoded.translate(_CLASSES, _CONTINUATIONS)
    tokens = _letters(classes, weights) + _signs(classes, weights)
    if len(encoded) > len(text):
        tokens += _beyond_ascii(classes, weights) + _single_hangul(encoded, weights)
    return tokens


def _letters(classes: bytes, weights: Weights) -> float:
    count = classes.count
    words = classes.translate(_ONLY_LETTERS).count(b"-a")
    after_space = count(b" a") + count(b" A")
    tokens = weights.word_after_space * after_space + weights.other_word * (words - after_space)
    by_sevens = classes.replace(b"aaaaaaa", b"7")
    tokens += weights.small_letter * count(b"a") + weights.seven_small_letters * by_sevens.count(b"7")
    tokens += weights.three_sevens * by_sevens.count(b"777")
    if capitals := count(b"A"):
        tokens += weights.capital * capitals + weights.hump * count(b"aA")
        tokens += weights.sixteen_capitals * count(b"A" * 16)
    return tokens


def _signs(classes: bytes, weights: Weights) -> float:
    """Punctuation, numbers and gaps."""
    count = classes.count
    tokens = weights.gap * classes.translate(_ONLY_SPACES).count(b"-  ")
    tokens += weights.sixteen_blanks * (count(b" " * 16) + count(b"\n" * 16))
    if count(b"0"):
        tokens += _numbers(classes, weights)
    if eights := count(b"........"):
        tokens += weights.eight_signs * eights
        classes = classes.replace(b"........", b"")
    tokens += weights.run_of_signs * classes.translate(_ONLY_SIGNS).count(b"-.")
    return tokens + weights.two_signs * classes.count(b"..")


def _numbers(classes: bytes, weights: Weights) -> float:
    beside = classes.count(b"a0") + classes.count(b"0a")
    without_threes = classes.replace(b"000", b"3")
    threes, twos = without_threes.count(b"3"), without_threes.count(b"00")
    ones = without_threes.count(b"0") - 2 * twos
    tokens = weights.three_digits * threes + weights.two_digits * twos + weights.one_digit * ones
    return tokens + weights.letter_beside_digit * beside


def _beyond_ascii(classes: bytes, weights: Weights) -> float:
    count = classes.count
    tokens = weights.ideograph * count(b"c") + weights.kana * count(b"j") + weights.other_letter * count(b"x")
    tokens += weights.other_script * count(b"t") + weights.symbol * count(b"s") + weights.emoji * count(b"e")
    if syllables := count(b"k"):
        words = classes.translate(_ONLY_HANGUL).count(b"-k")
        tokens += weights.syllable * syllables + weights.korean_word * words
        tokens += weights.four_syllables * count(b"kkkk")
    return tokens


def _single_hangul(encoded: bytes, weights: Weights) -> float:
    """Counted as kana above, with which it shares its first byte."""
    letters = encoded.count(b"\xe3\x84") + encoded.count(b"\xe3\x85")
    return (weights.single_hangul - weights.kana) * letters


# ── one class for each character, by the first byte of its UTF-8 ───────────────────────────────────────────────────


def _table(classes: Mapping[str, Iterable[int]], other: str) -> bytes:
    table = bytearray(other.encode() * 256)
    for name, characters in classes.items():
        for each in characters:
            table[each] = ord(name)
    return bytes(table)


_CONTINUATIONS: Final = bytes(range(0x80, 0xC0))
_CLASSES: Final = _table(
    {
        "a": range(ord("a"), ord("z") + 1),
        "A": range(ord("A"), ord("Z") + 1),
        "0": range(ord("0"), ord("9") + 1),
        " ": b" \t",
        "\n": b"\r\n",
        "x": range(0xC2, 0xE0),
        "t": range(0xE0, 0xE2),
        "s": (0xE2, 0xEE, 0xEF),
        "j": (0xE3,),
        "c": range(0xE4, 0xEA),
        "k": range(0xEA, 0xEE),
        "e": range(0xF0, 0xF5),
    },
    other=".",
)
_ONLY_LETTERS: Final = _table({"a": b"aAx"}, other="-")
_ONLY_SPACES: Final = _table({" ": b" "}, other="-")
_ONLY_SIGNS: Final = _table({".": b"."}, other="-")
_ONLY_HANGUL: Final = _table({"k": b"k"}, other="-")
