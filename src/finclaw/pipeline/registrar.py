"""Collects what extensions register. An extension that fails leaves nothing behind and is named in the error."""

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Generic, TypeVar

from finclaw.errors import ExtensionError
from finclaw.kernel.event import Event, EventStream, Observer
from finclaw.kernel.extension import RING_NAMES, Extension
from finclaw.kernel.middleware import Layer
from finclaw.kernel.port import Command, Tool
from finclaw.tools.registry import ToolRegistry

T = TypeVar("T")


class Registrar:
    """Everything that was registered, in the order in which it was."""

    def __init__(self, events: EventStream) -> None:
        self.events = events
        self.tools = ToolRegistry()
        self.commands: list[Command] = []
        self.sections: list[tuple[str, str]] = []
        self.closers: list[Callable[[], Awaitable[None]]] = []
        self._layers: dict[str, list[Layer[Any, Any]]] = {ring: [] for ring in RING_NAMES}

    def load(self, extensions: Iterable[Extension]) -> None:
        for extension in extensions:
            draft = _Draft(extension.name)
            try:
                extension.register(draft)
                self._take(draft)
            except Exception as error:  # loading an extension is where a stranger's failure is contained
                raise ExtensionError(
                    f"extension {extension.name!r} could not be registered: {type(error).__name__}: {error}"
                ) from error

    def _take(self, draft: "_Draft") -> None:
        self._take_tools(draft.drafted_tools)  # the only ones that may be refused, so they come first
        self.commands += draft.drafted_commands
        self.sections += draft.drafted_sections
        self.closers += draft.closers
        for ring, layer in draft.layers:
            self._layers[ring].append(layer)
        for observer in draft.observers:
            self.events.observe(observer)

    def _take_tools(self, tools: Iterable[Tool]) -> None:
        taken: list[Tool] = []
        try:
            for tool in tools:
                self.tools.register(tool)
                taken.append(tool)
        except ExtensionError:
            for tool in taken:
                self.tools.unregister(tool.spec.name)
            raise

    def layers(self, ring: str) -> tuple[Layer[Any, Any], ...]:
        return tuple(self._layers[ring])


class _Draft:
    """One extension's registrations until all of them have succeeded. It is its own `pipeline`, `tools`, …"""

    def __init__(self, extension: str) -> None:
        self._extension = extension
        self.layers: list[tuple[str, Layer[Any, Any]]] = []
        self.drafted_tools: list[Tool] = []
        self.drafted_commands: list[Command] = []
        self.drafted_sections: list[tuple[str, str]] = []
        self.observers: list[Observer] = []
        self.closers: list[Callable[[], Awaitable[None]]] = []
        self.logger = logging.getLogger(f"finclaw.extension.{extension}")
        self.pipeline = _PipelineDraft(self)
        self.tools = _Into(self.drafted_tools)
        self.commands = _Into(self.drafted_commands)
        self.prompt = _PromptDraft(self.drafted_sections)
        self.events = _EventsDraft(self.observers)

    @property
    def name(self) -> str:
        return self._extension

    def on_close(self, close: Callable[[], Awaitable[None]]) -> None:
        self.closers.append(close)


class _PipelineDraft:
    def __init__(self, draft: _Draft) -> None:
        self._draft = draft

    def register(self, kind: str, fn: Callable[[Any], Awaitable[Any]], *, priority: int = 0) -> None:
        if kind not in RING_NAMES:
            raise ExtensionError(f"there is no ring {kind!r}; the rings are {', '.join(RING_NAMES)}")
        name = f"{self._draft.name}.{getattr(fn, '__name__', type(fn).__name__)}"
        self._draft.layers.append((kind, Layer(name, fn, priority)))


class _Into(Generic[T]):
    def __init__(self, target: list[T]) -> None:
        self._target = target

    def register(self, thing: T, /) -> None:
        self._target.append(thing)


class _PromptDraft:
    def __init__(self, sections: list[tuple[str, str]]) -> None:
        self._sections = sections

    def section(self, title: str, text: str) -> None:
        self._sections.append((title, text))


class _EventsDraft:
    def __init__(self, observers: list[Observer]) -> None:
        self._observers = observers

    def observe(self, observer: Observer) -> Callable[[], None]:
        """The returned function stops it for good, also once the draft has been taken."""
        watching = True

        def watch(event: Event) -> None:
            if watching:
                observer(event)

        def stop() -> None:
            nonlocal watching
            watching = False

        self._observers.append(watch)
        return stop
