"""The policy: it asks the stages in their order and combines their verdicts.

A deny ends it at once. Demands for approval add up, and the first one decides at the end. An allow ends nothing, so
that finance safety is always asked; it lifts what is only a default: a group's, or the tool's own. It lifts no rule, no
deny and no finance safety. Asking changes nothing and tells nobody: `announce.py` does that.
"""

from collections.abc import Iterable, Sequence
from typing import assert_never

from msgspec.structs import replace

from finclaw.errors import ConfigError
from finclaw.policy.groups import GROUPS, ToolGroup
from finclaw.policy.rule import Rule
from finclaw.policy.rule_book import RuleBook
from finclaw.policy.stages import FINANCE_SAFETY, STAGES, Stage, always_denies
from finclaw.policy.verdict import Judgement, PolicyContext, StageVerdict


class Policy:
    """May this tool run, for this person, with these arguments? The same question always has the same answer."""

    def __init__(
        self, rules: Iterable[Rule] = (), groups: Iterable[ToolGroup] = GROUPS, stages: Sequence[Stage] = STAGES
    ) -> None:
        """Raises ConfigError for stages without finance safety: the one in `stages.py`, not one of that name."""
        if not any(stage is FINANCE_SAFETY for stage in stages):
            raise ConfigError(
                "the policy's stages lack finance-safety, so money could move unasked; "
                "put finclaw.policy.stages.FINANCE_SAFETY among them, before default-policy"
            )
        self._stages = tuple(stages)
        self.book = RuleBook(rules, groups)
        self.may_deny_always = self.book.may_deny_always and all(stage in self._stages for stage in STAGES)
        """Only where every stage is asked can rules alone say that no call may run."""

    def prepare(self, tools: Iterable[str]) -> None:
        """Hold these names against the patterns now, so that no first call has to wait for it."""
        for name in tools:
            self.book.of(name)

    def always_denies(self, ctx: PolicyContext) -> bool:
        """Whether no call of this tool may run for this person, whatever the arguments."""
        return self.may_deny_always and always_denies(ctx, self.book)

    def judge(self, ctx: PolicyContext) -> Judgement:
        said: list[StageVerdict] = []
        for stage in self._stages:
            word = stage.evaluate(ctx, self.book)
            said.append(word)
            match word.verdict:
                case "deny":
                    return Judgement("deny", word.reason, word.stage, tuple(said))
                case "require-approval" | "allow" | "continue":
                    pass
                case _:
                    assert_never(word.verdict)
        return _settle(said)


def _settle(said: list[StageVerdict]) -> Judgement:
    """Of stages among which no deny was."""
    allowed = next((word for word in said if word.verdict == "allow" and not word.is_default), None)
    stages = tuple(said) if allowed is None else tuple(_lift(word, allowed.stage) for word in said)
    for word in stages:
        if word.verdict == "require-approval" and not word.lifted_by:
            return Judgement("require-approval", word.reason, word.stage, stages)
    decided = allowed or next((word for word in stages if word.verdict == "allow"), None)
    if decided is None:  # stages of one's own, of which none has an answer
        return Judgement("deny", "no stage of the policy allows it", stages[-1].stage, stages)
    return Judgement("allow", decided.reason, decided.stage, stages)


def _lift(word: StageVerdict, by: str) -> StageVerdict:
    return replace(word, lifted_by=by) if word.is_default and word.verdict == "require-approval" else word
