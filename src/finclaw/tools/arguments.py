"""Validation of a call's arguments against the tool's JSON Schema, before anybody acts on them."""

import asyncio
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from decimal import Decimal, InvalidOperation
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import msgspec
from msgspec import Struct

from finclaw.errors import ExtensionError, InvalidArguments
from finclaw.kernel.chunk import ToolSpec
from finclaw.redaction import hide_and_cut
from finclaw.redaction.redact import redact_for_display
from finclaw.text import shorten
from finclaw.tools.schema_limits import MOST_BITS, SchemaSize

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

_LONGEST_COMPLAINT = 300  # a complaint quotes the value, perhaps a whole page
_LONGEST_READ: Final = 4_000  # characters searched for secrets before the cut
_MOST_CHANGES_TOLD = 5
_MOST_COMPLAINTS: Final = 20  # the rest shows when the model tries again
_OFF_LOOP_ABOVE: Final = 400  # rules times values; fewer take a few milliseconds
_MOST_WORK: Final = 500_000  # rules times values, about 0.1 µs each: 50 ms
_LONG_INTEGER: Final = 1_000  # values that cost as much as one beyond 64 bits, which `uniqueItems` compares
_MOST_LISTED_WORK: Final = 10_000  # the validator finds all errors, 1.5 µs each, before it gives the first
_MOST_LISTED_CHARACTERS: Final = 60_000_000  # errors times characters: each error quotes its value
_LARGEST_PATTERN: Final = 2_000_000  # bytes of one, compiled in 8 ms
_LARGEST_PATTERNS: Final = 8_000_000  # bytes of all compiled patterns of one schema
_NOT_LINEAR: Final = re.compile(r"\(\?<?[=!]|\\[1-9k]")
_MOST_COMPILED: Final = 1_000  # schemas that are kept compiled


class Checked(Struct, frozen=True):
    """Arguments that fit. `changes` says in words which of them were read as another type than they were written."""

    args: dict[str, Any]
    changes: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """One line for the model, behind the result; empty when it wrote what it should."""
        if not self.changes:
            return ""
        changes = list(self.changes[:_MOST_CHANGES_TOLD])
        if len(self.changes) > _MOST_CHANGES_TOLD:
            changes.append(f"and {len(self.changes) - _MOST_CHANGES_TOLD} more")
        return f"[Arguments were read as another type than they were written: {'; '.join(changes)}]"


class CheckWork(NamedTuple):
    """The estimated cost of one check, in rules times values."""

    total: int
    is_too_much: bool
    is_listable: bool


class CompiledSchema:
    """A validator with an estimate of what using it costs. It is made once for each schema, whoever needs it.

    The size of the schema is kept by property: a rule for one property costs nothing for the others.
    """

    def __init__(self, name: str, schema: dict[str, Any]) -> None:
        self.validator: Final = _compile(name, schema)
        named: Any = schema.get("properties")
        self._properties = {name: SchemaSize(each, schema) for name, each in dict[str, Any](named or {}).items()}
        rest = {key: value for key, value in schema.items() if key not in ("properties", "$defs", "definitions")}
        self._rest = SchemaSize(rest, schema)

    def estimate(self, args: Mapping[str, Any]) -> CheckWork:
        checks = self._rest.rules
        reading = 0
        characters = 0
        for name, value in args.items():
            values, length = _measure(value)
            characters += len(name) + length
            checks += values * self._rest.rules
            if (own := self._properties.get(name)) is not None:
                checks += values * own.rules
                reading += length * own.reading
        total = checks + (reading + characters * self._rest.reading) // 10
        is_listable = checks <= _MOST_LISTED_WORK and checks * characters <= _MOST_LISTED_CHARACTERS
        return CheckWork(total, total > _MOST_WORK, is_listable)

    def list_complaints(self, args: Mapping[str, Any], work: CheckWork) -> list[str]:
        """What is wrong, each in a line for the model, the first twenty; empty for arguments that fit."""
        if self.validator.is_valid(args):
            return []
        if not work.is_listable:  # the validator gathers all of them before it gives the first
            return ["it does not fit the schema, and there is too much of it to say where; send fewer items at once"]
        return [_complaint(error) for error in islice(self.validator.iter_errors(args), _MOST_COMPLAINTS)]


def _measure(value: Any) -> tuple[int, int]:
    """Count the values and the characters of a JSON value. Counting ends where no check is allowed any more."""
    values = 0
    characters = 0
    waiting: list[Any] = [value]
    while waiting and values <= _MOST_WORK:
        node = waiting.pop()
        values += 1
        if isinstance(node, str):
            characters += len(node)
        elif isinstance(node, int) and node.bit_length() > 63:
            values += _LONG_INTEGER if node.bit_length() <= MOST_BITS else _MOST_WORK
        elif isinstance(node, list):
            waiting += cast("list[Any]", node)
        elif isinstance(node, dict):
            members = cast("dict[str, Any]", node)
            characters += sum(map(len, members))
            waiting += members.values()
    return values, characters


