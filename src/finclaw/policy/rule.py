"""A rule of the operator: for whom, for which tools, with which arguments, and with which verdict."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, get_args

from msgspec import Meta

from finclaw.errors import ConfigError
from finclaw.policy.condition import Condition, Question, every, question
from finclaw.policy.pattern import Pattern, compile_pattern
from finclaw.policy.verdict import Verdict

Scope = Literal["global", "user", "role", "channel", "agent", "group", "tool"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
_FOR_EVERYBODY: Final = ("global", "tool")
_STRICTNESS: Final[Mapping[Verdict, int]] = {"deny": 0, "require-approval": 1, "allow": 2}


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the policy."""

    pattern: str
    """The tools it is about, such as `market__quote` or `order__*`."""
    verdict: Verdict
    """`deny` is final; `require-approval` asks a person; `allow` lifts what is only a default."""
    scope: Scope = "global"
    """Whom it is for: everybody (`global`, and `tool`, which is asked later), or those whom `who` names."""
    who: tuple[str, ...] = ()
    """The users (`web:owner`), roles, channels, agents or groups it is for. A deny or an approval for a user is also
    for the labels they speak under (`web:owner/label`); an allow is not."""
    when: tuple[Condition, ...] = ()
    """What must hold of the arguments, such as `{path: amount, op: gt, value: 1000}`; all of it."""
    priority: Annotated[int, Meta(ge=-1_000_000, le=1_000_000)] = 0
    """Between an allow and an approval of the same stage the higher one counts. A deny always does."""
    reason: str = ""
    """Why, for whoever is refused."""

    def __post_init__(self) -> None:
        compile_pattern(self.pattern)
        if self.scope in _FOR_EVERYBODY and self.who:
            raise ConfigError(f"who is for rules about somebody; scope {self.scope} is for everybody: leave it out")
        if self.scope not in _FOR_EVERYBODY and not (self.who and all(self.who)):
            raise ConfigError(f"scope {self.scope} needs `who`: name the {self.scope}s that this rule is for")
        if self.scope == "user" and self.verdict == "allow":
            self._must_be_told_apart()

    def _must_be_told_apart(self) -> None:
        """Two platforms may have the same id for different people. A deny may hit both; an allow must not."""
        for each in self.who:
            if ":" not in each:
                raise ConfigError(f"who names {each!r}; to allow something, say on which channel: web:{each}")
            if each.endswith("/"):
                raise ConfigError(f"who names {each!r}, which is nobody; write the whole id, with its label")

    def __str__(self) -> str:
        whom = f" for {self.scope} {', '.join(self.who)}" if self.who else ""
        when = f" when {' and '.join(map(str, self.when))}" if self.when else ""
        return f"{self.verdict} {self.pattern}{whom}{when}"


class PreparedRule:
    """A rule that costs little to ask."""

    __slots__ = ("_question", "order", "pattern", "reason", "rule", "verdict")

    def __init__(self, rule: Rule, place: int) -> None:
        self.rule = rule
        self.verdict: Verdict = rule.verdict
        self.pattern: Pattern = compile_pattern(rule.pattern)
        self.order = (-rule.priority, _STRICTNESS[rule.verdict], place)
        """Smallest first: the higher priority, then the stricter, then as they are written."""
        self.reason = rule.reason or f"rule: {rule}"
        self._question: Question | None = every(tuple(map(question, rule.when))) if rule.when else None

    def applies(self, args: Mapping[str, Any]) -> bool:
        """Where nobody can tell, the strict apply and the generous do not."""
        if self._question is None:
            return True
        answer = self._question(args)
        return self.verdict != "allow" if answer is None else answer
