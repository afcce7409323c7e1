"""A gateway with one of our own extensions, listed in the settings as anybody would list it."""

import dataclasses
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any

from msgspec import structs
from tests.walks.house import Gateway, House

from finclaw.agent.settings import AgentSettings, ExtensionRef
from finclaw.kernel.chunk import ToolSpec
from finclaw.kernel.port import Tool


def extended(
    house: House, use: str, *script: Any, settings: dict[str, Any] | None = None, max_steps: int = 10, **parts: Any
) -> AbstractAsyncContextManager[Gateway]:
    agent = AgentSettings(extensions=(ExtensionRef(use, settings or {}),), max_steps=max_steps)
    return house.open(*script, agent=agent, **parts)


def described(tool: Any, about: str) -> Tool:
    """The same tool with another description."""
    return dataclasses.replace(tool, spec=structs.replace(tool.spec, description=about))


def names(specs: Iterable[ToolSpec]) -> list[str]:
    return [spec.name for spec in specs]