class ArgumentCheck:
    """Checks arguments, and keeps one compiled schema per tool name, replaced when the tool's schema is."""

    def __init__(self) -> None:
        self._compiled: dict[str, tuple[dict[str, Any], CompiledSchema]] = {}

    def check(self, spec: ToolSpec, args: Mapping[str, Any]) -> Checked:
        """Defaults and changed types become part of the arguments: policy, approvals and log see what runs."""
        compiled = self._schema(spec)
        complete = with_defaults(spec.input_schema, args)
        return _check(spec, compiled, complete, compiled.estimate(complete))

    async def check_off_loop(self, spec: ToolSpec, args: Mapping[str, Any]) -> Checked:
        compiled = self._schema(spec)
        complete = with_defaults(spec.input_schema, args)
        work = compiled.estimate(complete)
        if work.is_too_much or work.total <= _OFF_LOOP_ABOVE:
            return _check(spec, compiled, complete, work)
        return await asyncio.to_thread(partial(_check, spec, compiled, complete, work))

    def complaints(self, spec: ToolSpec, complete: Mapping[str, Any]) -> list[str]:
        """What is wrong, each in a line for the model. Raises ExtensionError for a schema that is none."""
        compiled = self._schema(spec)
        work = compiled.estimate(complete)
        if work.is_too_much:
            return [_TOO_MUCH]
        return compiled.list_complaints(complete, work)

    def _schema(self, spec: ToolSpec) -> CompiledSchema:
        schema, compiled = self._compiled.get(spec.name, (None, None))
        if compiled is None or schema is not spec.input_schema:
            compiled = compile_schema(spec)
            self._compiled[spec.name] = (spec.input_schema, compiled)
        return compiled


_TOO_MUCH: Final = (
    "it is too large to be checked against the schema of this tool; send fewer or shorter values at once, "
    "and no numbers of more than 19 digits"
)


def _check(spec: ToolSpec, compiled: CompiledSchema, complete: dict[str, Any], work: CheckWork) -> Checked:
    if work.is_too_much:
        raise InvalidArguments(f"Invalid input for {spec.name}: {_TOO_MUCH}.")
    if not (complaints := compiled.list_complaints(complete, work)):
        return Checked(complete)
    if work.is_listable:
        better, changes = coerce_arguments(complete, compiled.validator.iter_errors)
        better = with_defaults(spec.input_schema, better)
        after = compiled.estimate(better)
        if changes and not after.is_too_much and compiled.validator.is_valid(better):
            return Checked(better, changes)
    listed = "\n".join(f"- {each}" for each in complaints)
    raise InvalidArguments(f"Invalid input for {spec.name}:\n{listed}\nCorrect it and call the tool again.")


_compiled_schemas: Final[dict[bytes, CompiledSchema]] = {}


def compile_schema(spec: ToolSpec) -> CompiledSchema:
    """The tool's schema, compiled now or before. Raises ExtensionError for one that cannot be used."""
    written = json.dumps(spec.input_schema, separators=(",", ":"), default=repr)
    digest = hashlib.sha256(written.encode(errors="surrogatepass")).digest()
    if (found := _compiled_schemas.get(digest)) is None:
        found = CompiledSchema(spec.name, spec.input_schema)
        while len(_compiled_schemas) >= _MOST_COMPILED:
            _compiled_schemas.pop(next(iter(_compiled_schemas)), None)
        _compiled_schemas[digest] = found
    return found


def must_be_schema(spec: ToolSpec) -> None:
    """Raises ExtensionError unless the tool's arguments are described as one object that can be checked."""
    if spec.input_schema.get("type") != "object":
        raise ExtensionError(f"tool {spec.name!r}: its input schema must say `type: object`, for arguments have names")
    compile_schema(spec)


def with_defaults(schema: Mapping[str, Any], args: Mapping[str, Any]) -> dict[str, Any]:
    """A null where none may stand is left out, unless required: that is how models leave an argument out."""
    complete = dict(args)
    for name, part in cast("Mapping[str, Mapping[str, Any]]", schema.get("properties", {})).items():
        is_null = name in complete and complete[name] is None
        if is_null and name not in schema.get("required", ()) and _is_never_null(part):
            del complete[name]
        if name not in complete and "default" in part:
            complete[name] = deepcopy(part["default"])
        value = complete.get(name)
        if isinstance(value, dict) and "properties" in part:
            complete[name] = with_defaults(part, cast("dict[str, Any]", value))
    return complete


def _is_never_null(part: Mapping[str, Any]) -> bool:
    """Whether a property plainly takes no null; one whose schema says less is left to the validator."""
    kind = part.get("type")
    return (isinstance(kind, str) and kind != "null") or ("type" not in part and None not in part.get("enum", (None,)))


