"""Links and markup in an answer, made harmless: nothing that a client loads by itself, nothing unnamed to click.

A page that was read may want the model to put what it knows into an address. A client that shows pictures would send it
without a click, so no picture stays one; an address that nobody named is written so that no client makes it a link.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final

from msgspec.structs import replace

from finclaw.kernel.envelope import Embed, Inbound, Outbound
from finclaw.kernel.message import Message
from finclaw.taint.addresses import DELIMITERS, addresses_in, without_punctuation
from finclaw.taint.sources import sources_met
from finclaw.text import Language
from finclaw.transcript.conversation import Conversation

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
_NOTE: Final[dict[Language, str]] = {
    "en": "(An address that neither you nor a page named is shown so that it cannot be clicked.)",
    "ko": "(직접 주신 주소나 읽은 페이지에 없는 주소는 누를 수 없게 표시했습니다.)",
}


class SafeLinks:
    """The links of one turn's answer, looked up each time, for the turn may still be reading."""

    __slots__ = ("_conversation", "_inbound")

    def __init__(self, conversation: Conversation, inbound: Inbound) -> None:
        self._conversation = conversation
        self._inbound = inbound

    def text(self, text: str) -> str:
        """For a piece of an answer that is still being written."""
        if not may_hold_links(text) or not self._has_met_strangers():
            return text
        return make_links_safe(text, self._is_named())

    def outbound(self, outbound: Outbound, language: Language) -> Outbound:
        texts = (outbound.text, *(part for card in outbound.embeds for part in (card.title, card.text, card.url or "")))
        if not any(map(may_hold_links, texts)) or not self._has_met_strangers():
            return outbound
        is_named = self._is_named()
        text = make_links_safe(outbound.text, is_named)
        if text.count("[.]") > outbound.text.count("[.]") and not self._inbound.is_internal:
            text = f"{text}\n\n{_NOTE[language]}"
        return replace(outbound, text=text, embeds=tuple(_card(card, is_named) for card in outbound.embeds))

    def _has_met_strangers(self) -> bool:
        return bool(sources_met(self._conversation, self._inbound))

    def _is_named(self) -> IsNamed:
        named = _named_in(self._conversation.next_messages)
        return lambda address: address in named or f"https://{address}" in named


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
    pieces = list[str]()
    at = 0
    for link in _LINK.finditer(text):
        pieces += (_addresses(text[at : link.start()], is_named), _link(link, is_named))
        at = link.end()
    return "".join((*pieces, _addresses(text[at:], is_named)))


def _link(link: re.Match[str], is_named: IsNamed) -> str:
    label, target = link.groups()
    safe_label = _addresses(label, is_named)
    if _RELATIVE.fullmatch(target) or is_named(target):
        return link[0].replace(label, safe_label, 1)
    shown = f"({_defang(target)})"
    if not label:
        return shown
    return f"{safe_label} {shown}"


def _addresses(text: str, is_named: IsNamed) -> str:
    def replace_address(found: re.Match[str]) -> str:
        address = without_punctuation(found[0])
        if is_named(address):
            return found[0]
        return _defang(address) + found[0][len(address) :]

    return _ADDRESS.sub(replace_address, text)


def _defang(address: str) -> str:
    """As people write addresses that one should not follow: hxxps://example[.]com/a."""
    plain = _PLAIN.fullmatch(address)
    if plain is None:  # a scheme or a spelling of which nobody knows what a client makes of it
        return address.replace(":", "[:]", 1).replace(".", "[.]")
    scheme, host, rest = plain.groups()
    return f"{scheme[0]}xx{scheme[3:]}://{host.replace('.', '[.]')}{rest}"


def _card(card: Embed, is_named: IsNamed) -> Embed:
    title = make_links_safe(card.title, is_named)
    text = make_links_safe(card.text, is_named)
    if card.url is None or is_named(card.url):
        return Embed(title=title, text=text, url=card.url)
    return Embed(title=title, text=f"{text}\n{make_links_safe(card.url, is_named)}".strip())


def _named_in(messages: Iterable[Message]) -> set[str]:
    """By people and by what tools gave; not by the model, nor by a result that repeats what the model had asked for."""
    named = set[str]()
    asked = set[str]()
    for message in messages:
        asked.update(str(value) for call in message.tool_calls for value in call.args.values())
        if message.source.kind == "user" or message.source.name == "approval":
            named |= addresses_in(message.text, bare=True)
        for result in message.tool_results:
            if result.status == "ok":
                named |= addresses_in(result.content, bare=True) - asked
    return named
