"""Make a settings dataclass from a tree of given values, and complain about everything that does not fit, at once."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec

from finclaw.config.given import Given, Tree, plain
from finclaw.config.words import did_you_mean, expected, got, printable
from finclaw.errors import ConfigError
from finclaw.kernel.secret import Secret

T = TypeVar("T")
FetchSecret = Callable[[str, object], Secret]


def keys(schema: type, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of every single setting."""
    for name, kind in _fields(schema).items():
        if is_dataclass(kind):
            yield from keys(kind, (*above, name))  # pyright: ignore[reportArgumentType]
        else:
            yield (*above, name)


def fill(schema: type[T], tree: Tree, fetch: FetchSecret, fixed: Mapping[str, object] | None = None) -> T:
    """The settings, or one ConfigError that names every problem. `fixed` values are not the tree's business."""
    filler = _Filler(schema, fetch)
    made = filler.section(schema, tree, (), fixed or {})
    if made is None:
        raise BadSettings(tuple(filler.problems))
    return made


class BadSettings(ConfigError):
    """Every problem at once: on one line as a message, one by one in `problems`."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def _fields(schema: type) -> dict[str, Any]:
    return get_type_hints(schema, include_extras=True)


class _Filler:
    def __init__(self, root: type, fetch: FetchSecret) -> None:
        self._every_key = [".".join(path) for path in keys(root)]
        self._fetch = fetch
        self.problems: list[str] = []

    def section(self, schema: type[T], tree: Tree, path: tuple[str, ...], fixed: Mapping[str, object]) -> T | None:
        """The section, or None when there are problems."""
        kinds = {name: kind for name, kind in _fields(schema).items() if name not in fixed}
        values: dict[str, Any] = dict(fixed)
        before = len(self.problems)
        for name, given in tree.items():
            here = (*path, name)
            if name not in kinds:
                self._unknown(given, here, list(kinds))
            elif not is_dataclass(kinds[name]):
                self._leaf(values, name, given, here, kinds[name])
            elif given.section is not None or given.value is None:
                values[name] = self.section(kinds[name], given.section or {}, here, {})
            else:
                self._wrong(given, here, dict)
        return None if len(self.problems) > before else self._make(schema, values, tree, path)

    def _make(self, schema: type[T], values: dict[str, Any], tree: Tree, path: tuple[str, ...]) -> T | None:
        try:
            return schema(**values)
        except ConfigError as error:
            # The dataclass names the key first; only we know where it was written.
            named = str(error).split()[0]
            where = next((tree[name].where + ": " for name in tree if named == ".".join((*path, name))), "")
            self.problems.append(f"{where}{error}")
            return None

    def _leaf(self, values: dict[str, Any], name: str, given: Given, path: tuple[str, ...], kind: Any) -> None:
        try:
            values[name] = self._convert(given, path, kind)
        except msgspec.ValidationError:
            self._wrong(given, path, kind)
        except ConfigError as error:
            self.problems.append(f"{given.where}: {error}")

    def _convert(self, given: Given, path: tuple[str, ...], kind: Any) -> object:
        value = plain(given)
        if kind is Secret or Secret in get_args(kind):
            return None if value is None and kind is not Secret else self._fetch(".".join(path), value)
        if isinstance(value, float) and math.isnan(value):  # it passes every limit, because it compares to nothing
            raise msgspec.ValidationError
        return msgspec.convert(value, kind, strict=not given.from_text, dec_hook=_path)

    def _unknown(self, given: Given, path: tuple[str, ...], siblings: list[str]) -> None:
        name, above = path[-1], ".".join(path[:-1])
        same_name = [key for key in self._every_key if key.rpartition(".")[2] == name]
        hint = did_you_mean(name, siblings) if not same_name else f"; did you mean {same_name[0]}?"
        if above and hint and not same_name:
            hint = hint.replace("did you mean ", f"did you mean {above}.")
        known = f"; {above or 'the top level'} knows {', '.join(siblings)}"
        self.problems.append(f"{given.where}: unknown key {printable('.'.join(path))}{hint or known}")

    def _wrong(self, given: Given, path: tuple[str, ...], kind: Any) -> None:
        wanted = expected(kind)
        self.problems.append(f"{given.where}: {'.'.join(path)} must be {wanted}, not {got(plain(given))}")


def _path(kind: type, value: object) -> object:
    if kind is Path and isinstance(value, str) and value:
        return Path(value).expanduser()
    raise ValueError("not a path")
