"""Definition of a tool from a plain function: annotations are the schema, the docstring is what the model reads."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from inspect import Parameter
from pathlib import Path
from threading import Event
from typing import (
    Annotated,
    Any,
    Final,
    TypedDict,
    Unpack,
    assert_never,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

import msgspec
from msgspec import Meta, Struct, defstruct, field
from msgspec.structs import asdict, replace

from finclaw.errors import ExtensionError, InvalidArguments
from finclaw.kernel.chunk import ToolSpec
from finclaw.kernel.port import Isolation, Quote, ToolOutput, ToolScope
from finclaw.taint.origin import NEVER_OUR_OWN
from finclaw.tools.arguments import must_be_schema
from finclaw.tools.threads import ToolThreads
from finclaw.tools.time_limit import as_output
from finclaw.tools.worker import Home, home_of, run_in_process

Function = Callable[..., object]
Invoke = Callable[[Mapping[str, Any], ToolScope], object]
"""Calls the function with what the model wrote: its result, or an awaitable of it."""
CUSTOM: Final = "custom"
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]+")


class ToolOptions(TypedDict, total=False):
    """What must be known of a tool before it runs; `kernel/port.py` says what each means."""

    group: str
    transactional: bool
    parallel_safe: bool
    timeout: float
    approval: bool
    sensitive: bool
    changes: bool
    own_results: bool
    upstream: str
    isolation: Isolation
    quote: Quote


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinedTool:
    spec: ToolSpec
    group: str = CUSTOM
    transactional: bool = False
    parallel_safe: bool = True
    timeout: float = 30.0
    approval: bool = False
    sensitive: bool = False
    changes: bool = False
    own_results: bool = False
    upstream: str = ""
    isolation: Isolation = "loop"
    quote: Quote | None = None
    function: Function
    invoke: Invoke
    home: Home | None = None  # where a process of its own finds the function

    async def run(self, args: Mapping[str, Any], scope: ToolScope) -> ToolOutput:
        match self.isolation:
            case "loop":
                given = self.invoke(args, scope)
                if inspect.isawaitable(given):
                    given = await given
                return as_output(given)
            case "thread":
                stop = Event()
                work = partial(self.invoke, args, replace(scope, stop=stop))
                return as_output(await ToolThreads.here().run(self.spec.name, work, stop.set))
            case "process":
                assert self.home is not None, "looked for when it was defined"
                return await run_in_process(self.home, self.spec.name, args, scope, self.timeout)
            case _:
                assert_never(self.isolation)


@overload
def tool(function: Function, /) -> DefinedTool: ...
@overload
def tool(
    name: str | None = None, description: str | None = None, **options: Unpack[ToolOptions]
) -> Callable[[Function], DefinedTool]: ...
def tool(
    name: str | Function | None = None, description: str | None = None, **options: Unpack[ToolOptions]
) -> DefinedTool | Callable[[Function], DefinedTool]:
    """Make a tool of `async def quote(symbol: str, days: int = 5, *, scope: ToolScope) -> str`.

    Every parameter is an argument, but for the one annotated with ToolScope, which need not be there. A function whose
    only argument is a msgspec Struct takes the struct's fields as its arguments. What the model must know of one
    belongs into the `Args:` of the docstring, or into `Annotated[..., Meta(description=...)]`; the description
    is the docstring's first paragraph unless given. Without a name, `quote` in market.py is `market__quote`.

    A plain `def` may block: it runs in a thread, and looks at `scope.stopped()` if it takes long. What it returns is
    text, or anything that JSON can hold; only a ToolOutput brings facts along. Raises ExtensionError for what cannot
    be told to a model.
    """
    if not (name is None or isinstance(name, str)):
        return _define_from_signature(name, None, None, {})
    return lambda function: _define_from_signature(function, name, description, options)


def raw_tool(
    name: str, description: str, input_schema: dict[str, Any], function: Function, **options: Unpack[ToolOptions]
) -> DefinedTool:
    """A tool whose schema somebody else wrote. The function takes the checked arguments as a dict, and the scope."""
    must_be_schema(ToolSpec(name, description, input_schema))
    return _build_tool(ToolSpec(name, description, input_schema), function, function, options)


def _define_from_signature(
    function: Function, name: str | None, description: str | None, options: ToolOptions
) -> DefinedTool:
    if name is None:
        name = _name_of(function)
    if description is None:
        description = read_docstring(function).description
    if not description:
        raise ExtensionError(f"tool {name!r}: say in its docstring what it does; a model knows no more of it than that")
    try:
        signature = _read_signature(name, function)
    except ExtensionError as error:
        raise ExtensionError(f"tool {name!r}: {error}") from error
    return _build_tool(
        ToolSpec(name, description, signature.schema), function, partial(signature.call, function), options
    )


def _build_tool(spec: ToolSpec, function: Function, invoke: Invoke, options: ToolOptions) -> DefinedTool:
    if unknown := options.keys() - ToolOptions.__annotations__.keys():
        known = ", ".join(ToolOptions.__annotations__)
        raise ExtensionError(f"tool {spec.name!r}: there is no {', '.join(sorted(unknown))}; there is {known}")
    if options.get("own_results") and options.get("group", CUSTOM) in NEVER_OUR_OWN:
        raise ExtensionError(
            f"tool {spec.name!r}: what the group {options.get('group')} reads is never one's own; take away own_results"
        )
    settled = options.copy()
    is_async = inspect.iscoroutinefunction(function)
    isolation = options.get("isolation", "loop" if is_async else "thread")
    settled["isolation"] = isolation
    if isolation == "thread" and is_async:
        raise ExtensionError(f"tool {spec.name!r}: what runs in a thread is a plain function; take away its `async`")
    # Two orders side by side have no order, so whoever moves money is never run beside another call.
    settled["parallel_safe"] = options.get("parallel_safe", True) and not options.get("transactional", False)
    home = None
    if isolation == "process":
        home = home_of(spec.name, function, raw=invoke is function)
    return DefinedTool(spec=spec, function=function, invoke=invoke, home=home, **settled)


def _name_of(function: Function) -> str:
    """`market__quote` for `quote` in market.py; a name that has two underscores inside is taken as it is."""
    code = getattr(function, "__code__", None)
    own = str(getattr(function, "__name__", "")).strip("_")
    if code is None or not own.isidentifier():
        raise ExtensionError(f"{function!r} has no name to call the tool by; give one: @tool('resource__tool')")
    if "__" in own:
        return own
    file = Path(cast("str", code.co_filename))
    resource = file.stem
    if resource == "__init__":
        resource = file.parent.name
    return f"{_NOT_IN_NAMES.sub('_', resource).strip('_')}__{own}"


class Signature(Struct, frozen=True):
    tool: str
    arguments: type[Struct]
    schema: dict[str, Any]
    whole: bool  # the function takes the struct itself, and not its fields
    scope: str  # the parameter that takes the scope; empty: none does

    def call(self, function: Function, args: Mapping[str, Any], scope: ToolScope) -> object:
        """Raises InvalidArguments, before the function begins."""
        try:
            given = msgspec.convert(args, self.arguments, str_keys=True)
        except msgspec.ValidationError as error:
            raise InvalidArguments(f"Invalid input for {self.tool}: {error}. Correct it and call again.") from error
        named: dict[str, object] = {}
        if self.scope:
            named[self.scope] = scope
        if self.whole:
            return function(given, **named)
        return function(**asdict(given), **named)


def _read_signature(name: str, function: Function) -> Signature:
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError, SyntaxError) as error:
        raise ExtensionError(f"{error}; import what its annotations name where the module can see it") from error
    parameters = inspect.signature(function).parameters
    scope = next((each for each in parameters if hints.get(each) is ToolScope), "")
    if not scope and "scope" in parameters and "scope" not in hints:
        scope = "scope"  # by its name alone, for those who do not annotate what no model sees
    own = [each for each in parameters.values() if each.name != scope]
    for parameter in own:
        _must_be_an_argument(parameter, hints)
    only = hints[own[0].name] if len(own) == 1 else None
    if isinstance(only, type) and issubclass(only, Struct):
        return Signature(name, only, _struct_schema(only), True, scope)
    arguments = _struct(name, own, hints)
    return Signature(name, arguments, _add_descriptions(input_schema(arguments), function, hints, scope), False, scope)


@lru_cache(maxsize=256)
def _struct_schema(arguments: type[Struct]) -> dict[str, Any]:
    """The schema of a struct of somebody's own, computed once: every gateway in a process has the same tools."""
    return input_schema(arguments)


