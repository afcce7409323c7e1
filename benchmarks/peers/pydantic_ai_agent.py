"""pydantic-ai on the Anthropic protocol, its message history handed in from memory."""

from typing import Any

from benchmarks.peers.peer import MODEL, QUOTE, SYSTEM, First, Peer, exchanges, mock_url


class Agent(Peer):
    async def setup(self) -> None:
        from anthropic import AsyncAnthropic  # noqa: PLC0415
        from pydantic_ai import Agent as PydanticAgent  # noqa: PLC0415
        from pydantic_ai.models.anthropic import AnthropicModel  # noqa: PLC0415
        from pydantic_ai.providers.anthropic import AnthropicProvider  # noqa: PLC0415

        client = AsyncAnthropic(base_url=mock_url(), api_key="x")
        model = AnthropicModel(MODEL, provider=AnthropicProvider(anthropic_client=client))
        self.agent: Any = PydanticAgent(model, instructions=SYSTEM)

        @self.agent.tool_plain
        async def get_quote(symbol: str) -> str:
            """Latest quote of a symbol."""
            return QUOTE

        self.conversations: dict[str, list[Any]] = {}

    async def seed(self, conversation: str, messages: int) -> None:
        from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart  # noqa: PLC0415

        history = self.conversations.setdefault(conversation, [])
        for question, answer in exchanges(messages):
            history += [ModelRequest(parts=[UserPromptPart(question)]), ModelResponse(parts=[TextPart(answer)])]

    async def turn(self, conversation: str, text: str, first: First) -> str:
        parts: list[str] = []
        history = self.conversations.get(conversation, [])
        async with self.agent.run_stream(text, message_history=history) as answer:
            async for part in answer.stream_text(delta=True, debounce_by=None):
                if not parts:
                    first()
                parts.append(part)
            self.conversations[conversation] = answer.all_messages()
        return "".join(parts)
