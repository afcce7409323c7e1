"""openai-agents with its own SQLite session."""

from typing import Any

from benchmarks.peers.peer import MODEL, QUOTE, SYSTEM, First, Peer, data_directory, exchanges, mock_url


class Agents(Peer):
    async def setup(self) -> None:
        import agents  # noqa: PLC0415
        from openai import AsyncOpenAI  # noqa: PLC0415

        agents.set_tracing_disabled(True)

        @agents.function_tool
        async def get_quote(symbol: str) -> str:
            """Latest quote of a symbol."""
            return QUOTE

        client = AsyncOpenAI(base_url=mock_url() + "/v1", api_key="x")
        model = agents.OpenAIChatCompletionsModel(MODEL, openai_client=client)
        self.agents: Any = agents
        self.agent = agents.Agent(name="bench", instructions=SYSTEM, tools=[get_quote], model=model)
        self.sessions: dict[str, Any] = {}

    def session(self, conversation: str) -> Any:
        if conversation not in self.sessions:
            self.sessions[conversation] = self.agents.SQLiteSession(conversation, data_directory() / "agents.db")
        return self.sessions[conversation]

    async def seed(self, conversation: str, messages: int) -> None:
        items: list[dict[str, str]] = []
        for question, answer in exchanges(messages):
            items += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        await self.session(conversation).add_items(items)

    async def turn(self, conversation: str, text: str, first: First) -> str:
        answer = self.agents.Runner.run_streamed(self.agent, text, session=self.session(conversation))
        seen = False
        async for event in answer.stream_events():
            if not seen and event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                seen = True
                first()
        return answer.final_output
