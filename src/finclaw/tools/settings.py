"""The tools' piece of the configuration."""

from dataclasses import dataclass

from finclaw.errors import ConfigError
from finclaw.tools.policy.pattern import compiled
from finclaw.tools.policy.rule import Rule

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

    def __post_init__(self) -> None:
        try:
            for each in self.show:
                compiled(each)
        except ConfigError as error:
            raise ConfigError(f"show is wrong: {error}") from error
