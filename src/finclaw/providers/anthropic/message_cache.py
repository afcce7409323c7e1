"""The cache of encoded messages as Anthropic's API needs it: with checked call ids, and two that share their memory."""

import re
from collections.abc import Sequence
from typing import Final

from finclaw.kernel.message import Message
from finclaw.providers.anthropic.message import write_blocks
from finclaw.providers.http.message_cache import EncodedMessageCache, Entry
from finclaw.providers.http.prefix_cache import RequestPrefix
from finclaw.transcript.history import plain_texts, with_more

USER: Final = b']},{"role":"user","content":['
ASSISTANT: Final = b']},{"role":"assistant","content":['
"""What ends the message before and opens this one: results and words of the system reach this API as the user's."""
NONE_BEFORE: Final = b"]},"
"""The part that the first message does without: none has to be ended."""

_ASSISTANT_ROLE: Final = b"assistant"
_TEXT: Final = b'{"type":"text","text":'
_USER_TEXT: Final = USER + _TEXT
_ASSISTANT_TEXT: Final = ASSISTANT + _TEXT
_NEXT_TEXT: Final = b"," + _TEXT

_LEGAL_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")


class AnthropicMessageCache(EncodedMessageCache):
    """A cache that knows which messages could be refused for the ids of their calls.

    Suspected are messages with a call whose id is illegal or that another message has as well, of this conversation
    or of another. No request with one of them goes out unseen, and no request without has to be looked through.

    Without `thinking` no thoughts are encoded. The one `beside` gives way, so that both together take no more memory
    than one alone: its old generation first.
    """

    def __init__(self, limit: int, *, thinking: bool = True) -> None:
        super().__init__(limit, self._encode_message)
        self._most = limit + limit // 2
        self._thinking = thinking
        self._reader = ""
        self.beside: AnthropicMessageCache | None = None
        self._owners: dict[str, str] = {}
        self._old_owners: dict[str, str] = {}
        self._suspects: set[str] = set()
        self._old_suspects: set[str] = set()

    def set_reader(self, provider: str) -> None:
        """Who reads what is encoded from now on; what was encoded for another is of no use."""
        if provider != self._reader:
            self._reader = provider
            self.clear()
        if self.beside is not None:
            self._share_memory(self.beside)

    def clear(self) -> None:
        super().clear()
        self._owners, self._old_owners = {}, {}
        self._suspects, self._old_suspects = set(), set()

    def extend_prefix(self, prefix: RequestPrefix, more: Sequence[Message], *, seeing: bool) -> RequestPrefix | None:
        """The prefix with these messages too, of which none is cached by itself; None if one needs a closer look."""
        joined, last = bytearray(prefix.joined), prefix.ends_with_assistant
        for speakers, words, whole in plain_texts(more):
            for place, (speaker, text) in enumerate(zip(speakers, words, strict=True)):
                # Nearly all of them are nothing but words, and there may be thousands: no call for each.
                if text:
                    is_assistant = speaker == _ASSISTANT_ROLE
                    joined += _NEXT_TEXT if is_assistant is last else _ASSISTANT_TEXT if is_assistant else _USER_TEXT
                    joined += text
                    joined += b"}"
                    last = is_assistant
                elif self._check_call_ids(message := whole(place)):
                    return None
                elif written := self._write_blocks(message, seeing=seeing):
                    is_assistant = message.role == "assistant"
                    joined += b"," if is_assistant is last else ASSISTANT if is_assistant else USER
                    joined += written
                    last = is_assistant
        if joined.startswith(ASSISTANT):
            return None
        if not prefix.joined:
            del joined[: len(NONE_BEFORE)]
        return RequestPrefix(with_more(prefix.messages, more), joined, last)

    def suspects_any(self, messages: Sequence[Message]) -> bool:
        if not (self._suspects or self._old_suspects):
            return False
        return any(each.id in self._suspects or each.id in self._old_suspects for each in messages)

    def _add(self, message: Message, *, seeing: bool) -> Entry:
        self._check_call_ids(message)
        return super()._add(message, seeing=seeing)

    def _rotate(self) -> None:
        super()._rotate()
        self._old_owners, self._owners = self._owners, {}
        self._old_suspects, self._suspects = self._suspects, set()
        if self.beside is not None:
            self._share_memory(self.beside)

    def _share_memory(self, beside: "AnthropicMessageCache") -> None:
        for give_way in (beside.clear_old, beside.clear_prefixes, beside.clear):
            if self.size + beside.size <= self._most:
                return
            give_way()

    def _check_call_ids(self, message: Message) -> bool:
        """Whether the message is suspected now."""
        calls = message.tool_calls
        if not calls:
            return False
        for call in calls:
            owner = self._owners.get(call.id) or self._old_owners.get(call.id) or message.id
            if owner != message.id or not _LEGAL_ID.fullmatch(call.id):
                self._suspects.add(message.id)
            self._owners[call.id] = owner
        if len({call.id for call in calls}) < len(calls):
            self._suspects.add(message.id)
        return message.id in self._suspects or message.id in self._old_suspects

    def _encode_message(self, message: Message, seeing: bool) -> bytes:
        blocks = self._write_blocks(message, seeing=seeing)
        opening = ASSISTANT if message.role == "assistant" else USER
        return opening + blocks if blocks else b""

    def _write_blocks(self, message: Message, *, seeing: bool) -> bytes:
        return write_blocks(message, seeing=seeing, provider=self._reader, thinking=self._thinking)


def paired_caches(limit: int) -> dict[bool, AnthropicMessageCache]:
    """By whether a model's thinking is bound, and so left out of the cache. `limit` is in bytes, for both together."""
    free, bound = AnthropicMessageCache(limit), AnthropicMessageCache(limit, thinking=False)
    free.beside, bound.beside = bound, free
    return {False: free, True: bound}
