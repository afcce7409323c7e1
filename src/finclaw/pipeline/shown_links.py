"""Links in an answer after untrusted text was read: those that somebody named stay, others cannot be clicked."""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from finclaw.agent.turn_state.turn_log import TurnLog
from finclaw.delivery.links import IsNamed, make_links_safe, may_hold_links
from finclaw.kernel.envelope import Embed, Inbound, Outbound
from finclaw.kernel.message import Message
from finclaw.taint.addresses import addresses_in
from finclaw.taint.sources import sources_met
from finclaw.text import Language

_NOTE: Final[dict[Language, str]] = {
    "en": "(An address that neither you nor a page named is shown so that it cannot be clicked.)",
    "ko": "(직접 주신 주소나 읽은 페이지에 없는 주소는 누를 수 없게 표시했습니다.)",
}


class SafeLinks:
    """The links of one turn's answer.

    What was read and named is looked up each time, for the turn may still be reading.
    """

    __slots__ = ("_inbound", "_log")

    def __init__(self, log: TurnLog, inbound: Inbound) -> None:
        self._log = log
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
        return bool(sources_met(self._log.conversation, self._inbound))

    def _is_named(self) -> IsNamed:
        named = _named_in(self._log.conversation.next_messages)
        return lambda address: address in named or f"https://{address}" in named


def _card(card: Embed, is_named: IsNamed) -> Embed:
    title, text = make_links_safe(card.title, is_named), make_links_safe(card.text, is_named)
    if card.url is None or is_named(card.url):
        return Embed(title=title, text=text, url=card.url)
    return Embed(title=title, text=f"{text}\n{make_links_safe(card.url, is_named)}".strip())


def _named_in(messages: Iterable[Message]) -> set[str]:
    """By people and by what tools gave; not by the model, nor by a result that repeats what the model had asked for."""
    named, asked = set[str](), set[str]()
    for message in messages:
        asked.update(str(value) for call in message.tool_calls for value in call.args.values())
        if message.source.kind == "user" or message.source.name == "approval":
            named |= addresses_in(message.text, bare=True)
        for result in message.tool_results:
            if result.status == "ok":
                named |= addresses_in(result.content, bare=True) - asked
    return named
