"""nanobot as it is shipped, with its session files; only the context window is opened wide."""

import json
import os
import sys
from typing import Any

from benchmarks.peers.peer import DESCRIPTION, MODEL, QUOTE, SCHEMA, First, Peer, data_directory, exchanges, mock_url


class Nanobot(Peer):
    async def setup(self) -> None:
        home = data_directory() / "nanobot"
        (home / ".nanobot").mkdir(parents=True, exist_ok=True)
        os.environ["HOME"] = str(home)
        config = home / ".nanobot" / "config.json"
        config.write_text(json.dumps(_config(str(home / "workspace"))))
        from loguru import logger  # noqa: PLC0415

        logger.remove()
        logger.add(sys.stderr, level="WARNING")
        from nanobot import Nanobot as Bot  # noqa: PLC0415
        from nanobot.agent.tools.base import Tool  # noqa: PLC0415

        class GetQuote(Tool):
            name = "get_quote"
            description = DESCRIPTION
            parameters = SCHEMA

            async def execute(self, **arguments: Any) -> str:
                return QUOTE

        self.bot: Any = Bot.from_config(str(config))
        self.bot._loop.tools.register(GetQuote())

    async def close(self) -> None:
        await self.bot.aclose()

    async def seed(self, conversation: str, messages: int) -> None:
        history: list[dict[str, str]] = []
        for question, answer in exchanges(messages):
            history += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        await self.bot.sessions.ingest(f"bench:{conversation}", history)

    async def turn(self, conversation: str, text: str, first: First) -> str:
        seen, answer = False, ""
        async for event in self.bot.stream(
            text, session_key=f"bench:{conversation}", channel="cli", chat_id=conversation
        ):
            if event.type == "text.delta" and not seen:
                seen = True
                first()
            elif event.type == "run.completed":
                answer = event.content
            elif event.type == "run.failed":
                raise RuntimeError(event.error)
        return answer


def _config(workspace: str) -> dict[str, Any]:
    defaults = {"workspace": workspace, "model": MODEL, "provider": "custom", "contextWindowTokens": 100_000_000}
    return {
        "agents": {"defaults": defaults},
        "providers": {"custom": {"apiKey": "x", "apiBase": mock_url() + "/v1"}},
    }