def _must_be_an_argument(parameter: Parameter, hints: Mapping[str, Any]) -> None:
    if parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
        raise ExtensionError(f"a model cannot fill in *{parameter.name}; name its arguments one by one")
    if parameter.kind is Parameter.POSITIONAL_ONLY:
        raise ExtensionError(f"{parameter.name!r} must be known by its name; take away the '/' behind it")
    if parameter.name == "self":
        raise ExtensionError("make a tool from the bound method: tool(...)(self.method)")
    if parameter.name not in hints:
        raise ExtensionError(f"annotate {parameter.name!r} with a type, or nobody can tell the model what goes there")


def _struct(name: str, parameters: list[Parameter], hints: Mapping[str, Any]) -> type[Struct]:
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for parameter in parameters:
        kind = hints[parameter.name]
        if parameter.default is Parameter.empty:
            fields.append((parameter.name, kind))
        else:
            _must_fit(parameter, kind)
            fields.append((parameter.name, kind, parameter.default))
    try:
        return defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)
    except TypeError as error:
        raise ExtensionError(f"{error}. A default that can be changed must be empty, or a tuple") from error


def _must_fit(parameter: Parameter, kind: Any) -> None:
    """A default that its own annotation forbids would be told to the model, and then refused."""
    try:
        msgspec.convert(msgspec.to_builtins(parameter.default), kind, str_keys=True)
    except (TypeError, msgspec.ValidationError) as error:
        raise ExtensionError(
            f"the default of {parameter.name!r} does not fit its annotation: {error}. "
            "Write `… | None` where nothing may stand"
        ) from error


