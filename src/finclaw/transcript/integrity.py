"""Repair of a stored conversation: each message once, each call with its result right behind it, nothing invented.

Mending loses no words. A result whose call is gone is quoted in a note; a call whose result is gone gets one that says
so; what stands elsewhere is brought to its call. Mending twice changes nothing more, and a whole conversation nothing.
"""

from collections.abc import Generator, Iterable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from finclaw.kernel.message import Block, Image, Message, Source, Text, ToolCall, ToolResult
from finclaw.kernel.record import FindingKind, IntegrityFinding


class PairedCall(Struct):
    """A call and the message that made it, by its place; `answer` is the result that was found for it."""

    place: int
    call: ToolCall
    answer: ToolResult | None = None


class PairedResult(Struct):
    """A result, the message it stands in, and its call. An `echo` says again what another result has said."""

    place: int
    result: ToolResult
    call: PairedCall | None = None
    echo: bool = False


def calls_of(messages: Sequence[Message]) -> list[PairedCall]:
    return [
        PairedCall(place, call)
        for place, message in enumerate(messages)
        if message.role == "assistant"
        for call in message.tool_calls
    ]


def match_results(messages: Sequence[Message], calls: Sequence[PairedCall]) -> list[PairedResult]:
    """A result answers the latest call of its id before it: some models count their ids anew in every answer."""
    waiting: dict[str, list[PairedCall]] = {}
    answered: dict[str, ToolResult] = {}
    found: list[PairedResult] = []
    ahead = list(reversed(calls))
    for place, message in enumerate(messages):
        begun: dict[str, list[PairedCall]] = {}
        while ahead and ahead[-1].place == place:
            call = ahead.pop()
            begun.setdefault(call.call.id, []).append(call)
        waiting.update(begun)
        for result in message.tool_results:
            open_calls = waiting.get(result.call_id)
            one = PairedResult(place, result, open_calls.pop(0) if open_calls else None)
            one.echo = one.call is None and answered.get(result.call_id) == result
            answered[result.call_id] = result
            if one.call is not None:
                one.call.answer = result
            found.append(one)
    _match_earlier(found, calls)
    return found


def _match_earlier(found: Sequence[PairedResult], calls: Sequence[PairedCall]) -> None:
    """A result that stands before its call is taken when there is only one call that it can mean."""
    of_id: dict[str, list[PairedCall]] = {}
    for call in calls:
        of_id.setdefault(call.call.id, []).append(call)
    for one in found:
        candidates = of_id.get(one.result.call_id, [])
        if one.call is None and len(candidates) == 1 and candidates[0].answer is None:
            one.call, one.echo = candidates[0], False
            candidates[0].answer = one.result


UNAVAILABLE: Final = "[Tool result unavailable]"
ABORTED: Final = "[Execution aborted]"


class Report(Struct, frozen=True):
    """The result of a repair. Not recoverable: nothing could be read, and what is there is left as it is."""

    findings: tuple[IntegrityFinding, ...] = ()
    is_recoverable: bool = True


class Mended(Struct, frozen=True):
    messages: tuple[Message, ...]
    findings: tuple[IntegrityFinding, ...]


def mend(messages: Sequence[Message], *, records_lost: bool = False) -> Mended:
    """With `records_lost` the end may be missing: a last call may have been run then, and is not called aborted."""
    findings: list[IntegrityFinding] = []
    unique = _unique(messages, findings)
    return Mended(tuple(_Mending(unique, findings, records_lost).conversation()), tuple(findings))


def _unique(messages: Iterable[Message], findings: list[IntegrityFinding]) -> list[Message]:
    """One message an id, at the first one's place and in the last one's words: so a file that is appended to reads."""
    kept: dict[str, Message] = {}
    for message in (_once_each(each, findings) for each in messages):
        known = kept.get(message.id)
        if known is not None:
            words = "it is there twice" if known == message else "it is there twice; its later words are kept"
            findings.append(IntegrityFinding("duplicate-entry", message.id, words))
        if known != message:
            kept[message.id] = message
    return _without_echoes(kept.values(), findings)


def _without_echoes(messages: Iterable[Message], findings: list[IntegrityFinding]) -> list[Message]:
    """After each id has its last words: what a later entry replaces is no reason to drop its echo."""
    kept: list[Message] = []
    for message in messages:
        if kept and _is_echo(message, kept[-1]):
            text = "it repeats the message before it, call ids and all"
            findings.append(IntegrityFinding("duplicate-entry", message.id, text))
        else:
            kept.append(message)
    return kept


def _once_each(message: Message, findings: list[IntegrityFinding]) -> Message:
    """The message with every call once: two equal ones of one id are one."""
    calls = message.tool_calls
    if len(calls) < 2 or len({call.id for call in calls}) == len(calls):
        return message
    blocks: list[Block] = []
    for block in message.blocks:
        if isinstance(block, ToolCall) and block in blocks:
            findings.append(IntegrityFinding("duplicate-entry", message.id, f"call {block.id!r} is there twice"))
        else:
            blocks.append(block)
    return message if len(blocks) == len(message.blocks) else replace(message, blocks=tuple(blocks))


def _is_echo(message: Message, before: Message) -> bool:
    """Equal calls of equal ids side by side are one; a person who says yes twice has said it twice."""
    return message.role == "assistant" and bool(message.tool_calls) and replace(message, id=before.id) == before


