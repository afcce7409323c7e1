"""An image in a conversation: kept, mended, judged and shown like any other block."""

from datetime import UTC, datetime

import msgspec
import pytest
from tests.support.api_rules import Rules, violations

from finclaw.cli.commands.sessions import conversation
from finclaw.kernel.message import Block, Image, Message, Role, Source, Text, Thinking, ToolCall, ToolResult
from finclaw.transcript.integrity import mend
from finclaw.transcript.request_sanitizer import sanitize_request

PICTURE = Image("image/png", b"\x89PNG")


def message(id: str, role: Role, *blocks: Block) -> Message:
    return Message(id, role, blocks, Source("user"), datetime(2026, 1, 1, tzinfo=UTC))


def test_it_is_base64_in_json_and_comes_back() -> None:
    written = msgspec.json.encode(message("1", "user", PICTURE))
    assert b'{"type":"image","media_type":"image/png","data":"iVBORw=="}' in written
    assert msgspec.json.decode(written, type=Message).blocks == (PICTURE,)


@pytest.mark.parametrize("rules", ["anthropic", "openai"])
def test_a_person_may_send_one_and_nothing_else_and_the_assistant_none(rules: Rules) -> None:
    assert violations([message("1", "user", PICTURE)], rules) == ()
    shown = [message("1", "user", PICTURE), message("2", "assistant", Text("a"), PICTURE)]
    assert [each.text for each in violations(shown, rules)] == ["an image of the assistant's"]
    assert violations(sanitize_request(shown), rules) == ()


def test_one_in_a_tool_message_is_not_lost() -> None:
    talk = [
        message("1", "user", Text("?")),
        message("2", "assistant", ToolCall("c", "chart")),
        message("3", "tool", ToolResult("c", "chart", "drawn"), PICTURE),
    ]
    mended = mend(talk).messages
    assert [block for each in mended for block in each.blocks if isinstance(block, Image)] == [PICTURE]
    assert violations(sanitize_request(mended), "anthropic") == ()


def test_a_person_at_a_terminal_reads_what_is_there() -> None:
    shown = conversation(
        [message("1", "user", PICTURE), message("2", "assistant", Thinking("", "x", redacted=True))], 0
    )
    assert "(image) image/png, 4 bytes" in shown
    assert "(thinking, not shown)" in shown