def _add_descriptions(
    schema: dict[str, Any], function: Function, hints: Mapping[str, Any], scope: str
) -> dict[str, Any]:
    properties: dict[str, dict[str, Any]] = schema.get("properties", {})
    for name, text in read_docstring(function).arguments.items():
        if name == scope:
            continue
        if name not in properties:
            raise ExtensionError(f"its docstring describes {name!r}, which is none of its arguments")
        if text and not _has_words(hints[name]):
            properties[name]["description"] = text
    return schema


def _has_words(hint: Any) -> bool:
    """Said beside the annotation, which is nearer to the argument than a docstring."""
    if get_origin(hint) is not Annotated:
        return False
    return any(isinstance(each, Meta) and each.description for each in get_args(hint)[1:])


_HEADING: Final = re.compile(r"(?:Args|Arguments|Parameters):\s*")
_ARGUMENT: Final = re.compile(r"\*{0,2}(?P<name>\w+)\s*(?:\([^)]*\))?:\s*+(?P<text>.*)")


class ToolDocstring(Struct, frozen=True):
    description: str
    arguments: dict[str, str] = field(default_factory=dict[str, str])


def read_docstring(function: Callable[..., object]) -> ToolDocstring:
    lines = (inspect.getdoc(function) or "").splitlines()
    heading = next((place for place, line in enumerate(lines) if _HEADING.fullmatch(line)), len(lines))
    paragraph: list[str] = []
    for line in lines[:heading]:
        if not line.strip():
            break
        paragraph.append(line.strip())
    return ToolDocstring(" ".join(paragraph), _arguments(lines[heading + 1 :]))


