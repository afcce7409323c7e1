"""The loop on the official anthropic SDK. This is the reference: what one would write first."""

from benchmarks.peers.loop import ANTHROPIC_TOOL, AnthropicMessages, Blocks, Message
from benchmarks.peers.peer import MODEL, SYSTEM, First, mock_url


class AnthropicLoop(AnthropicMessages):
    async def setup(self) -> None:
        from anthropic import AsyncAnthropic  # noqa: PLC0415

        self.client = AsyncAnthropic(base_url=mock_url(), api_key="x")

    async def call(self, history: list[Message], first: First) -> Message:
        blocks = Blocks(first)
        events = await self.client.messages.create(
            model=MODEL, max_tokens=1024, system=SYSTEM, tools=[ANTHROPIC_TOOL], messages=history, stream=True
        )
        async for event in events:
            if event.type == "content_block_delta":
                if event.delta.type == "text_delta":
                    blocks.text(event.delta.text)
                else:
                    blocks.json(event.delta.partial_json)
            elif event.type == "content_block_start":
                block = event.content_block
                if block.type == "text":
                    blocks.text_block()
                else:
                    blocks.tool_block(block.id, block.name)
        return blocks.message()