class _Mending:
    """Goes from one message that is no tool's to the next; tool messages between them should be the first's results."""

    def __init__(self, messages: Sequence[Message], findings: list[IntegrityFinding], records_lost: bool) -> None:
        self._messages = messages
        self._findings = findings
        self._records_lost = records_lost
        self._ids = {message.id for message in messages}
        self._taken: set[int] = set()
        self._calls: dict[int, list[PairedCall]] = {}
        self._answers: dict[int, dict[int, list[ToolResult]]] = {}
        self._strays: dict[int, list[PairedResult]] = {}
        calls = calls_of(messages)
        for call in calls:
            self._calls.setdefault(call.place, []).append(call)
        for found in match_results(messages, calls):
            if found.call is None:
                self._strays.setdefault(found.place, []).append(found)
            else:
                self._answers.setdefault(found.call.place, {}).setdefault(found.place, []).append(found.result)

    def conversation(self) -> Generator[Message]:
        place = 0
        while place < len(self._messages):
            end = place + 1
            while end < len(self._messages) and self._messages[end].role == "tool":
                end += 1
            if self._messages[place].role != "tool":
                yield from self._body(place)
                yield from self._results(place, end)
                yield from self._stand_in(place, end)
            for each in range(place, end):
                yield from self._note(each)
            place = end

    def _note_down(self, kind: FindingKind, place: int, text: str) -> None:
        self._findings.append(IntegrityFinding(kind, self._messages[place].id, text))

    def _body(self, place: int) -> Generator[Message]:
        """The message without what cannot be its own; nothing when nothing else was in it."""
        message = self._messages[place]
        if message.role != "assistant" and message.tool_calls:
            self._note_down("invalid-role-sequence", place, "a tool call that no assistant made was removed")
        own = _own_blocks(message)
        if len(own) == len(message.blocks):
            yield message
        elif own:
            yield replace(message, blocks=own)

    def _results(self, place: int, end: int) -> Generator[Message]:
        """The results of this message's calls: first those that stand behind it, then those from elsewhere."""
        by_origin = self._answers.get(place, {})
        for origin, results in by_origin.items():
            if place < origin < end:
                yield self._part(origin, results)
        for origin, results in by_origin.items():
            if not place < origin < end:
                names = ", ".join(result.call_id for result in results)
                self._note_down("invalid-role-sequence", origin, f"results brought to their calls: {names}")
                yield self._part(origin, results)

    def _part(self, origin: int, results: list[ToolResult]) -> Message:
        message = self._messages[origin]
        if message.role == "tool" and len(results) == len(message.blocks):
            return message
        return replace(message, id=self._id_of_part(origin), role="tool", blocks=tuple(results))

    def _stand_in(self, place: int, end: int) -> Generator[Message]:
        """For calls without a result. At the very end the run was broken off; elsewhere nobody knows what happened."""
        missing = [call.call for call in self._calls.get(place, ()) if call.answer is None]
        if not missing:
            return
        for call in missing:
            self._note_down("missing-tool-result", place, f"call {call.id!r} of {call.name!r} has no result")
        if end == len(self._messages) and not self._records_lost:
            results = [ToolResult(call.id, call.name, ABORTED, status="skipped") for call in missing]
        else:
            results = [ToolResult(call.id, call.name, UNAVAILABLE, status="unknown") for call in missing]
        asked = self._messages[place]
        yield Message(self._new_id(asked.id), "tool", tuple(results), Source("system"), asked.created_at)

    def _note(self, place: int) -> Generator[Message]:
        """Words that had no other place: quoted results without a call, and text of a tool message."""
        message = self._messages[place]
        words: list[Block] = []
        if message.role == "tool" and (not message.blocks or len(message.tool_results) < len(message.blocks)):
            self._note_down("invalid-role-sequence", place, "what is no result was taken out of a tool message")
            words += [block for block in message.blocks if isinstance(block, Text | Image)]
        for stray in self._strays.get(place, ()):
            if stray.echo:
                self._note_down("duplicate-entry", place, f"the result of {stray.result.call_id!r} is there twice")
                continue
            self._note_down("orphan-tool-result", place, f"no call {stray.result.call_id!r} waits for its result")
            if stray.result.content.strip():
                # As text, since nobody made the call. It is untrusted: a note is sent as data, never as system.
                name = stray.result.name or "a tool"
                words.append(Text(f"[Result of {name}, whose call is lost]\n{stray.result.content}"))
        if words:
            source = Source("system", message.source.id, message.source.name)
            id = self._id_of_part(place)
            yield replace(message, id=id, role="system", blocks=tuple(words), source=source)

    def _id_of_part(self, place: int) -> str:
        """A message's own id for the first part that is made of it, unless the rest of the message keeps it."""
        message = self._messages[place]
        if place not in self._taken and (message.role == "tool" or not _own_blocks(message)):
            self._taken.add(place)
            return message.id
        return self._new_id(message.id)

    def _new_id(self, id: str) -> str:
        number = 2
        while f"{id}~{number}" in self._ids:
            number += 1
        self._ids.add(f"{id}~{number}")
        return f"{id}~{number}"


def _own_blocks(message: Message) -> tuple[Block, ...]:
    foreign = ToolResult if message.role == "assistant" else ToolCall | ToolResult
    return tuple(block for block in message.blocks if not isinstance(block, foreign))
