"""Filling of a settings dataclass from a tree of values, with every problem reported at once."""

import math
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from finclaw.errors import ConfigError
from finclaw.redaction import Secret
from finclaw.redaction.redact import redact_for_display
from finclaw.text import did_you_mean

T = TypeVar("T")
FetchSecret = Callable[[str, object], Secret]
Tree = dict[str, "Given"]
"""A section of the settings. A section inside it is a Given whose value is a Tree."""


@dataclass(frozen=True, slots=True)
class Given:
    value: object  # A scalar, a list of Givens, or a Tree
    where: str  # for a person: `finclaw.yaml line 3`, `FINCLAW_WEB__PORT`, `the command line`
    from_text: bool = False  # it came as text whatever it means, so that "8787" may be a number

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


def keys(schema: type, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, kind in get_type_hints(schema, include_extras=True).items():
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


class _Filler:
    """Converts values by the types of a schema. A value with a problem becomes None, and no section is made then."""

    def __init__(self, root: type, fetch: FetchSecret) -> None:
        self._every_key = [".".join(path) for path in keys(root)]
        self._fetch = fetch
        self.problems: list[str] = []

    def section(self, schema: type[T], tree: Tree, path: tuple[str, ...], fixed: Mapping[str, object]) -> T | None:
        hints = get_type_hints(schema, include_extras=True)
        kinds = {name: kind for name, kind in hints.items() if name not in fixed}
        values: dict[str, Any] = dict(fixed)
        before = len(self.problems)
        for name, given in tree.items():
            if name in kinds:
                values[name] = self._value(given, (*path, name), kinds[name])
            else:
                self._report_unknown(given, (*path, name), list(kinds))
        if len(self.problems) > before:
            return None
        try:
            return schema(**values)
        except ConfigError as error:
            # The dataclass names the key first; only we know where it was written.
            named = str(error).split()[0]
            where = next((tree[name].where + ": " for name in tree if named in (name, ".".join((*path, name)))), "")
            above = ".".join((*path, "")) if named in tree else ""
            self.problems.append(f"{where}{above}{error}")
            return None

    def _value(self, given: Given, path: tuple[str, ...], kind: Any) -> Any:
        args = get_args(kind)
        if get_origin(kind) is tuple:
            return self._list(given, path, args[0])
        if get_origin(kind) is Mapping and (args[1] is Secret or is_dataclass(args[1])):
            return self._by_name(given, path, args[1])
        section = next((each for each in (kind, *args) if is_dataclass(each)), None)
        is_section = given.section is not None or (given.value is None and section is kind)
        if section is None or not is_section:
            return self._leaf(given, path, kind)
        if missing := _missing_field(section, given.section or {}):
            self.problems.append(f"{given.where}: {'.'.join(path)} needs {missing}")
            return None
        return self.section(cast("type[Any]", section), given.section or {}, path, {})

    def _list(self, given: Given, path: tuple[str, ...], kind: Any) -> tuple[Any, ...]:
        """Each item for itself: a complaint names its line. In a variable, commas stand between them."""
        items: object = [] if given.value is None else given.value
        if given.from_text:
            words = (word.strip() for word in str(given.value).split(","))
            items = [Given(word, given.where, from_text=True) for word in words if word]
        if not isinstance(items, list):
            self._report_wrong(given, path, tuple)
            return ()
        numbered = enumerate(cast("list[Given]", items), start=1)
        return tuple(self._value(item, (*path[:-1], f"{path[-1]}[{place}]"), kind) for place, item in numbered)

    def _by_name(self, given: Given, path: tuple[str, ...], kind: Any) -> dict[str, Any]:
        """Sections, or references to secrets, whose names are the person's own."""
        if given.section is None and given.value is not None:
            if kind is Secret:  # what stands there may be the secret itself
                wanted = "a section of `name: env:VARIABLE` lines, one for each"
                self.problems.append(f"{given.where}: {'.'.join(path)} must be {wanted}")
            else:
                self._report_wrong(given, path, dict)
        return {name: self._value(below, (*path, name), kind) for name, below in (given.section or {}).items()}

    def _leaf(self, given: Given, path: tuple[str, ...], kind: Any) -> Any:
        value = bare_value(given)
        try:
            if kind is Secret or (Secret in get_args(kind) and value is not None):
                return self._fetch(".".join(path), value)
            if isinstance(value, float) and math.isnan(value):  # it passes every limit, because it compares to nothing
                raise msgspec.ValidationError
            return msgspec.convert(value, kind, strict=not given.from_text, dec_hook=_path)
        except msgspec.ValidationError:
            self._report_wrong(given, path, kind)
        except ConfigError as error:
            self.problems.append(f"{given.where}: {error}")
        return None

    def _report_unknown(self, given: Given, path: tuple[str, ...], siblings: list[str]) -> None:
        above = ".".join(path[:-1])
        elsewhere = next((key for key in self._every_key if key.rpartition(".")[2] == path[-1]), None)
        hint = f"; did you mean {elsewhere}?"
        if elsewhere is None:
            hint = did_you_mean(path[-1], siblings).replace("mean ", f"mean {'.'.join((*path[:-1], ''))}", 1)
        known = f"; {above or 'the top level'} knows {', '.join(siblings)}"
        self.problems.append(f"{given.where}: unknown key {printable('.'.join(path))}{hint or known}")

    def _report_wrong(self, given: Given, path: tuple[str, ...], kind: Any) -> None:
        wanted = describe_type(kind)
        self.problems.append(f"{given.where}: {'.'.join(path)} must be {wanted}, not {got(bare_value(given))}")


def _missing_field(schema: Any, tree: Tree) -> str:
    """The first field that has no default and no value; but an unknown key, perhaps a misspelled one, comes first."""
    if not tree.keys() <= {each.name for each in fields(schema)}:
        return ""
    required = (each.name for each in fields(schema) if each.default is MISSING and each.default_factory is MISSING)
    return next((name for name in required if name not in tree), "")


def _path(kind: type, value: object) -> object:
    if kind is Path and isinstance(value, str) and value:
        return Path(value).expanduser()
    raise ValueError("not a path")


# ── descriptions of types and values for the author of a settings file ─────────────────────────────────────────


_NAMES: dict[object, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    Decimal: "a number",
    str: "text",
    Path: "a path",
    list: "a list",
    tuple: "a list",
    Mapping: "a section of `key: value` lines",
    dict: "a section of `key: value` lines",
    type(None): "nothing",
}


def describe_type(kind: Any) -> str:
    """What a setting of this type takes: "a whole number from 0 to 65535"."""
    origin = get_origin(kind)
    args = get_args(kind)
    if origin is Annotated:
        return describe_type(args[0]) + "".join(_limits(each) for each in args[1:] if isinstance(each, Meta))
    if origin is Literal:
        return "one of " + ", ".join(str(each) for each in args)
    if origin in (Union, types.UnionType):
        return " or ".join(describe_type(each) for each in args)
    if is_dataclass(kind):
        return describe_type(dict)
    return _NAMES.get(origin or kind, "something else")


def got(value: object) -> str:
    """A value as the person wrote it, with its kind where that is the point."""
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case str():
            return f'"{printable(value)}"'
        case int() | float():
            return str(value)
        case _:
            return _NAMES.get(type(value), f"{type(value).__name__} {printable(str(value))}")


def _limits(meta: Meta) -> str:
    if meta.ge is not None and meta.le is not None:
        return f" from {meta.ge} to {meta.le}"
    if meta.ge is not None:
        return f", {meta.ge} or more"
    if meta.gt is not None:
        return f", more than {meta.gt}"
    if meta.le is not None:
        return f", {meta.le} or less"
    return "" if meta.min_length is None else f" of {meta.min_length} to {meta.max_length} characters"


def printable(text: str, limit: int = 60) -> str:
    """A person's text on one line, whatever is in it. A key in the wrong place is not repeated, nor half of it."""
    safe = redact_for_display(text)
    shown = "".join(each if each.isprintable() else repr(each)[1:-1] for each in safe[:limit])
    return shown if len(safe) <= limit else f"{shown}…"
