"""FinClaw: the whole gateway as it is built for a real start, its state on the disk, every commit synced."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from benchmarks.peers.peer import ANSWER, DESCRIPTION, MODEL, QUESTION, QUOTE, First, Peer, data_directory, mock_url
from finclaw import Inbound, Settings, ToolOutput, ToolScope, build, tool
from finclaw.agent.settings import AgentSettings
from finclaw.cli.process_setup import collect_rarely, freeze_startup_objects
from finclaw.kernel.event import Event, TextStreamed
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.message import Message, Source, Text
from finclaw.kernel.port import Provider
from finclaw.pipeline.settings import PipelineSettings, PoolSettings
from finclaw.providers.anthropic.provider import AnthropicProvider
from finclaw.providers.openai.provider import OpenAIProvider
from finclaw.redaction import Secret
from finclaw.sessions.session_key import session_key


class Arguments(Struct, frozen=True):
    symbol: str


@tool("get_quote", DESCRIPTION, group="finance")
async def get_quote(args: Arguments, scope: ToolScope) -> ToolOutput:
    return ToolOutput(QUOTE)


class QuoteExtension:
    """The tool that every peer has."""

    name = "bench"

    def register(self, api: ExtensionApi) -> None:
        api.tools.register(get_quote)


class Finclaw(Peer):
    def __init__(self, connect: Callable[[], Provider]) -> None:
        self.connect = connect
        self.waiting: dict[str, First] = {}

    async def setup(self) -> None:
        collect_rarely()
        provider = self.connect()
        self.agent = AgentSettings(model=f"{provider.name}/{MODEL}")
        pools = PoolSettings(main=4_096)  # more at once than anybody wants, for the measure of memory
        settings = Settings(state=data_directory() / "state", agent=self.agent, pipeline=PipelineSettings(pools=pools))
        self.house = AsyncExitStack()
        self.app = await self.house.enter_async_context(
            build(settings, provider=provider, extensions=[QuoteExtension()])
        )
        self.app.events.observe(self.observe)
        freeze_startup_objects()

    def observe(self, event: Event) -> None:
        if isinstance(event, TextStreamed) and (first := self.waiting.pop(event.session, None)) is not None:
            first()

    async def turn(self, conversation: str, text: str, first: First) -> str:
        inbound = Inbound(text=text, conversation=conversation)
        self.waiting[session_key(self.agent.name, inbound)] = first
        outcome = await self.app.handle(inbound)
        if outcome.kind != "answered":
            raise RuntimeError(f"{outcome.kind}: {outcome.reason}")
        return outcome.reply or ""

    async def settle(self) -> None:
        await self.app.idle()

    async def evict(self) -> None:
        """A new start on the same state: every conversation is on disk only."""
        await self.close()
        await self.setup()

    async def close(self) -> None:
        await self.house.aclose()

    async def seed(self, conversation: str, messages: int) -> None:
        key = session_key(self.agent.name, Inbound(text="", conversation=conversation))
        await self.app.restore(key, [_message(each) for each in range(messages)])


def over_anthropic() -> Finclaw:
    return Finclaw(lambda: AnthropicProvider(mock_url(), Secret("x")))


def over_openai() -> Finclaw:
    return Finclaw(lambda: OpenAIProvider(mock_url() + "/v1", Secret("x")))


def _message(number: int) -> Message:
    mine = number % 2 == 0
    text = (QUESTION if mine else ANSWER) % (number // 2)
    metadata: dict[str, Any] = {} if mine else {"usage": [100, 200, 0, 0], "model": MODEL, "stop": "end"}
    return Message(
        id=f"{number:032x}",
        role="user" if mine else "assistant",
        blocks=(Text(text),),
        source=Source("user", "local") if mine else Source("assistant", "0"),
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        metadata=metadata,
    )
