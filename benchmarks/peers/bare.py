"""The same loop without any SDK: aiohttp, a fast JSON library, lines read as they come."""

from typing import Any

from benchmarks.peers.loop import ANTHROPIC_TOOL, AnthropicMessages, Blocks, Message
from benchmarks.peers.peer import MODEL, SYSTEM, First, mock_url


class BareLoop(AnthropicMessages):
    async def setup(self) -> None:
        import aiohttp  # noqa: PLC0415
        import orjson  # noqa: PLC0415

        self.json = orjson
        self.session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        self.url = mock_url() + "/v1/messages"
        self.fields = {"model": MODEL, "max_tokens": 1024, "stream": True, "system": SYSTEM, "tools": [ANTHROPIC_TOOL]}

    async def close(self) -> None:
        await self.session.close()

    async def call(self, history: list[Message], first: First) -> Message:
        blocks = Blocks(first)
        body = self.json.dumps({**self.fields, "messages": history})
        async with self.session.post(self.url, data=body, headers={"content-type": "application/json"}) as answer:
            async for line in answer.content:
                if line.startswith(b"data: "):
                    _feed(blocks, self.json.loads(line[6:]))
        return blocks.message()


def _feed(blocks: Blocks, event: dict[str, Any]) -> None:
    if event["type"] == "content_block_delta":
        delta = event["delta"]
        if delta["type"] == "text_delta":
            blocks.text(delta["text"])
        else:
            blocks.json(delta["partial_json"])
    elif event["type"] == "content_block_start":
        block = event["content_block"]
        if block["type"] == "text":
            blocks.text_block()
        else:
            blocks.tool_block(block["id"], block["name"])
