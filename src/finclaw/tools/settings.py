"""The tools' piece of the configuration."""

from dataclasses import dataclass, field

from finclaw.errors import ConfigError
from finclaw.policy.rule import Rule, compile_pattern
from finclaw.tools.guard_options import GuardChoice, GuardFor, GuardOptions

RuleSettings = Rule
"""A rule is written in the settings just as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsSettings:
    """Which tools may run for whom, and which the model sees."""

    rules: tuple[RuleSettings, ...] = ()
    """The policy, such as `{pattern: "order__*", verdict: deny, scope: channel, who: [telegram]}`. `finclaw explain
    tool NAME` shows what it comes to. A tool that moves money needs a person whatever stands here."""
    show: tuple[str, ...] = ()
    """Tools that the model always sees though their group is shown on demand only, by name or pattern."""
    guard: GuardOptions = field(default_factory=GuardOptions)
    """What is done to every result before the model reads it."""
    guards: tuple[GuardFor, ...] = ()
    """What is otherwise for some tools, such as `{tool: "market__history", shown: 30000}`; later ones win."""

    def __post_init__(self) -> None:
        try:
            for each in self.show:
                compile_pattern(each)
        except ConfigError as error:
            raise ConfigError(f"show is wrong: {error}") from error
        try:
            GuardChoice(self.guard, self.guards)
        except ConfigError as error:
            raise ConfigError(f"guards is wrong: {error}") from error
