"""Addresses that may be fetched after a stranger's words were read, and how many of them have been.

What the person named is free. What a page named is followed a few times: which of its addresses is taken tells the
page's author something, so a person is asked from then on. Pages that were reached in this way have no share of their
own; they use up that of the page at the beginning.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

from finclaw.kernel.envelope import Inbound
from finclaw.kernel.message import Message, ToolCall, ToolResult
from finclaw.kernel.port import Tool
from finclaw.taint.addresses import addresses_in
from finclaw.taint.sources import is_passed_on, own_words, unquoted_part, written_by

FEW: Final = 3  # addresses of one page that are followed unasked
_HARMLESS_NUMBER: Final = 20
_NOT_RUN: Final = frozenset({"denied", "awaiting", "invalid", "skipped"})
_PHRASE: Final = re.compile(r"\"([^\"\n]+)\"|“([^“”\n]+)”|'([^'\n]+)'|「([^「」\n]+)」|『([^『』\n]+)』")


class NamedAddresses:
    """The addresses named by people and pages.

    They are read off the conversation each time, so that a turn which resumes counts as the one that was cut off.
    """

    def __init__(
        self,
        asked_by: Inbound,
        find_web_tool: Callable[[str], Tool | None],
        is_model_written: Callable[[str], bool],
    ) -> None:
        self._asked_by = asked_by
        self._find_web_tool = find_web_tool
        self._is_model_written = is_model_written
        self._share = FEW
        if asked_by.limits is not None and asked_by.limits.sources:
            self._share = 0  # a helper of a turn that had read untrusted text would get a new share with every task
        self._given: set[str] = set()
        """By the person: addresses, and whole lines and phrases of theirs."""
        self._pages: dict[str, list[str]] = {}
        """Who named an address: the beginnings of the pages in which it stands."""
        self._used: Counter[str] = Counter()
        self._calls: dict[str, ToolCall] = {}
        self._beginnings: dict[str, str] = {}
        """Of the pages that calls have given, by call."""
        self._by_origin: dict[str, str] = {}
        """The same by what results say of their origin: a piece that is read later is no page of its own."""

    def read(self, messages: Sequence[Message], before: str) -> None:
        for message in messages:
            if message.source.kind == "user":
                self._read_person(message)
        results = {result.call_id: result for message in messages for result in message.tool_results}
        for message in messages:
            if message.source.kind == "user":
                self._read_others(message)
            for call in message.tool_calls:
                if call.id == before:
                    return
                self._count(call, results.get(call.id))
            for result in message.tool_results:
                self._read_page(result)

    def allow(self, tool: Tool, args: Mapping[str, Any]) -> bool:
        """Whether every word of the arguments is the tool's own, the person's, or an address that may be followed."""
        return all(self._take(word) for word in self._words(tool, args))

    # ── who named what ──────────────────────────────────────────────────────────────────────────────────────

    def _read_person(self, message: Message) -> None:
        if not self._is_askers(message):
            return
        text = unquoted_part(own_words(message))
        self._given |= addresses_in(text, bare=True)
        self._given.update(line.strip() for line in text.splitlines())
        self._given.update(phrase for found in _PHRASE.findall(text) for phrase in found if phrase)

    def _read_others(self, message: Message) -> None:
        """What somebody else wrote, was passed on or is quoted: its addresses count as a page's."""
        if not self._is_askers(message):
            self._name(addresses_in(message.text, bare=True), written_by(message.source.id))
        else:
            self._name(addresses_in(message.text, bare=True) - self._given, "words that were quoted")

    def _is_askers(self, message: Message) -> bool:
        shared = self._asked_by.chat_type != "direct"
        return not is_passed_on(message) and (not shared or message.source.id == self._asked_by.sender.id)

    def _read_page(self, result: ToolResult) -> None:
        if not result.origin or result.status != "ok" or self._is_model_written(result.name):
            return
        echoed: set[str] = set()
        if result.call_id in self._calls:
            echoed.update(_texts(self._calls[result.call_id].args))
        beginning = self._beginnings.get(result.call_id) or self._by_origin.get(result.origin, result.name)
        self._by_origin.setdefault(result.origin, beginning)
        self._name(addresses_in(result.content) - echoed, beginning)

    def _name(self, addresses: Iterable[str], beginning: str) -> None:
        for address in addresses:
            named = self._pages.setdefault(address, [])
            if beginning not in named:
                named.append(beginning)

    # ── who used it ─────────────────────────────────────────────────────────────────────────────────────────

    def _count(self, call: ToolCall, result: ToolResult | None) -> None:
        if call.id in self._calls:  # the same message in another form
            return
        self._calls[call.id] = call
        tool = self._find_web_tool(call.name)
        if tool is None or (result is not None and result.status in _NOT_RUN):
            return
        for word in self._words(tool, call.args):
            beginning = word if word in self._given else self._beginning(word)
            if beginning is not None:
                self._beginnings.setdefault(call.id, beginning)
                self._used[beginning] += word not in self._given

    def _take(self, word: str) -> bool:
        if word in self._given:
            return True
        beginning = self._beginning(word)
        if beginning is None or self._used[beginning] >= self._share:
            return False
        self._used[beginning] += 1
        return True

    def _beginning(self, address: str) -> str | None:
        return min(self._pages.get(address, ()), key=self._used.__getitem__, default=None)

    @staticmethod
    def _words(tool: Tool, args: Mapping[str, Any]) -> Iterator[str]:
        """What a call says that the tool's own schema does not: texts, names and larger numbers."""
        fixed = set(_texts(tool.spec.input_schema))
        return (word.strip(" ") for word in _texts(args) if word.strip(" ") and word not in fixed)


def _texts(value: object) -> Iterator[str]:
    """Every text in a JSON value, names of fields too."""
    match value:
        case str():
            yield value
        case bool() | None:
            return
        case int() | float():
            if not (isinstance(value, int) and 0 <= value <= _HARMLESS_NUMBER):
                yield str(value)
        case Mapping():
            for name, each in cast("Mapping[object, object]", value).items():
                yield str(name)
                yield from _texts(each)
        case list() | tuple() | set() | frozenset():
            for each in cast("Iterable[object]", value):
                yield from _texts(each)
        case _:
            yield str(value)
