"""Links and markup in an answer, made harmless: nothing that a client loads by itself, nothing unnamed to click.

A page that was read may want the model to put what it knows into an address. A client that shows pictures would send it
without a click, so no picture stays one; an address that nobody named is written so that no client makes it a link.
"""

import re
from collections.abc import Callable
from typing import Final

from finclaw.taint.addresses import DELIMITERS, without_punctuation

_IMAGE: Final = re.compile(r"!(?=\[)")
_TAG: Final = re.compile(r"<(?=[/!?]?[a-zA-Z][a-zA-Z0-9-]{0,40}(?:[\s/>]|$))")
_LINK: Final = re.compile(
    r"\[((?:[^\[\]\\\n]|\\.){0,500})\]"
    r"\(\s{0,9}<?((?:[^\s<>()]|\([^\s<>()]{0,500}\)){1,2100})>?(?:\s[^\n]{0,300}?)?\)"
)
_RELATIVE: Final = re.compile(r"(?!//)[\w./#-]+")
_ADDRESS: Final = re.compile(
    rf"[a-z][a-z0-9+.-]{{0,20}}://[^{DELIMITERS}]*"
    rf"|(?<![\w:/])//[^{DELIMITERS}/]+\.[^{DELIMITERS}]+"
    rf"|(?<![\w.@/-])www\.[^{DELIMITERS}]+"
    rf"|(?<![\w.@/-])(?:[^\W_][\w-]{{0,62}}\.){{1,10}}[^\W\d_]{{2,63}}(?::[0-9]{{1,5}})?[/?][^{DELIMITERS}]*"
    r"|(?<![\w.@/-])(?:[^\W_][\w-]{0,62}\.){2,10}[^\W\d_]{2,63}(?![\w@-])",
    re.IGNORECASE,
)
_PLAIN: Final = re.compile(r"(https?)://([^/?#]*)(.*)", re.IGNORECASE | re.DOTALL)
_AROUND_DOT: Final = re.compile(r"\.(?:(?<=[wW][wW][wW]\.)|\w+(?::\d+)?[/?]|[\w-]+\.\w)")
_TWO_DOTS: Final = re.compile(r"\.[^\s.]++\.\w")
"""All that is left of it in a text without `www`, slash and question mark; it finds a little more, and sooner."""

IsNamed = Callable[[str], bool]


def may_hold_links(text: str) -> bool:
    """A quick look: False for most answers, each of which passes here (`cpu_plain`)."""
    if "<" in text or ("/" in text and "//" in text) or ("[" in text and ("![" in text or "](" in text)):
        return True
    if "/" in text or "?" in text or "w." in text or "W." in text:
        return _AROUND_DOT.search(text) is not None
    return _TWO_DOTS.search(text) is not None


def make_links_safe(text: str, is_named: IsNamed) -> str:
    """The text without pictures and tags, and with every address that is not named in a form that nobody can click."""
    text = _TAG.sub("< ", _IMAGE.sub("", text))
    pieces, at = list[str](), 0
    for link in _LINK.finditer(text):
        pieces += (_addresses(text[at : link.start()], is_named), _link(link, is_named))
        at = link.end()
    return "".join((*pieces, _addresses(text[at:], is_named)))


def _link(link: re.Match[str], is_named: IsNamed) -> str:
    label, target = link[1], link[2]
    if _RELATIVE.fullmatch(target) or is_named(target):
        return link[0].replace(label, _addresses(label, is_named), 1) if label else link[0]
    shown = f"({_defang(target)})"
    return f"{_addresses(label, is_named)} {shown}" if label else shown


def _addresses(text: str, is_named: IsNamed) -> str:
    def replace_address(found: re.Match[str]) -> str:
        address = without_punctuation(found[0])
        return found[0] if is_named(address) else _defang(address) + found[0][len(address) :]

    return _ADDRESS.sub(replace_address, text)


def _defang(address: str) -> str:
    """As people write addresses that one should not follow: hxxps://example[.]com/a."""
    plain = _PLAIN.fullmatch(address)
    if plain is None:  # a scheme or a spelling of which nobody knows what a client makes of it
        return address.replace(":", "[:]", 1).replace(".", "[.]")
    scheme, host, rest = plain.groups()
    return f"{scheme[0]}xx{scheme[3:]}://{host.replace('.', '[.]')}{rest}"
