"""The differences between two runs of one turn: named parts of text, and a diff of every part that differs."""

from collections.abc import Iterator, Mapping
from difflib import unified_diff
from typing import Any

import msgspec
from msgspec import Struct

from finclaw.kernel.message import Image, Message, Text, Thinking, ToolCall, ToolResult
from finclaw.kernel.record import TurnTrace
from finclaw.testing.replay import own_blocks

Arguments = Mapping[str, Mapping[str, Any]]
"""With which each call reached its tool, by the call's id."""


class Difference(Struct, frozen=True):
    """One part of the turn, as it is in the record and as it comes out now; None where it is not there at all."""

    part: str
    recorded: str | None
    now: str | None

    def lines(self) -> Iterator[str]:
        yield from unified_diff(_lines(self.recorded), _lines(self.now), "recorded", "now", lineterm="", n=2)


def _lines(text: str | None) -> list[str]:
    return [] if text is None else text.splitlines() or [""]


def differences(recorded: TurnTrace, now: TurnTrace, given: Arguments) -> list[Difference]:
    """In the order of the turn. `given` is what the tools were given now."""
    ends = _compare_parts(_end_parts(recorded), _end_parts(now))
    if not now.messages:  # no turn came of it: what the agent would have done is beside the point
        return ends
    return _compare_parts(_run_parts(recorded, recorded_arguments(recorded)), _run_parts(now, given)) + ends


def _compare_parts(then: Mapping[str, str], now: Mapping[str, str]) -> list[Difference]:
    names = dict.fromkeys((*then, *now))
    return [Difference(name, then.get(name), now.get(name)) for name in names if then.get(name) != now.get(name)]


def recorded_arguments(story: TurnTrace) -> Arguments:
    """What layers had made of the model's arguments, where the record says so."""
    given: dict[str, Mapping[str, Any]] = {}
    for message in story.messages:
        given |= message.metadata.get("given", {})
    return given


def _run_parts(story: TurnTrace, given: Arguments) -> dict[str, str]:
    parts: dict[str, str] = {}
    step = 0
    for place, message in enumerate(story.messages, 1):
        match message.source.kind:
            case "assistant":
                step += 1
                parts[f"step {step}"] = "\n".join(_answer(message, given))
            case "tool":
                for number, result in enumerate(message.tool_results, 1):
                    parts[f"step {step}, result {number} ({result.name})"] = _result(result)
            case "system":
                pass  # the gateway's last word, which is the reply
            case kind:
                parts[f"message {place} ({message.source.name or kind})"] = message.text
    return parts


def _end_parts(story: TurnTrace) -> dict[str, str]:
    end = {"status": story.record.status, "steps": str(story.record.steps)}
    if story.outcome is not None:
        end["outcome"] = f"{story.outcome.kind} {story.outcome.reason}".strip()
        end["reply"] = story.outcome.reply or ""
    return end


def _answer(message: Message, given: Arguments) -> Iterator[str]:
    for block in own_blocks(message):
        match block:
            case Text(text) | Thinking(text):
                yield text
            case ToolCall():
                arguments = given.get(block.id, block.args) if block.bad_args is None else block.bad_args
                yield f"{block.name} {_json(arguments)}"
            case Image() | ToolResult():
                pass


def _result(result: ToolResult) -> str:
    facts = [_json(fact) for fact in result.facts]
    error = [] if result.error is None else [_json(result.error)]
    return "\n".join([result.status, result.content, *error, *facts])


def _json(value: object) -> str:
    return msgspec.json.encode(value, order="sorted").decode()
