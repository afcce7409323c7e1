"""Extensions for the rules: layers that say when they are entered and left, and gateways that hold several of them."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tests.walks.house import AnyLayer, Gateway, House

import finclaw
from finclaw.config.schema import StorageSettings
from finclaw.ids import new_id
from finclaw.kernel.extension import ExtensionApi, RingName
from finclaw.kernel.message import Message, Role, Source, Text
from finclaw.kernel.scope import TurnContext
from finclaw.testing import MemoryChannel, ScriptedProvider
from finclaw.testing.clock import EPOCH
from finclaw.testing.provider import Line, Script

STANDARD: tuple[RingName, ...] = ("turn", "step", "tool_call")


class Heard(list[str]):
    """What layers said, in order."""

    def layer(self, name: str) -> AnyLayer:
        """Says `name(` on its way in and `)name` on its way out."""

        async def layer(ctx: Any) -> Any:
            self.append(f"{name}(")
            result = await ctx.next()
            self.append(f"){name}")
            return result

        return layer

    @property
    def line(self) -> str:
        return " ".join(self)


class Extending:
    """An extension whose entry function is given."""

    def __init__(self, name: str, register: Callable[[ExtensionApi], object]) -> None:
        self.name = name
        self._register = register

    def register(self, api: ExtensionApi) -> None:
        self._register(api)


@asynccontextmanager
async def extended(
    house: House,
    *extensions: Extending,
    script: Sequence[Line | Script] = (),
    storage: StorageSettings | None = None,
    **settings: Any,
) -> AsyncGenerator[Gateway]:
    """A gateway with these extensions, in this order."""
    channel = MemoryChannel(house.clock)
    provider = ScriptedProvider(*script, clock=house.clock)
    async with finclaw.build(
        finclaw.Settings(state=house.state, storage=storage or StorageSettings(), **settings),
        channels=[channel],
        provider=provider,
        extensions=extensions,
        clock=house.clock,
        threaded=False,
    ) as app:
        gateway = Gateway(app, channel, provider)
        app.events.observe(gateway.events.append)
        yield gateway


def note(text: str, role: Role = "user", *, id: str = "", passing: str = "") -> Message:
    """A message as an extension puts it into a conversation."""
    return Message(id or new_id(), role, (Text(text),), Source("extension", name="test"), EPOCH, passing=passing)


def texts(messages: Sequence[Message]) -> list[str]:
    return [message.text for message in messages]


def in_turn(ctx: TurnContext) -> list[str]:
    """The conversation as a turn layer sees it now."""
    return texts(ctx.conversation.next_messages)
