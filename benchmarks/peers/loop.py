"""The tool loop that a programmer writes by hand around a client, for both protocols. History in memory."""

import json
from typing import Any

from benchmarks.peers.peer import DESCRIPTION, SCHEMA, SYSTEM, First, Peer, exchanges, get_quote

ANTHROPIC_TOOL: dict[str, Any] = {"name": "get_quote", "description": DESCRIPTION, "input_schema": SCHEMA}
OPENAI_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "get_quote", "description": DESCRIPTION, "parameters": SCHEMA},
}

Message = dict[str, Any]


class Loop(Peer):
    def __init__(self) -> None:
        self.conversations: dict[str, list[Message]] = {}

    def history(self, conversation: str) -> list[Message]:
        return self.conversations.setdefault(conversation, self.opening())

    def opening(self) -> list[Message]:
        return []

    async def seed(self, conversation: str, messages: int) -> None:
        history = self.history(conversation)
        for question, answer in exchanges(messages):
            history += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]

    async def turn(self, conversation: str, text: str, first: First) -> str:
        history = self.history(conversation)
        history.append({"role": "user", "content": text})
        while True:
            message = await self.call(history, first)
            history.append(message)
            results = await self.results(message)
            if not results:
                return self.text(message)
            history += results

    async def call(self, history: list[Message], first: First) -> Message:
        """The assistant's next message."""
        raise NotImplementedError

    async def results(self, message: Message) -> list[Message]:
        """What the tools it asked for gave; empty when it asked for none."""
        raise NotImplementedError

    def text(self, message: Message) -> str:
        raise NotImplementedError


class AnthropicMessages(Loop):
    async def results(self, message: Message) -> list[Message]:
        results = [
            {"type": "tool_result", "tool_use_id": block["id"], "content": await get_quote(**block["input"])}
            for block in message["content"]
            if block["type"] == "tool_use"
        ]
        return [{"role": "user", "content": results}] if results else []

    def text(self, message: Message) -> str:
        return "".join(block.get("text", "") for block in message["content"])


class OpenAIMessages(Loop):
    def opening(self) -> list[Message]:
        return [{"role": "system", "content": SYSTEM}]

    async def results(self, message: Message) -> list[Message]:
        return [
            {
                "role": "tool",
                "tool_call_id": call["id"],
                "content": await get_quote(**json.loads(call["function"]["arguments"])),
            }
            for call in message.get("tool_calls", ())
        ]

    def text(self, message: Message) -> str:
        return message["content"]


class Blocks:
    """Content blocks of an Anthropic answer, gathered from its events."""

    def __init__(self, first: First) -> None:
        self._first: First | None = first
        self._blocks: list[Message] = []
        self._parts: list[list[str]] = []

    def text_block(self) -> None:
        self._add({"type": "text", "text": ""})

    def tool_block(self, call_id: str, name: str) -> None:
        self._add({"type": "tool_use", "id": call_id, "name": name})

    def _add(self, block: Message) -> None:
        self._blocks.append(block)
        self._parts.append([])

    def text(self, part: str) -> None:
        if self._first is not None:
            self._first()
            self._first = None
        self._parts[-1].append(part)

    def json(self, part: str) -> None:
        self._parts[-1].append(part)

    def message(self) -> Message:
        for block, parts in zip(self._blocks, self._parts, strict=True):
            whole = "".join(parts)
            if block["type"] == "text":
                block["text"] = whole
            else:
                block["input"] = json.loads(whole)
        return {"role": "assistant", "content": self._blocks}
