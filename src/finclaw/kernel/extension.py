"""The one page that says what an extension can do.

An extension is a module or object with `register(api)`. It is loaded once, in the order of the list that names
it, before the first message; what it registers stays for the life of the process.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Literal, Protocol, overload

from finclaw.kernel.envelope import Outbound
from finclaw.kernel.event import Observer
from finclaw.kernel.message import ToolResult
from finclaw.kernel.port import Command, Tool
from finclaw.kernel.scope import (
    DeliveryContext,
    MessageContext,
    Outcome,
    StepContext,
    StepResult,
    ToolCallContext,
    TurnContext,
    TurnResult,
)

RingName = Literal["message", "turn", "step", "tool_call", "delivery"]
RING_NAMES: tuple[RingName, ...] = ("message", "turn", "step", "tool_call", "delivery")


class PipelineApi(Protocol):
    """Put a layer around one of the five nouns. Unknown kinds raise ExtensionError."""

    @overload
    def register(
        self, kind: Literal["message"], fn: Callable[[MessageContext], Awaitable[Outcome]], *, priority: int = 0
    ) -> None: ...
    @overload
    def register(
        self, kind: Literal["turn"], fn: Callable[[TurnContext], Awaitable[TurnResult]], *, priority: int = 0
    ) -> None: ...
    @overload
    def register(
        self, kind: Literal["step"], fn: Callable[[StepContext], Awaitable[StepResult]], *, priority: int = 0
    ) -> None: ...
    @overload
    def register(
        self, kind: Literal["tool_call"], fn: Callable[[ToolCallContext], Awaitable[ToolResult]], *, priority: int = 0
    ) -> None: ...
    @overload
    def register(
        self, kind: Literal["delivery"], fn: Callable[[DeliveryContext], Awaitable[Outbound]], *, priority: int = 0
    ) -> None: ...
    def register(self, kind: str, fn: Callable[[Any], Awaitable[Any]], *, priority: int = 0) -> None: ...


class ToolsApi(Protocol):
    def register(self, tool: Tool, /) -> None: ...


class CommandsApi(Protocol):
    def register(self, command: Command, /) -> None: ...


class PromptApi(Protocol):
    def section(self, title: str, text: str) -> None: ...


class EventsApi(Protocol):
    def observe(self, observer: Observer) -> Callable[[], None]: ...


class ExtensionApi(Protocol):
    @property
    def pipeline(self) -> PipelineApi: ...
    @property
    def tools(self) -> ToolsApi: ...
    @property
    def commands(self) -> CommandsApi: ...
    @property
    def prompt(self) -> PromptApi: ...
    @property
    def events(self) -> EventsApi: ...
    @property
    def logger(self) -> logging.Logger: ...
    def on_close(self, close: Callable[[], Awaitable[None]]) -> None: ...


class Extension(Protocol):
    @property
    def name(self) -> str: ...
    def register(self, api: ExtensionApi) -> None: ...
