"""How many tokens a text will be, without a tokenizer: borders between kinds of characters, counted and weighted.

A tokenizer first cuts a text where letters, digits, signs and spaces meet. So the text is mapped to one class for each
character, and the borders are counted, all of it in C. The weights were fitted to two real tokenizers on other texts
than those on which they are tested; `tests/agent/test_tokens.py` tells how, and holds the measured errors.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from finclaw.agent.token_classes import borders_of, classes_of, named, only
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
    classes = classes_of(encoded)
    borders = borders_of(classes)
    repeated = borders.translate(None, _AT_BORDERS)
    tokens = _letters(classes, borders, repeated, weights) + _signs(classes, borders, repeated, weights)
    if len(encoded) > len(text):
        tokens += _beyond_ascii(classes, borders, weights) + _single_hangul(encoded, weights)
    return tokens


# Most texts are short, and a look at one costs more than its length: what needs a closer look is known by `repeated`.


def _letters(classes: bytes, borders: bytes, repeated: bytes, weights: Weights) -> float:
    count = borders.count
    tokens = weights.word_after_space * count(b"w") + weights.other_word * (count(b"o") + count(b"b"))
    sevens = classes.count(_SEVEN_LETTERS)
    tokens += weights.small_letter * classes.count(_SMALL) + weights.seven_small_letters * sevens
    if sevens >= _THREE:
        tokens += weights.three_sevens * classes.count(_SEVEN_LETTERS * _THREE)
    if capitals := classes.count(_CAPITAL):
        tokens += weights.capital * capitals + weights.hump * count(b"h")
        if _BIG in repeated:
            tokens += weights.sixteen_capitals * classes.count(_SIXTEEN_CAPITALS)
    return tokens


def _signs(classes: bytes, borders: bytes, repeated: bytes, weights: Weights) -> float:
    """Punctuation, numbers and gaps."""
    tokens = _gaps(classes, weights) if _BLANK in repeated or _LINE_END in repeated else 0.0
    if digits := classes.count(_DIGIT):
        tokens += _numbers(classes, digits, repeated, weights)
        tokens += weights.letter_beside_digit * (borders.count(b"d") + borders.count(b"b"))
    if _SIGN not in repeated:
        return tokens + weights.run_of_signs * borders.count(b"s")
    if eights := classes.count(_EIGHT_SIGNS):
        tokens += weights.eight_signs * eights
        classes = classes.replace(_EIGHT_SIGNS, b"")
    tokens += weights.run_of_signs * classes.translate(_ONLY_SIGNS).count(b"-.")
    return tokens + weights.two_signs * classes.count(_TWO_SIGNS)


def _gaps(classes: bytes, weights: Weights) -> float:
    tokens = weights.gap * classes.translate(_ONLY_SPACES).count(b"-  ")
    return tokens + weights.sixteen_blanks * (classes.count(_SIXTEEN_SPACES) + classes.count(_SIXTEEN_LINE_ENDS))


def _numbers(classes: bytes, digits: int, repeated: bytes, weights: Weights) -> float:
    threes = twos = 0
    if _ZERO in repeated:
        threes = classes.count(_THREE_DIGITS)
        twos = (classes.replace(_THREE_DIGITS, b"") if threes else classes).count(_TWO_DIGITS)
    ones = digits - 3 * threes - 2 * twos
    return weights.three_digits * threes + weights.two_digits * twos + weights.one_digit * ones


def _beyond_ascii(classes: bytes, borders: bytes, weights: Weights) -> float:
    tokens = 0.0
    if others := classes.translate(None, _ASCII_AND_HANGUL):
        tokens += weights.ideograph * others.count(_IDEOGRAPH) + weights.kana * others.count(_KANA)
        tokens += weights.other_letter * others.count(_OTHER_LETTER)
        tokens += weights.other_script * others.count(_OTHER_SCRIPT)
        tokens += weights.symbol * others.count(_SYMBOL) + weights.emoji * others.count(_EMOJI)
    if syllables := classes.count(_SYLLABLE):
        tokens += weights.syllable * syllables + weights.korean_word * borders.count(b"k")
        tokens += weights.four_syllables * classes.count(_FOUR_SYLLABLES)
    return tokens


def _single_hangul(encoded: bytes, weights: Weights) -> float:
    """Counted as kana above, with which it shares its first byte."""
    letters = encoded.count(b"\xe3\x84") + encoded.count(b"\xe3\x85")
    return (weights.single_hangul - weights.kana) * letters


_AT_BORDERS: Final = b"wobdhsk"
_BIG, _ZERO, _BLANK, _LINE_END, _SIGN = b"A0 n."  # numbers: to look for one is far faster than for a text of one
_THREE: Final = 3
_SMALL: Final = named("a")
_SEVEN_LETTERS: Final = named("a" * 7)
_CAPITAL: Final = named("A")
_SIXTEEN_CAPITALS: Final = named("A" * 16)
_SIXTEEN_SPACES: Final = named(" " * 16)
_SIXTEEN_LINE_ENDS: Final = named("\n" * 16)
_ONLY_SPACES: Final = only(" ")
_DIGIT: Final = named("0")
_TWO_DIGITS: Final = named("00")
_THREE_DIGITS: Final = named("000")
_TWO_SIGNS: Final = named("..")
_EIGHT_SIGNS: Final = named("." * 8)
_ONLY_SIGNS: Final = only(".")
_SYLLABLE: Final = named("k")
_FOUR_SYLLABLES: Final = named("kkkk")
_ASCII_AND_HANGUL: Final = named("aA0 \n.k")
_IDEOGRAPH, _KANA, _OTHER_LETTER, _OTHER_SCRIPT, _SYMBOL, _EMOJI = map(named, "cjxtse")
