"""Which guard a tool's results pass: one for all, and for some tools what the operator wants otherwise."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from finclaw.tools.guard.result import DEFAULT, GuardOptions
from finclaw.tools.policy.pattern import compiled

_READER: Final = "read_result"
"""It gives what a guard has kept aside, in parts of a size of their own; cut again, they would have no end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardFor:
    """What is otherwise for the results of some tools; what is left out is as for all."""

    tool: str
    """A tool's name, or a pattern such as `market__*`."""
    shown: int | None = None
    """The most characters the model is given."""
    stored: int | None = None
    """The most characters kept aside for `read_result`."""
    allow_html: bool | None = None
    """Leave markup in."""
    redact_finance: bool | None = None
    """Hide card, account and personal numbers."""

    def __post_init__(self) -> None:
        compiled(self.tool)

    def over(self, usual: GuardOptions) -> GuardOptions:
        return replace(
            usual,
            shown=usual.shown if self.shown is None else self.shown,
            stored=usual.stored if self.stored is None else self.stored,
            allow_html=usual.allow_html if self.allow_html is None else self.allow_html,
            redact_finance=usual.redact_finance if self.redact_finance is None else self.redact_finance,
        )


class GuardChoice:
    def __init__(self, usual: GuardOptions = DEFAULT, special: Sequence[GuardFor] = ()) -> None:
        """Of several that fit a tool the later has the last word. Raises ConfigError for limits that contradict."""
        self._usual = usual
        self._special = [(compiled(each.tool), each) for each in special]
        self._chosen: dict[str, GuardOptions] = {}
        for each in special:
            each.over(usual)

    def of(self, tool: str) -> GuardOptions:
        if tool not in self._chosen:
            self._chosen[tool] = self._choose(tool)
        return self._chosen[tool]

    def _choose(self, tool: str) -> GuardOptions:
        options = self._usual
        for pattern, special in self._special:
            options = special.over(options) if pattern.matches(tool) else options
        if tool != _READER or options.shown >= DEFAULT.shown:
            return options
        return replace(options, shown=DEFAULT.shown, stored=max(options.stored, DEFAULT.shown))
