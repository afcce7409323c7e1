"""A value of the settings with the place where it was set, so that every complaint can point at it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

Tree = dict[str, "Given"]
"""A section of the settings. A section inside it is a Given whose value is a Tree."""


@dataclass(frozen=True, slots=True)
class Given:
    value: object
    """A scalar, a list of Givens, or a Tree."""
    where: str
    """For a person: `finclaw.yaml line 3`, `FINCLAW_WEB__PORT`, `the command line`."""
    from_text: bool = False
    """It came as text whatever it means, so that "8787" may be a number."""

    @property
    def section(self) -> Tree | None:
        return cast(Tree, self.value) if isinstance(self.value, dict) else None


def put(tree: Tree, path: tuple[str, ...], given: Given) -> None:
    """Set one value, over whatever an earlier layer said there."""
    for name in path[:-1]:
        below = tree.get(name)
        if below is None or below.value is None:
            below = tree[name] = Given({}, given.where)
        if below.section is None:
            return  # a scalar where a section belongs: it stays, and is complained about
        tree = below.section
    tree[path[-1]] = given


def bare_value(given: Given) -> Any:
    """The bare value, without the notes about where it came from."""
    if given.section is not None:
        return {key: bare_value(each) for key, each in given.section.items()}
    if isinstance(given.value, list):
        return [bare_value(each) for each in cast(list[Given], given.value)]
    return given.value


def texts(given: Given) -> Iterator[str]:
    """Every text in a value, however deep."""
    if isinstance(given.value, str):
        yield given.value
    elif isinstance(given.value, list):
        for each in cast(list[Given], given.value):
            yield from texts(each)
    for each in (given.section or {}).values():
        yield from texts(each)
