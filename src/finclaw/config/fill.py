"""Filling of a settings dataclass from a tree of values, with every problem reported at once."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

import msgspec

from finclaw.config.given import Given, Tree, bare_value
from finclaw.config.words import describe_type, did_you_mean, got, printable
from finclaw.errors import ConfigError
from finclaw.redaction import Secret
from finclaw.redaction.redact import redact_for_display

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
    """Every problem at once: on one line as a message, one by one in `problems`. None repeats a secret."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = tuple(map(redact_for_display, problems))
        super().__init__("; ".join(self.problems))


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
                self._report_unknown(given, here, list(kinds))
            elif get_origin(kinds[name]) is tuple:
                values[name] = self._list(given, here, get_args(kinds[name])[0])
            elif (each := _section_of_each(kinds[name])) is not None:
                values[name] = self._by_name(given, here, each)
            elif is_secrets(kinds[name]):
                values[name] = self._secrets(given, here)
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
            where = next((tree[name].where + ": " for name in tree if named in (name, ".".join((*path, name)))), "")
            above = ".".join(path) + "." if named in tree and path else ""
            self.problems.append(f"{where}{above}{error}")
            return None

    def _leaf(self, values: dict[str, Any], name: str, given: Given, path: tuple[str, ...], kind: Any) -> None:
        try:
            values[name] = self._convert(given, path, kind)
        except msgspec.ValidationError:
            self._wrong(given, path, kind)
        except ConfigError as error:
            self.problems.append(f"{given.where}: {error}")

    def _by_name(self, given: Given, path: tuple[str, ...], kind: type) -> dict[str, Any]:
        """Sections whose names are the person's own."""
        if given.section is None and given.value is not None:
            self._wrong(given, path, dict)
        values: dict[str, Any] = {}
        for name, below in (given.section or {}).items():
            if below.section is None and below.value is not None:
                self._wrong(below, (*path, name), dict)
            elif missing := _missing_field(kind, below.section or {}):
                self.problems.append(f"{below.where}: {'.'.join((*path, name))} needs {missing}")
            else:
                values[name] = self.section(kind, below.section or {}, (*path, name), {})
        return values

    def _secrets(self, given: Given, path: tuple[str, ...]) -> dict[str, Any]:
        """References under names of the person's own. What stands in their place may be a secret: none is repeated."""
        if given.section is None and given.value is not None:
            key = ".".join(path)
            self.problems.append(f"{given.where}: {key} must be a section of `name: env:VARIABLE` lines, one for each")
        values: dict[str, Any] = {}
        for name, below in (given.section or {}).items():
            self._leaf(values, name, below, (*path, name), Secret)
        return values

    def _list(self, given: Given, path: tuple[str, ...], kind: Any) -> tuple[Any, ...]:
        """Each item for itself: a complaint names its line. In a variable, commas stand between them."""
        items = given.value
        if given.from_text:
            words = (word.strip() for word in str(given.value).split(","))
            items = [Given(word, given.where, from_text=True) for word in words if word]
        if items is not None and not isinstance(items, list):
            self._wrong(given, path, tuple)
            return ()
        values: dict[str, Any] = {}
        for place, item in enumerate(cast("list[Given]", items or []), start=1):
            self._item(values, item, (*path[:-1], f"{path[-1]}[{place}]"), kind)
        return tuple(values.values())

    def _item(self, values: dict[str, Any], given: Given, path: tuple[str, ...], kind: Any) -> None:
        section = next((each for each in (kind, *get_args(kind)) if is_dataclass(each)), None)
        if section is None or given.section is None:
            self._leaf(values, path[-1], given, path, kind)
        elif missing := _missing_field(section, given.section):
            self.problems.append(f"{given.where}: {'.'.join(path)} needs {missing}")
        else:
            values[path[-1]] = self.section(cast("type", section), given.section, path, {})

    def _convert(self, given: Given, path: tuple[str, ...], kind: Any) -> object:
        value = bare_value(given)
        if kind is Secret or Secret in get_args(kind):
            return None if value is None and kind is not Secret else self._fetch(".".join(path), value)
        if isinstance(value, float) and math.isnan(value):  # it passes every limit, because it compares to nothing
            raise msgspec.ValidationError
        return msgspec.convert(value, kind, strict=not given.from_text, dec_hook=_path)

    def _report_unknown(self, given: Given, path: tuple[str, ...], siblings: list[str]) -> None:
        name, above = path[-1], ".".join(path[:-1])
        same_name = [key for key in self._every_key if key.rpartition(".")[2] == name]
        hint = did_you_mean(name, siblings) if not same_name else f"; did you mean {same_name[0]}?"
        if above and hint and not same_name:
            hint = hint.replace("did you mean ", f"did you mean {above}.")
        known = f"; {above or 'the top level'} knows {', '.join(siblings)}"
        self.problems.append(f"{given.where}: unknown key {printable('.'.join(path))}{hint or known}")

    def _wrong(self, given: Given, path: tuple[str, ...], kind: Any) -> None:
        wanted = describe_type(kind)
        self.problems.append(f"{given.where}: {'.'.join(path)} must be {wanted}, not {got(bare_value(given))}")


def is_secrets(kind: Any) -> bool:
    """Whether it is a mapping to secrets."""
    return get_origin(kind) is Mapping and get_args(kind)[1] is Secret


def _section_of_each(kind: Any) -> type | None:
    """Of a mapping to sections, what they are; None for anything else."""
    below = get_args(kind)[1] if get_origin(kind) is Mapping else None
    return below if is_dataclass(below) and isinstance(below, type) else None


def _missing_field(schema: Any, tree: Tree) -> str:
    """The first field that has no default and no value; but an unknown key, perhaps a misspelled one, comes first."""
    if not tree.keys() <= _fields(schema).keys():
        return ""
    required = (each.name for each in fields(schema) if each.default is MISSING and each.default_factory is MISSING)
    return next((name for name in required if name not in tree), "")


def _path(kind: type, value: object) -> object:
    if kind is Path and isinstance(value, str) and value:
        return Path(value).expanduser()
    raise ValueError("not a path")
