"""How a plain async function becomes a tool: its arguments are a struct, and the struct is the schema."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any, Generic, TypeVar, cast, get_type_hints

import msgspec
from msgspec import Struct

from finclaw.errors import ExtensionError, InvalidArguments
from finclaw.kernel.chunk import ToolSpec
from finclaw.kernel.port import ToolOutput, ToolScope

A = TypeVar("A", bound=Struct)

ToolFunction = Callable[[A, ToolScope], Awaitable[ToolOutput]]

_DEFS = "#/$defs/"


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinedTool(Generic[A]):
    """A function with everything the house must know before it runs it."""

    spec: ToolSpec
    group: str
    transactional: bool
    parallel_safe: bool
    timeout: float
    arguments: type[A]
    function: ToolFunction[A]

    async def run(self, args: Mapping[str, Any], scope: ToolScope) -> ToolOutput:
        return await self.function(self._read(args), scope)

    def _read(self, args: Mapping[str, Any]) -> A:
        try:
            return msgspec.convert(args, self.arguments)
        except msgspec.ValidationError as error:
            raise InvalidArguments(
                f"Invalid input for {self.spec.name}: {error}. Correct it and call again."
            ) from error


def tool(
    name: str,
    description: str,
    *,
    group: str = "custom",
    transactional: bool = False,
    parallel_safe: bool = True,
    timeout: float = 30.0,
) -> Callable[[ToolFunction[A]], DefinedTool[A]]:
    """Turn `async def f(args: SomeStruct, scope: ToolScope) -> ToolOutput` into a tool.

    What the model must know about an argument belongs into `Annotated[..., Meta(description=...)]` of its field.
    """

    def define(function: ToolFunction[A]) -> DefinedTool[A]:
        arguments = _arguments_of(name, function)
        return DefinedTool(
            spec=ToolSpec(name, description, input_schema(arguments)),
            group=group,
            transactional=transactional,
            # Two orders side by side have no order, so whoever moves money is never run beside another call.
            parallel_safe=parallel_safe and not transactional,
            timeout=timeout,
            arguments=arguments,
            function=function,
        )

    return define


def input_schema(arguments: type[Struct]) -> dict[str, Any]:
    """The struct as one self-contained object schema. Models and their APIs read `$ref` badly or not at all."""
    schema = msgspec.json.schema(arguments)
    return cast("dict[str, Any]", _inline(schema, schema.get("$defs", {}), ()))


def _arguments_of(name: str, function: ToolFunction[A]) -> type[A]:
    first = next(iter(signature(function).parameters), "")
    arguments = get_type_hints(function).get(first)
    if not (isinstance(arguments, type) and issubclass(arguments, Struct)):
        raise ExtensionError(
            f"tool {name!r}: annotate its first parameter with a msgspec Struct that holds its arguments"
        )
    return cast("type[A]", arguments)


def _inline(node: Any, defs: Mapping[str, Any], inside: tuple[str, ...]) -> Any:
    if isinstance(node, list):
        return [_inline(each, defs, inside) for each in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    schema = cast("dict[str, Any]", node)
    if "$ref" not in schema:
        return {key: _inline(value, defs, inside) for key, value in schema.items()}
    target = str(schema["$ref"]).removeprefix(_DEFS)
    if target in inside:
        raise ExtensionError(f"arguments {target!r} contain themselves; a tool's arguments must end somewhere")
    # Beside a reference stand its own words, which say more than the type's. A struct's title is only its class name.
    beside = {key: value for key, value in schema.items() if key not in ("$ref", "$defs")}
    named = {key: value for key, value in defs[target].items() if key != "title"}
    return _inline({**named, **beside}, defs, (*inside, target))
