"""Web addresses in a text, as whole words of it: what a person or a page has named, and no part or mixture of that.

Each address that a text names counts as it stands there. It may be asked for in a few spellings that mean the same, all
of them told by the text alone: whoever could choose among many could write a message with the choice.
"""

import re
from collections.abc import Iterator
from typing import Final

DELIMITERS: Final = r"\s<>\"'`|\\^{}\[\]«»‹›“”„‘’「」『』（）【】，。、；：！？…"
DELIMITER: Final = re.compile(f"[{DELIMITERS}]")  # what no address has inside
_BEFORE: Final = r"(?<![\w./:@%+~#?&=-])"
"""What stands before an address as a word of its own: nothing that could be more of it."""
_WITH_SCHEME: Final = re.compile(
    rf"{_BEFORE}[a-z][a-z0-9+.-]{{0,20}}://(?:\[[0-9a-f:.]+\])?[^{DELIMITERS}]+", re.IGNORECASE
)
_LABEL: Final = r"[^\W_](?:[\w-]{0,61}[^\W_])?"
_BARE: Final = re.compile(
    rf"{_BEFORE}{_LABEL}(?:\.{_LABEL}){{1,10}}(?::[0-9]{{1,5}})?(?:[/?#][^{DELIMITERS}]*)?(?![\w@])"
)
_PUNCTUATION: Final = ".,;:!?*_~"
_HEAD: Final = re.compile(r"([a-z][a-z0-9+.-]*://)([^/?#]*)(.*)", re.IGNORECASE | re.DOTALL)
_ASCII: Final = re.compile(r"[\x21-\x7e]+")
LONGEST_TEXT: Final = 200_000  # characters of a text that are looked at
LONGEST: Final = 2_048  # characters of an address


def addresses_in(text: str, *, bare: bool = False) -> set[str]:
    """Every spelling in which an address of the text may be asked for. `bare`: also those without `https://`."""
    return {spelling for address in written_addresses(text, bare=bare) for spelling in _spellings(address)}


def written_addresses(text: str, *, bare: bool = False) -> Iterator[str]:
    """The addresses themselves, in their order; one that stands there without a scheme gets `https://`."""
    text = text[:LONGEST_TEXT]
    for found in _WITH_SCHEME.finditer(text):
        yield without_punctuation(found[0])
    if bare:
        for found in _BARE.finditer(text):
            yield f"https://{without_punctuation(found[0])}"


def without_punctuation(word: str) -> str:
    """What ends a sentence or closes a bracket is not part of it; a bracket that it opens itself is."""
    end = len(word)
    unopened = word.count(")") - word.count("(")
    while end:
        last = word[end - 1]
        if last == ")" and unopened > 0:
            unopened -= 1
        elif last not in _PUNCTUATION:
            break
        end -= 1
    return word[:end]


def _spellings(address: str) -> Iterator[str]:
    plain = _ASCII.match(address)  # where a particle follows without a space: https://example.com/a를
    for written in {address, plain[0] if plain else address}:
        if len(written) > LONGEST:
            continue
        for whole in {written, written.partition("#")[0]}:
            head = _HEAD.fullmatch(whole)
            if head is None or not head[2]:
                continue
            scheme, host, rest = head.groups()
            for spelling in {whole, f"{scheme.lower()}{host.lower()}{rest}"}:
                yield spelling
                if rest in ("", "/"):
                    yield f"{spelling.removesuffix('/')}/"
                    yield spelling.removesuffix("/")
