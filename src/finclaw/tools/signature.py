"""A function's parameters as a tool's arguments: each becomes a field of a struct, and the struct is the schema."""

import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache
from inspect import Parameter
from typing import Annotated, Any, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct, defstruct

from finclaw.errors import ExtensionError, InvalidArguments
from finclaw.kernel.port import ToolScope
from finclaw.tools.docstring import read_docstring
from finclaw.tools.schema import input_schema

Function = Callable[..., object]


class Signature(Struct, frozen=True):
    """How to call a function with what a model wrote."""

    tool: str
    arguments: type[Struct]
    schema: dict[str, Any]
    whole: bool
    """The function takes the struct itself, and not its fields."""
    scope: str
    """The parameter that takes the scope; empty: none does."""

    def call(self, function: Function, args: Mapping[str, Any], scope: ToolScope) -> object:
        """Raises InvalidArguments, before the function begins."""
        given = self._read(args)
        named: dict[str, object] = {self.scope: scope} if self.scope else {}
        if self.whole:
            return function(given, **named)
        return function(**{name: getattr(given, name) for name in given.__struct_fields__}, **named)

    def _read(self, args: Mapping[str, Any]) -> Struct:
        try:
            return msgspec.convert(args, self.arguments, str_keys=True)
        except msgspec.ValidationError as error:
            raise InvalidArguments(f"Invalid input for {self.tool}: {error}. Correct it and call again.") from error


def signature_of(name: str, function: Function) -> Signature:
    """Raises ExtensionError for what no model could fill in, with what to do about it."""
    try:
        return _read(name, function)
    except ExtensionError as error:
        raise ExtensionError(f"tool {name!r}: {error}") from error


def _read(name: str, function: Function) -> Signature:
    hints = _hints(function)
    parameters = inspect.signature(function).parameters
    scope = next((each for each in parameters if hints.get(each) is ToolScope), "")
    if not scope and "scope" in parameters and "scope" not in hints:
        scope = "scope"  # by its name alone, for those who do not annotate what no model sees
    own = [each for each in parameters.values() if each.name != scope]
    for parameter in own:
        _must_be_an_argument(parameter, hints)
    whole = len(own) == 1 and _is_struct(hints[own[0].name])
    if whole:
        arguments = cast("type[Struct]", hints[own[0].name])
        return Signature(name, arguments, _struct_schema(arguments), whole, scope)
    arguments = _struct(name, own, hints)
    return Signature(name, arguments, _add_descriptions(input_schema(arguments), function, hints, scope), whole, scope)


@lru_cache(maxsize=256)
def _struct_schema(arguments: type[Struct]) -> dict[str, Any]:
    """The schema of a struct of somebody's own, computed once: every gateway in a process has the same tools."""
    return input_schema(arguments)


def _hints(function: Function) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, TypeError, SyntaxError) as error:
        raise ExtensionError(f"{error}; import what its annotations name where the module can see it") from error


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
    told = read_docstring(function).arguments
    properties: dict[str, dict[str, Any]] = schema.get("properties", {})
    for name, text in told.items():
        if name == scope:
            continue
        if name not in properties:
            raise ExtensionError(f"its docstring describes {name!r}, which is none of its arguments")
        if text and not _has_words(hints[name]):
            properties[name]["description"] = text
    return schema


def _has_words(hint: Any) -> bool:
    """Said beside the annotation, which is nearer to the argument than a docstring."""
    metadata = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return any(isinstance(each, Meta) and each.description for each in metadata)


def _is_struct(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)
