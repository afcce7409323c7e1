"""Random Markdown documents, with the words that a reader must find in them, made without any parser."""

import random
import string
import unicodedata
from dataclasses import dataclass, field
from typing import Final

FAMILY: Final = "👨‍👩‍👧‍👦"
FLAG: Final = "🇰🇷"
SYLLABLES: Final = unicodedata.normalize("NFD", "삼성전자")
_POOL: Final = (
    "price", "삼성전자는", "올랐습니다.", SYLLABLES, FAMILY, FLAG, "👍🏽", "❤️‍🔥", "éte\u0301", "السعر", "ارتفع.",
    "המחיר", "株価。", "上昇、", "71,200원", "1.25%", "(+3.4%)", "S&P", "a<b", "2*3*4", "x_y_z", "AT&T's", "“quoted”",
    "z" * 90, "가" * 50, "漢字" * 40, "e\u0301" * 40, FAMILY * 6,
)  # fmt: skip
_LANGUAGES: Final = ("", "py", "json")


@dataclass
class Document:
    """A document and what is said in it."""

    text: str = ""
    words: list[str] = field(default_factory=list[str])
    heads: list[str] = field(default_factory=list[str])
    """The heads of its tables, which may be repeated."""
    cells_above: set[str] = field(default_factory=set[str])
    """The cells of those heads."""
    addresses: set[str] = field(default_factory=set[str])
    """What its links lead to."""


def make_document(seed: int) -> Document:
    chance = random.Random(seed)
    document = Document()
    blocks = [_make_block(chance, document, seed) for _ in range(chance.randint(1, 12))]
    document.text = "\n\n".join(blocks)
    return document


def _make_block(chance: random.Random, document: Document, seed: int) -> str:
    makers = (_paragraph, _paragraph, _heading, _bullets, _numbers, _quote, _fence, _table, _link)
    return chance.choice(makers)(chance, document)


def _say(document: Document, words: str) -> str:
    document.words.append(words)
    return words


def _inline(chance: random.Random, document: Document, most: int = 25) -> str:
    said = list[str]()
    for _ in range(chance.randint(1, most)):
        word = _say(document, chance.choice(_POOL))
        mark = chance.choice(("", "", "", "", "**", "`", "~~")) if len(word) < 12 and word[0].isalpha() else ""
        said.append(f"{mark}{word}{mark}" if "*" not in word and word[-1].isalnum() else word)
    return "".join(
        word + (chance.choice((" ", " ", " ", "\n")) if n < len(said) - 1 else "") for n, word in enumerate(said)
    )


def _paragraph(chance: random.Random, document: Document) -> str:
    return _inline(chance, document, 60)


def _heading(chance: random.Random, document: Document) -> str:
    return "#" * chance.randint(1, 6) + " " + _inline(chance, document, 5).replace("\n", " ")


def _link(chance: random.Random, document: Document) -> str:
    _say(document, "See")
    label = _say(document, chance.choice(("the source", "출처", "a `b` c")).replace("`", ""))
    query = "".join(chance.choices(string.ascii_lowercase, k=chance.choice((3, 30, 300))))
    document.addresses.add(f"https://example.com/{query}")
    return f"See [{label}](https://example.com/{query}) {_say(document, 'there.')}"


def _bullets(chance: random.Random, document: Document, depth: int = 0) -> str:
    lines = list[str]()
    for _ in range(chance.randint(1, 5)):
        lines.append("  " * depth + "- " + _inline(chance, document, 12).replace("\n", " "))
        if depth < 3 and chance.random() < 0.3:
            lines.append(_bullets(chance, document, depth + 1))
    return "\n".join(lines)


def _numbers(chance: random.Random, document: Document) -> str:
    return "\n".join(
        f"{n}. " + _inline(chance, document, 12).replace("\n", " ") for n in range(1, chance.randint(2, 13))
    )


def _quote(chance: random.Random, document: Document) -> str:
    lead = "> " * chance.randint(1, 3)
    return "\n".join(lead + _inline(chance, document, 15).replace("\n", " ") for _ in range(chance.randint(1, 4)))


def _fence(chance: random.Random, document: Document) -> str:
    marks = chance.choice(("```", "~~~", "````"))
    lines = [
        _say(
            document,
            chance.choice(
                (
                    "x = 1",
                    "  if a < b:",
                    "    return '**no bold**'",
                    "# no heading",
                    "| no | table",
                    "y" * 100,
                    "가나다" * 9,
                )
            ),
        )
        for _ in range(chance.randint(1, 12))
    ]
    return "\n".join((marks + chance.choice(_LANGUAGES), *lines, marks))


def _table(chance: random.Random, document: Document) -> str:
    columns = chance.randint(2, 5)
    head = [f"Head{chance.randint(100, 999)}x{n}" for n in range(columns)]
    document.heads.append("".join(head))
    document.words.extend(head)
    document.cells_above.update(head)
    rows = ["| " + " | ".join(head) + " |", "|" + "---|" * columns]
    for _ in range(chance.randint(1, 9)):
        cells = [_say(document, chance.choice(("AAPL", "삼성전자", "1.25%", "₩71,200", FAMILY, "up"))) for _ in head]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)
