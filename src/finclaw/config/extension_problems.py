"""Problems of extensions' settings that show without running any of them: whether what they refer to is there."""

import re
from collections.abc import Iterator
from typing import Final, cast

from finclaw.config.given import Given
from finclaw.config.load import Gathered
from finclaw.errors import ConfigError

_REFERENCE: Final = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*")
"""Only the extension knows which of its texts is a secret; but nothing else looks like this."""


def problems_of_extensions(gathered: Gathered) -> tuple[str, ...]:
    """A line for each variable that an extension will look for in vain, with the place where it is named."""
    agent = gathered.tree.get("agent", Given({}, "")).section or {}
    listed = agent.get("extensions", Given([], "")).value
    extensions = cast("list[Given]", listed) if isinstance(listed, list) else []
    return tuple(
        problem
        for place, each in enumerate(extensions, start=1)
        if each.section is not None and "settings" in each.section
        for problem in _problems(gathered, each.section["settings"], f"agent.extensions[{place}].settings")
    )


def _problems(gathered: Gathered, given: Given, key: str) -> Iterator[str]:
    match given.value:
        case list():
            for place, each in enumerate(cast("list[Given]", given.value), start=1):
                yield from _problems(gathered, each, f"{key}[{place}]")
        case str() as text if _REFERENCE.fullmatch(text):
            try:
                gathered.keeper.fetch(key, text)
            except ConfigError as error:
                yield f"{given.where}: {error}"
        case _:
            for name, each in (given.section or {}).items():
                yield from _problems(gathered, each, f"{key}.{name}")
