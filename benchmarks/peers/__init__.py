"""Whom we measure: one module a peer, and the table of them. A peer's libraries are imported when it is set up."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import cast

from benchmarks.peers.peer import Peer


@dataclass(frozen=True)
class Entry:
    """`weight`: how many times fewer turns are enough, because each takes that much longer."""

    title: str
    environment: str
    place: str
    weight: int = 1

    def make(self) -> Peer:
        module, _, name = self.place.partition(":")
        return cast("Callable[[], Peer]", getattr(import_module(f"benchmarks.peers.{module}"), name))()


OURS, OURS_OPENAI = "finclaw", "finclaw-openai"
REFERENCE, REFERENCE_OPENAI = "anthropic-sdk", "openai-sdk"
AGENTS = "openai-agents"

PEERS = {
    OURS: Entry("**FinClaw over Anthropic, the whole gateway, every commit on disk**", "own", "ours:over_anthropic"),
    OURS_OPENAI: Entry("**FinClaw over OpenAI, the whole gateway, every commit on disk**", "own", "ours:over_openai"),
    "aiohttp": Entry("bare aiohttp loop, nothing kept", "sdk", "bare:BareLoop"),
    REFERENCE: Entry("anthropic SDK loop, nothing kept (reference)", "sdk", "anthropic_sdk:AnthropicLoop"),
    REFERENCE_OPENAI: Entry("openai SDK loop, nothing kept (reference)", "sdk", "openai_sdk:OpenAILoop", weight=2),
    "pydantic-ai": Entry("pydantic-ai (Anthropic), nothing kept", "pydantic-ai", "pydantic_ai_agent:Agent", weight=4),
    AGENTS: Entry("openai-agents + SQLiteSession", "openai-agents", "openai_agents:Agents", weight=4),
    "langchain": Entry("langchain + AsyncSqliteSaver", "langchain", "langchain_agent:Graph", weight=6),
    "nanobot": Entry("nanobot as shipped, window off", "nanobot", "nanobot_agent:Nanobot", weight=12),
}
JUDGED = (OURS, OURS_OPENAI, "aiohttp", REFERENCE, REFERENCE_OPENAI, AGENTS)
"""Whom a goal speaks of, and the least that a loop can cost. For the others one round is enough."""
