"""Conversations as broken software leaves them, and as they are written."""

from tests.ports.nouns import AT, said

from finclaw.kernel.message import Message, Source, Text, ToolCall, ToolResult
from finclaw.storage.jsonl.base import (
    BaseLine,
    FoldedLine,
    MessageLine,
    write_base_line,
)

ASK = Message(
    "ask", "assistant", (Text("I look"), ToolCall("c1", "quote", {"symbol": "삼성"})), Source("assistant"), AT
)
TOLD = Message("told", "tool", (ToolResult("c1", "quote", "₩71,000"),), Source("tool"), AT)
FIRST = [said("hi", "what does it cost?"), ASK, TOLD, said("so", "₩71,000", role="assistant")]
SECOND = [said("yes", 'say "yes"\nand\tmore'), said("end", "yes " * 150, role="assistant")]
LINES: list[BaseLine] = [
    *(MessageLine("t-1", message) for message in FIRST),
    FoldedLine("t-1", 4, 1),
    *(MessageLine("t-2", message) for message in SECOND),
    FoldedLine("t-2", 2, 2),
]
WRITTEN = [write_base_line(line) for line in LINES]
RAW = b"".join(WRITTEN)
