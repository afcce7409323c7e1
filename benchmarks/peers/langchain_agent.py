"""langchain's agent with the SQLite checkpointer."""

import os
from typing import Any

from benchmarks.peers.peer import MODEL, QUOTE, SYSTEM, First, Peer, data_directory, exchanges, mock_url


class Graph(Peer):
    async def setup(self) -> None:
        os.environ["LANGSMITH_TRACING"] = "false"
        from langchain.agents import create_agent  # noqa: PLC0415
        from langchain_core import messages, tools  # noqa: PLC0415
        from langchain_openai import ChatOpenAI  # noqa: PLC0415
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver  # noqa: PLC0415

        @tools.tool
        async def get_quote(symbol: str) -> str:
            """Latest quote of a symbol."""
            return QUOTE

        self.messages: Any = messages
        self.opened = AsyncSqliteSaver.from_conn_string(str(data_directory() / "langgraph.db"))
        saver = await self.opened.__aenter__()
        model = ChatOpenAI(
            model=MODEL,
            base_url=mock_url() + "/v1",
            api_key="x",
            streaming=True,
            stream_usage=True,
            use_responses_api=False,
        )
        self.graph: Any = create_agent(model, [get_quote], system_prompt=SYSTEM, checkpointer=saver)

    async def close(self) -> None:
        await self.opened.__aexit__(None, None, None)

    async def seed(self, conversation: str, messages: int) -> None:
        history: list[Any] = []
        for question, answer in exchanges(messages):
            history += [self.messages.HumanMessage(question), self.messages.AIMessage(answer)]
        await self.graph.aupdate_state(_thread(conversation), {"messages": history}, as_node="model")

    async def turn(self, conversation: str, text: str, first: First) -> str:
        parts: list[str] = []
        asked = {"messages": [self.messages.HumanMessage(text)]}
        async for chunk, _ in self.graph.astream(asked, _thread(conversation), stream_mode="messages"):
            if chunk.type == "AIMessageChunk" and chunk.content:
                if not parts:
                    first()
                parts.append(chunk.content)
        return "".join(parts)


def _thread(conversation: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": conversation}}
