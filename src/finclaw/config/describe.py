"""Descriptions of every setting, from the schema itself: its value, where that came from, and its docstring.

A docstring under a field is nothing that Python keeps, so it is read from the source: words in one place only.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from itertools import pairwise
from operator import attrgetter
from typing import Any, Final, cast, get_args, get_type_hints

from finclaw.agent.settings import ExtensionRef
from finclaw.config.fill import Given, Tree, describe_type
from finclaw.redaction import Secret, is_secret_name

DEFAULT = "default"
_ENVIRONMENTS: Final = ("env", "environment", "headers")
"""Sections whose values are for another program or server: most of what is given to one is a secret."""
_COMMANDS: Final = ("command", "args")
_HIDDEN: Final = "not-shown"
_ASSIGNED: Final = re.compile(r"(?P<name>-{0,2}[\w.-]+)=(?P<value>.+)", re.DOTALL)
_PASSWORD: Final = re.compile(r"(?<=://)([^/\s:@?#]*):[^/\s@?#]*@")
_IN_QUERY: Final = re.compile(r"([?&;#][^=&;#?\s]*)=[^&;#\s]*")


@dataclass(frozen=True, slots=True)
class Described:
    path: tuple[str, ...]
    default: object
    doc: str
    takes: str  # what may be written there, in words
    is_secret: bool

    @property
    def key(self) -> str:
        return ".".join(self.path)


@dataclass(frozen=True, slots=True)
class Effective:
    setting: Described
    value: object  # what counts; of a secret only whether there is one
    origin: str


def describe(schema: type, above: tuple[str, ...] = ()) -> Iterator[Described]:
    """Every single setting of a schema, in the order in which it is written down there."""
    kinds = get_type_hints(schema, include_extras=True)
    for field in fields(schema):
        kind: Any = kinds[field.name]
        if is_dataclass(kind):
            yield from describe(kind, (*above, field.name))  # pyright: ignore[reportArgumentType]
            continue
        default = None if field.default is MISSING else field.default
        if field.default_factory is not MISSING:
            default = field.default_factory()
        doc = docs(schema).get(field.name, "")
        is_secret = kind is Secret or Secret in get_args(kind)
        yield Described((*above, field.name), default, doc, describe_type(kind), is_secret)


def effective(settings: object, tree: Tree, fixed: Mapping[str, str]) -> Iterator[Effective]:
    """Every setting as it counts. `fixed` tells the origin of what is not the tree's business."""
    for setting in describe(type(settings)):
        value: Any = attrgetter(setting.key)(settings)
        if setting.is_secret:
            value = _whether(value)
        elif isinstance(value, Mapping):
            value = {name: _given_in(each) for name, each in cast("Mapping[str, object]", value).items()}
        elif isinstance(value, tuple):
            value = tuple(_as_written(each) for each in cast("tuple[object, ...]", value))
        yield Effective(setting, value, fixed.get(setting.key) or _origin(tree, setting.path))


def _whether(secret: object) -> str:
    return "not set" if secret is None or secret == {} else "set, not shown"


def _reference_or_whether(secret: object) -> object:
    """Show where a secret is kept, but not one that was written out."""
    is_reference = isinstance(secret, str) and secret.startswith(("env:", "file:"))
    return secret if is_reference else _whether(secret)


def _given_in(section: object) -> object:
    """What was set of a section that somebody named, its secrets left out."""
    if not is_dataclass(section):
        return section
    values = ((field.name, getattr(section, field.name)) for field in fields(section))
    return {name: _without_secrets(value) for name, value in values if value is not None and value != {}}


def _as_written(item: object) -> object:
    """An item of a list. Which of an extension's settings are secrets only the extension knows: its names tell."""
    if not isinstance(item, ExtensionRef):
        return item
    return {"use": item.use, "settings": _without_secrets(item.settings)}


def _without_secrets(value: object, name: str = "") -> object:
    if isinstance(value, Mapping):
        section = cast("Mapping[str, object]", value)
        if name in _ENVIRONMENTS:
            return {key: _reference_or_whether(each) for key, each in section.items()}
        return {key: _without_secrets(each, str(key)) for key, each in section.items()}
    if isinstance(value, list | tuple):
        items = cast("Sequence[object]", value)
        if name in _COMMANDS:
            items = _hide_arguments(items)
        return [_without_secrets(each, name) for each in items]
    if isinstance(value, Secret):
        return _whether(value)
    if isinstance(value, str):
        return _whether(value) if is_secret_name(name) else _hide_in_address(value)
    return value


@cache
def docs(schema: type) -> Mapping[str, str]:
    """The docstring under each field, on one line. Empty where the source was not installed with the program."""
    try:
        source = textwrap.dedent(inspect.getsource(schema))
    except OSError:
        return {}
    body = next(node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)).body
    found: dict[str, str] = {}
    for field, below in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
            found[ast.unparse(field.target)] = " ".join(str(ast.literal_eval(below.value)).split())
    return found


def _origin(tree: Tree, path: tuple[str, ...]) -> str:
    given = Given(tree, DEFAULT)
    for name in path:
        given = (given.section or {}).get(name, Given(None, DEFAULT))
    return given.where


# ── redaction of commands and addresses: secrets that somebody wrote into the file all the same ─────────────────


def _hide_arguments(command: Sequence[object]) -> list[object]:
    """A program's arguments without the values of options such as `--token`."""
    shown: list[object] = []
    follows_secret = False
    for word in command:
        text = word if isinstance(word, str) else ""
        is_option = text.startswith("-")
        assigned = _ASSIGNED.fullmatch(text)
        if follows_secret and isinstance(word, str) and not is_option:
            shown.append(_HIDDEN)
        elif assigned is not None and is_secret_name(assigned["name"]):
            shown.append(f"{assigned['name']}={_HIDDEN}")
        else:
            shown.append(word)
        follows_secret = is_option and is_secret_name(text)
    return shown


def _hide_in_address(text: str) -> str:
    """A web address without its password and without the values in its query."""
    if "://" not in text:
        return text
    return _IN_QUERY.sub(rf"\1={_HIDDEN}", _PASSWORD.sub(rf"\1:{_HIDDEN}@", text))
