"""Errors of an expression, with the character where it is wrong."""

from finclaw.errors import ToolError


class CannotCalculate(ToolError):
    """`at` counts from one, as a person does."""

    def __init__(self, at: int, why: str, *, suggestion: str | None = None) -> None:
        super().__init__(f"at character {at}: {why}", suggestion=suggestion)
        self.at = at