def _compile(name: str, schema: dict[str, Any]) -> "Validator":
    import jsonschema_rs  # noqa: PLC0415  start-up: 23 ms for every command line that calls no tool

    patterns = max(SchemaSize(schema, schema).patterns, 1)
    try:
        # Offline, because a schema from a stranger's server must not make us fetch addresses.
        # Formats count, because a date that is none would be found out only after a person has approved it.
        # Patterns are matched in linear time: without look-around and back-references.
        return jsonschema_rs.validator_for(
            schema,
            offline=True,
            validate_formats=True,
            formats={"decimal": _is_decimal},
            pattern_options=jsonschema_rs.RegexOptions(size_limit=min(_LARGEST_PATTERN, _LARGEST_PATTERNS // patterns)),
        )
    except jsonschema_rs.ValidationError as error:
        problem = _schema_problem(error)
        raise ExtensionError(f"tool {name!r} has an input schema that cannot be used: {problem}") from error
    except (ValueError, TypeError) as error:
        raise ExtensionError(f"tool {name!r} has an input schema that cannot be used: {error}") from error


def _schema_problem(error: "ValidationError") -> str:
    if not error.message.endswith('is not a "regex"'):
        return error.message
    pattern = str(error.instance)[:200]
    if _NOT_LINEAR.search(pattern):
        return f"its pattern {pattern!r} uses look-around or a back-reference, which is not supported"
    return f"its pattern {pattern!r} has a mistake or is too large"


def _is_decimal(text: str) -> bool:
    try:
        return Decimal(text).is_finite()
    except InvalidOperation:
        return False


def _complaint(error: "ValidationError") -> str:
    path = format_path(error.instance_path)
    message = error.message
    if len(message) > _LONGEST_COMPLAINT:
        # Half of a secret would be known by nobody for what it is: they are taken out before anything is cut.
        message = redact_for_display(hide_and_cut(message, _LONGEST_READ))[: _LONGEST_COMPLAINT - 1] + "…"
    return f"{path}: {message}" if path else message


_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
"""Of a length that every store and every API can hold."""
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?")
_DEEPEST: Final = 4  # rounds: what was JSON in a text may hold such texts itself
_LONGEST_SHOWN: Final = 60

Path = tuple[str | int, ...]
Errors = Callable[[dict[str, Any]], Iterable["ValidationError"]]
_UNCHANGED: Final = object()


def coerce_arguments(args: dict[str, Any], errors: Errors) -> tuple[dict[str, Any], tuple[str, ...]]:
    """A copy in which values of the wrong type have the right one, where that is exact; and each change in words."""
    better = deepcopy(args)
    changes: list[str] = []
    for _ in range(_DEEPEST):
        wanted = [each for error in errors(better) for each in _expected_types(error).items()]
        found = [change for path, types in wanted if (change := _mend(better, path, types))]
        if not found:
            break
        changes += found
    return better, tuple(changes)


def format_path(path: Iterable[str | int]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def _expected_types(error: "ValidationError") -> dict[Path, list[str]]:
    """The types that would do, by place. Of alternatives, such as a number or nothing, those of all."""
    kind: Any = error.kind
    if kind.name == "type":
        return {tuple(error.instance_path): list(kind.types)}
    wanted: dict[Path, list[str]] = {}
    if kind.name in ("anyOf", "oneOf"):
        for each in (inner for branch in kind.context for inner in branch):
            for path, types in _expected_types(each).items():
                wanted.setdefault(path, []).extend(types)
    return wanted


def _mend(args: dict[str, Any], path: Path, wanted: Sequence[str]) -> str:
    """Empty when there is nothing to be done."""
    if not path:
        return ""
    holder: Any = args
    for step in path[:-1]:
        holder = holder[step]
    value = holder[path[-1]]
    meant = _coerce_value(value, wanted)
    if meant is _UNCHANGED:
        return ""
    holder[path[-1]] = meant
    return f"{format_path(path)} {_format_value(value)} as {_format_value(meant)}"


def _coerce_value(value: Any, wanted: Sequence[str]) -> Any:
    if isinstance(value, str):
        for name, read in _READERS.items():
            if name in wanted and (meant := read(value)) is not _UNCHANGED:
                return meant
    if "array" in wanted and value is not None and not isinstance(value, list):
        return [value]
    return _UNCHANGED


def _integer(text: str) -> Any:
    return int(text) if _INTEGER.fullmatch(text) else _UNCHANGED


def _number(text: str) -> Any:
    if _INTEGER.fullmatch(text):
        return int(text)
    if not _NUMBER.fullmatch(text):
        return _UNCHANGED
    number = float(text)
    if Decimal(text) != Decimal(repr(number)):
        return _UNCHANGED
    return number


def _boolean(text: str) -> Any:
    return {"true": True, "false": False}.get(text, _UNCHANGED)


def _json(kind: type) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            found = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return _UNCHANGED
        return found if isinstance(found, kind) else _UNCHANGED

    return read


_READERS: Final[dict[str, Callable[[str], Any]]] = {
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "object": _json(dict),
    "array": _json(list),
}


def _format_value(value: Any) -> str:
    return shorten(json.dumps(value, ensure_ascii=False, default=str), _LONGEST_SHOWN)
