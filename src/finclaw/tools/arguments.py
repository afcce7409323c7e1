"""Arguments as the model wrote them, checked against the tool's schema before anybody acts on them."""

from collections.abc import Mapping
from copy import deepcopy
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from finclaw.errors import ExtensionError, InvalidArguments
from finclaw.kernel.chunk import ToolSpec
from finclaw.tools.coercion import coerced, shown_path
from finclaw.tools.guard.told import without_secrets

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

_LONGEST_COMPLAINT = 300
"""A complaint quotes the value; a model that wrote a page by mistake need not read it again."""
_MOST_CHANGES_TOLD = 5


class Checked(Struct, frozen=True):
    """Arguments that fit. `changes` says in words which of them were read as another type than they were written."""

    args: dict[str, Any]
    changes: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """One line for the model, behind the result; empty when it wrote what it should."""
        if not self.changes:
            return ""
        more = len(self.changes) - _MOST_CHANGES_TOLD
        told = "; ".join(self.changes[:_MOST_CHANGES_TOLD]) + (f"; and {more} more" if more > 0 else "")
        return f"[Arguments were read as another type than they were written: {told}]"


class ArgumentCheck:
    """Checks arguments, and keeps one compiled validator per tool name, replaced when the tool's schema is."""

    def __init__(self) -> None:
        self._compiled: dict[str, tuple[dict[str, Any], Validator]] = {}

    def check(self, spec: ToolSpec, args: Mapping[str, Any]) -> Checked:
        """The arguments with the schema's defaults filled in. Raises InvalidArguments with everything that is wrong.

        Defaults and changed types become part of the arguments because policy, approvals and the log must see what
        will really run.
        """
        complete = with_defaults(spec.input_schema, args)
        if not (complaints := self.complaints(spec, complete)):
            return Checked(complete)
        better, changes = coerced(complete, self._validator(spec).iter_errors)
        better = with_defaults(spec.input_schema, better)
        if changes and not self.complaints(spec, better):
            return Checked(better, changes)
        listed = "\n".join(f"- {each}" for each in complaints)
        raise InvalidArguments(f"Invalid input for {spec.name}:\n{listed}\nCorrect it and call the tool again.")

    def complaints(self, spec: ToolSpec, complete: Mapping[str, Any]) -> list[str]:
        """Everything that is wrong, each in a line for the model. Raises ExtensionError for a schema that is none."""
        return [_complaint(error) for error in self._validator(spec).iter_errors(complete)]

    def _validator(self, spec: ToolSpec) -> "Validator":
        schema, validator = self._compiled.get(spec.name, (None, None))
        if validator is None or schema is not spec.input_schema:
            validator = _compile(spec)
            self._compiled[spec.name] = (spec.input_schema, validator)
        return validator


def must_be_schema(spec: ToolSpec) -> None:
    """Raises ExtensionError unless the tool's arguments are described as one object that can be checked."""
    if spec.input_schema.get("type") != "object":
        raise ExtensionError(f"tool {spec.name!r}: its input schema must say `type: object`, for arguments have names")
    _compile(spec)


def with_defaults(schema: Mapping[str, Any], args: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the arguments in which every absent property that has a default has it, in nested objects too."""
    complete = dict(args)
    for name, part in cast("Mapping[str, Mapping[str, Any]]", schema.get("properties", {})).items():
        if name not in complete and "default" in part:
            complete[name] = deepcopy(part["default"])
        value = complete.get(name)
        if isinstance(value, dict) and "properties" in part:
            complete[name] = with_defaults(part, cast("dict[str, Any]", value))
    return complete


def _compile(spec: ToolSpec) -> "Validator":
    # Imported with the first tool call: its 23 ms would be paid by every command line that calls none.
    import jsonschema_rs  # noqa: PLC0415

    try:
        # Offline, because a schema from a stranger's server must not make us fetch addresses.
        # Formats count, because a date that is none would be found out only after a person has approved it.
        return jsonschema_rs.validator_for(
            spec.input_schema, offline=True, validate_formats=True, formats={"decimal": _is_decimal}
        )
    except (jsonschema_rs.ValidationError, ValueError, TypeError) as error:
        why = error.message if isinstance(error, jsonschema_rs.ValidationError) else error
        raise ExtensionError(f"tool {spec.name!r} has an input schema that cannot be used: {why}") from error


def _is_decimal(text: str) -> bool:
    try:
        return Decimal(text).is_finite()
    except InvalidOperation:
        return False


def _complaint(error: "ValidationError") -> str:
    path = shown_path(error.instance_path)
    message = error.message
    if len(message) > _LONGEST_COMPLAINT:
        # Half of a secret would be known by nobody for what it is: they are taken out before anything is cut.
        message = without_secrets(message)[: _LONGEST_COMPLAINT - 1] + "…"
    return f"{path}: {message}" if path else message
