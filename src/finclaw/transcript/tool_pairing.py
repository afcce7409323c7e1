"""Pairing of tool results with tool calls, in a conversation where either may be missing, doubled or out of place."""

from collections.abc import Sequence

from msgspec import Struct

from finclaw.kernel.message import Message, ToolCall, ToolResult


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
