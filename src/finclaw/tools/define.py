"""Definition of a tool from a plain function: annotations are the schema, the docstring is what the model reads."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, Final, TypedDict, Unpack, assert_never, cast, overload

from msgspec.structs import replace

from finclaw.errors import ExtensionError
from finclaw.kernel.chunk import ToolSpec
from finclaw.kernel.port import Isolation, Quote, ToolOutput, ToolScope
from finclaw.taint.origin import NEVER_OUR_OWN
from finclaw.tools.arguments import must_be_schema
from finclaw.tools.signature import Function, read_docstring, signature_of
from finclaw.tools.threads import ToolThreads
from finclaw.tools.time_limit import as_output
from finclaw.tools.worker import Home, home_of, run_in_process

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
    """A function with everything that must be known before it runs."""

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
    home: Home | None = None
    """Where a process of its own finds the function."""

    async def run(self, args: Mapping[str, Any], scope: ToolScope) -> ToolOutput:
        match self.isolation:
            case "loop":
                given = self.invoke(args, scope)
                return as_output(await given if inspect.isawaitable(given) else given)
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
    description = read_docstring(function).description if description is None else description
    if not description:
        raise ExtensionError(f"tool {name!r}: say in its docstring what it does; a model knows no more of it than that")
    signature = signature_of(name, function)
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
    blocking = not inspect.iscoroutinefunction(function)
    isolation = settled["isolation"] = options.get("isolation", "thread" if blocking else "loop")
    if isolation == "thread" and not blocking:
        raise ExtensionError(f"tool {spec.name!r}: what runs in a thread is a plain function; take away its `async`")
    # Two orders side by side have no order, so whoever moves money is never run beside another call.
    settled["parallel_safe"] = options.get("parallel_safe", True) and not options.get("transactional", False)
    return DefinedTool(
        spec=spec,
        function=function,
        invoke=invoke,
        home=home_of(spec.name, function, raw=invoke is function) if isolation == "process" else None,
        **settled,
    )


def _name_of(function: Function) -> str:
    """`market__quote` for `quote` in market.py; a name that has two underscores inside is taken as it is."""
    code = getattr(function, "__code__", None)
    own = str(getattr(function, "__name__", "")).strip("_")
    if code is None or not own.isidentifier():
        raise ExtensionError(f"{function!r} has no name to call the tool by; give one: @tool('resource__tool')")
    if "__" in own:
        return own
    file = Path(cast("str", code.co_filename))
    resource = file.parent.name if file.stem == "__init__" else file.stem
    return f"{_NOT_IN_NAMES.sub('_', resource).strip('_')}__{own}"
