"""The loop on the official openai SDK."""

from typing import Any

from benchmarks.peers.loop import OPENAI_TOOL, Message, OpenAIMessages
from benchmarks.peers.peer import MODEL, First, mock_url


class OpenAILoop(OpenAIMessages):
    async def setup(self) -> None:
        from openai import AsyncOpenAI  # noqa: PLC0415

        self.client = AsyncOpenAI(base_url=mock_url() + "/v1", api_key="x")

    async def call(self, history: list[Message], first: First) -> Message:
        parts: list[str] = []
        calls: list[dict[str, Any]] = []
        chunks = await self.client.chat.completions.create(
            model=MODEL, messages=history, tools=[OPENAI_TOOL], stream=True, stream_options={"include_usage": True}
        )
        async for chunk in chunks:
            if not chunk.choices:
                continue
            delta = chunk.choices[0].delta
            if delta.content:
                if not parts:
                    first()
                parts.append(delta.content)
            for piece in delta.tool_calls or ():
                _feed(calls, piece)
        message: Message = {"role": "assistant", "content": "".join(parts)}
        return {**message, "tool_calls": calls} if calls else message


def _feed(calls: list[dict[str, Any]], piece: Any) -> None:
    if piece.index == len(calls):
        calls.append({"id": piece.id, "type": "function", "function": {"name": "", "arguments": ""}})
    function = calls[piece.index]["function"]
    function["name"] += piece.function.name or ""
    function["arguments"] += piece.function.arguments or ""