def _arguments(lines: list[str]) -> dict[str, str]:
    """Each entry begins at the indentation of the first; what stands deeper goes on with it. The block ends with it."""
    found: dict[str, str] = {}
    indent = 0
    name = ""
    for line in lines:
        depth = len(line) - len(line.lstrip())
        if not line.strip():
            continue
        if depth == 0:
            break
        indent = indent or depth
        entry = _ARGUMENT.fullmatch(line.strip())
        if entry is not None and depth <= indent:
            name = entry["name"]
            found[name] = entry["text"].strip()
        elif name:
            found[name] = f"{found[name]} {line.strip()}".strip()
    return found


_DEFS = "#/$defs/"
_VALUES = frozenset({"default", "enum", "const", "examples"})
"""Keywords that hold values, and no schemas."""
_NOTHING: tuple[str, list[Any]] = ("required", [])


def input_schema(arguments: type[Struct]) -> dict[str, Any]:
    """The struct as one self-contained object schema. Models and their APIs read `$ref` badly or not at all."""
    try:
        schema = msgspec.json.schema(arguments)
    except TypeError as error:
        why = str(error).splitlines()[-1]  # the lines before are for those who call msgspec themselves
        raise ExtensionError(
            f"{why}, for there is no JSON for it; use text, numbers, bool, Decimal, date, Enum, Literal, lists, "
            "dicts, Structs or dataclasses"
        ) from error
    return _shorten(_close(_inline(schema, schema.get("$defs", {}), ())))


def _map_schemas(node: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """The node with the schemas in it changed, itself or those of a list; `change` goes deeper."""
    if isinstance(node, list):
        return [_map_schemas(each, change) for each in cast("list[Any]", node)]
    return change(cast("dict[str, Any]", node)) if isinstance(node, dict) else node


def _shorten(schema: dict[str, Any]) -> dict[str, Any]:
    """Drop what no model needs and every call would pay for, such as null beside a default of null."""
    kept = [(key, each) for key, each in schema.items() if (key, each) != _NOTHING]
    short = {key: each if key in _VALUES else _map_schemas(each, _shorten) for key, each in kept}
    if "default" in short and short["default"] is None and isinstance(short.get("anyOf"), list):
        rest = [each for each in short.pop("anyOf") if each != {"type": "null"}]
        short.pop("default")
        return {**rest[0], **short} if len(rest) == 1 else {**short, "anyOf": rest}
    return short


def _close(schema: dict[str, Any]) -> dict[str, Any]:
    """Close every struct: an undeclared argument would be shown on an approval's card, and then be ignored."""
    closed = {key: each if key in _VALUES else _close_keyword(key, each) for key, each in schema.items()}
    if "properties" in closed:
        closed.setdefault("additionalProperties", False)
    if "prefixItems" in closed and "items" not in closed:
        closed.setdefault("maxItems", len(closed["prefixItems"]))
    return closed


def _close_keyword(key: str, value: Any) -> Any:
    if key != "properties":
        return _map_schemas(value, _close)
    return {name: _map_schemas(each, _close) for name, each in cast("dict[str, Any]", value).items()}


def _inline(schema: dict[str, Any], defs: Mapping[str, Any], inside: tuple[str, ...]) -> dict[str, Any]:
    if "$ref" not in schema:
        inline = partial(_inline, defs=defs, inside=inside)
        return {key: _map_schemas(value, inline) for key, value in schema.items()}
    target = str(schema["$ref"]).removeprefix(_DEFS)
    if target in inside:
        raise ExtensionError(f"arguments {target!r} contain themselves; a tool's arguments must end somewhere")
    # Beside a reference stand its own words, which say more than the type's. A struct's title is only its class name.
    beside = {key: value for key, value in schema.items() if key not in ("$ref", "$defs")}
    named = {key: value for key, value in defs[target].items() if key != "title"}
    return _inline({**named, **beside}, defs, (*inside, target))
