"""The tool policy: nine stages that judge a call, and the events that tell observers of a judgement.

    global-deny      denies for everybody
    global-allow     allows and approvals for everybody
    user-deny        denies for this user, or for a role of theirs
    user-allow       allows and approvals for this user, or for a role of theirs
    channel-policy   rules for the channel the call comes from, and for the agent that answers there
    group-policy     rules for the tool's group; without one, the group's default
    tool-policy      rules with scope `tool`; without one, what the tool's definition asks for
    finance-safety   what moves money needs a person, whatever was said before; what reads secrets is told
    default-policy   allow

A role is something a user has, so its rules stand with the user's; an agent is reached through a channel, so its rules
stand with the channel's. Inside a stage a deny comes first, whatever its priority; between an allow and an approval the
higher priority counts, and at the same priority the stricter one.

A deny ends it at once. Demands for approval add up, and the first one decides at the end. An allow ends nothing, so
that finance safety is always asked; it lifts what is only a default: a group's, or the tool's own. It lifts no rule, no
deny and no finance safety. Judging changes nothing and tells nobody; `announce` does.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, assert_never

from msgspec import Struct
from msgspec.structs import replace

from finclaw.errors import ConfigError
from finclaw.kernel.event import Emit, PolicyDenied, PolicyJudged
from finclaw.kernel.scope import Ids
from finclaw.policy.groups import COMMUNICATION, CUSTOM, GROUPS, WEB, ToolGroup
from finclaw.policy.rule import PreparedRule, Rule, RuleBook, Whom
from finclaw.policy.verdict import Judgement, PolicyContext, StageVerdict

log = logging.getLogger(__name__)

_EVERYBODY: Final[tuple[Whom, ...]] = (("global", ""),)
_TOOL: Final[tuple[Whom, ...]] = (("tool", ""),)


class Stage(Struct, frozen=True):
    """One of one's own may stand among them. What it raises ends the call: nothing runs unjudged."""

    name: str
    evaluate: Callable[[PolicyContext, RuleBook], StageVerdict]


def _apply_rule(stage: StageVerdict, rule: PreparedRule | None) -> StageVerdict:
    if rule is None:
        return stage
    return StageVerdict(stage.stage, rule.verdict, rule.reason)


# ── by rule ─────────────────────────────────────────────────────────────────────────────────────────────────

_GLOBAL_DENY: Final = StageVerdict("global-deny", "continue", "no deny for everybody")
_GLOBAL_ALLOW: Final = StageVerdict("global-allow", "continue", "no rule for everybody")
_USER_DENY: Final = StageVerdict("user-deny", "continue", "no deny for this user or their roles")
_USER_ALLOW: Final = StageVerdict("user-allow", "continue", "no rule for this user or their roles")
_OVERHEARD: Final = StageVerdict(
    "user-allow", "continue", "a rule allows it to this user, but others have written here and it may be their wish"
)
_CHANNEL: Final = StageVerdict("channel-policy", "continue", "no rule for this channel or agent")


def _global_deny(ctx: PolicyContext, book: RuleBook) -> StageVerdict:
    return _apply_rule(_GLOBAL_DENY, book.of(ctx.tool.name).deny(_EVERYBODY, ctx.args))


def _global_allow(ctx: PolicyContext, book: RuleBook) -> StageVerdict:
    return _apply_rule(_GLOBAL_ALLOW, book.of(ctx.tool.name).other(_EVERYBODY, ctx.args))


def _user_deny(ctx: PolicyContext, book: RuleBook) -> StageVerdict:
    return _apply_rule(_USER_DENY, book.of(ctx.tool.name).deny(_person(ctx), ctx.args))


def _user_allow(ctx: PolicyContext, book: RuleBook) -> StageVerdict:
    rule = book.of(ctx.tool.name).other(_person(ctx), ctx.args)
    if ctx.overheard and rule is not None and rule.verdict == "allow":
        return _OVERHEARD
    return _apply_rule(_USER_ALLOW, rule)


def _person(ctx: PolicyContext) -> Iterator[Whom]:
    """Strict rules also find somebody by the id without its channel, and by the id without its label."""
    users = [ctx.user]
    channel, colon, bare = ctx.user.partition(":")
    if colon and channel:
        users.append(bare)
    for user in users:
        yield "user", user
        holder, slash, _ = user.partition("/")
        if slash:
            yield "user", f"{holder}/"
    for role in ctx.roles:
        yield "role", role


def _channel(ctx: PolicyContext, book: RuleBook) -> StageVerdict:
    whom: tuple[Whom, ...] = (("channel", ctx.channel), ("agent", ctx.agent))
    return _apply_rule(_CHANNEL, book.of(ctx.tool.name).any(whom, ctx.args))


def always_denies(ctx: PolicyContext, book: RuleBook) -> bool:
    """Whether every call of the tool by this person is denied, whatever its arguments: it need not be offered to them.

    Only rules without a condition count, and a group's own default. Arguments in `ctx` are not read.
    """
    rules = book.of(ctx.tool.name)
    group = book.group(ctx.tool.group)
    groups: tuple[Whom, ...] = (("group", ctx.tool.group), ("group", group.id))
    channel: tuple[Whom, ...] = (("channel", ctx.channel), ("agent", ctx.agent))
    if rules.denies_always((*_EVERYBODY, *_person(ctx), *channel, *groups, *_TOOL)):
        return True
    return group.default_policy == "deny" and not rules.has_any(groups)


# ── by rule, or else by default ─────────────────────────────────────────────────────────────────────────────

_TOOL_SILENT: Final = StageVerdict("tool-policy", "continue", "no rule for this tool, and its definition asks for none")
_TOOL_DEFAULT: Final = StageVerdict(
    "tool-policy", "require-approval", "the tool's definition asks for approval", is_default=True
)
_CHANGE_FRESH: Final = StageVerdict(
    "tool-policy",
    "require-approval",
    "a stranger's text was read in this turn, so what changes the person's own things needs them",
)
_TOOL_FRESH: Final = StageVerdict(
    "tool-policy",
    "require-approval",
    "the tool's definition asks for approval, and a stranger's text was read in this turn",
)
_FRESH: Final = StageVerdict(
    "group-policy",
    "require-approval",
    "a stranger's text was read in this turn, so what is sent out needs a person",
)
_SENDS: Final = (COMMUNICATION.id, WEB.id)


def _group(ctx: PolicyContext, book: RuleBook) -> StageVerdict:
    group = book.group(ctx.tool.group)
    # What belongs to no known group is custom, and the rules for those are for it too.
    whom: tuple[Whom, ...] = (("group", ctx.tool.group), ("group", group.id))
    rule = book.of(ctx.tool.name).any(whom, ctx.args)
    if ctx.untrusted and group.id in _SENDS and (rule is None or rule.verdict != "deny"):
        return _FRESH
    if rule is not None:
        return StageVerdict("group-policy", rule.verdict, rule.reason)
    reason = f"default of group {ctx.tool.group}"
    if group.id != ctx.tool.group:
        reason += f" (taken as {CUSTOM.id})"
    return StageVerdict("group-policy", group.default_policy, reason, is_default=True)


def _tool(ctx: PolicyContext, book: RuleBook) -> StageVerdict:
    rule = book.of(ctx.tool.name).any(_TOOL, ctx.args)
    if ctx.untrusted and (rule is None or rule.verdict != "deny"):
        if ctx.tool.requires_approval:
            return _TOOL_FRESH
        if ctx.tool.changes:
            return _CHANGE_FRESH
    if ctx.tool.requires_approval:
        return _apply_rule(_TOOL_DEFAULT, rule)
    return _apply_rule(_TOOL_SILENT, rule)


# ── by nature ───────────────────────────────────────────────────────────────────────────────────────────────

_SAFE: Final = StageVerdict("finance-safety", "continue", "it moves no money")
_DEFAULT: Final = StageVerdict("default-policy", "allow", "what nobody forbids is allowed", is_default=True)


def _finance_safety(ctx: PolicyContext, _: RuleBook) -> StageVerdict:
    tool = ctx.tool
    if not (tool.transactional or tool.sensitive):
        return _SAFE
    warning = f"{tool.name} reads sensitive data" if tool.sensitive else ""
    if tool.transactional:
        reason = f"{tool.name} moves money or cannot be undone, so a person decides"
        return StageVerdict("finance-safety", "require-approval", reason, warning=warning)
    return StageVerdict("finance-safety", "continue", "it moves no money, and its use is logged", warning=warning)


FINANCE_SAFETY: Final = Stage("finance-safety", _finance_safety)
STAGES: Final = (
    Stage("global-deny", _global_deny),
    Stage("global-allow", _global_allow),
    Stage("user-deny", _user_deny),
    Stage("user-allow", _user_allow),
    Stage("channel-policy", _channel),
    Stage("group-policy", _group),
    Stage("tool-policy", _tool),
    FINANCE_SAFETY,
    Stage("default-policy", lambda ctx, book: _DEFAULT),
)


class Policy:
    """May this tool run, for this person, with these arguments? The same question always has the same answer."""

    def __init__(
        self, rules: Iterable[Rule] = (), groups: Iterable[ToolGroup] = GROUPS, stages: Sequence[Stage] = STAGES
    ) -> None:
        """Raises ConfigError for stages without finance safety: `FINANCE_SAFETY` itself, not one of that name."""
        if not any(stage is FINANCE_SAFETY for stage in stages):
            raise ConfigError(
                "the policy's stages lack finance-safety, so money could move unasked; "
                "put finclaw.policy.policy.FINANCE_SAFETY among them, before default-policy"
            )
        self._stages = tuple(stages)
        self.book = RuleBook(rules, groups)
        self.may_deny_always = self.book.may_deny_always and all(stage in self._stages for stage in STAGES)
        """Only where every stage is asked can rules alone say that no call may run."""

    def prepare(self, tools: Iterable[str]) -> None:
        """Match these names with the patterns now, so that no first call has to wait for it."""
        for name in tools:
            self.book.of(name)

    def always_denies(self, ctx: PolicyContext) -> bool:
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
    stages = tuple(said)
    allowed = next((word for word in said if word.verdict == "allow" and not word.is_default), None)
    if allowed is not None:
        stages = tuple(
            replace(word, lifted_by=allowed.stage) if word.is_default and word.verdict == "require-approval" else word
            for word in said
        )
    for word in stages:
        if word.verdict == "require-approval" and not word.lifted_by:
            return Judgement("require-approval", word.reason, word.stage, stages)
    decided = allowed or next((word for word in stages if word.verdict == "allow"), None)
    if decided is None:  # stages of one's own, of which none has an answer
        return Judgement("deny", "no stage of the policy allows it", stages[-1].stage, stages)
    return Judgement("allow", decided.reason, decided.stage, stages)


def announce(judgement: Judgement, ctx: PolicyContext, call_id: str, emit: Emit, ids: Ids) -> None:
    verdict = judgement.verdict
    stage = judgement.deciding_stage
    reason = judgement.reason
    warnings = [word.warning for word in judgement.stages if word.warning and verdict != "deny"]
    call = {"call_id": call_id, "tool": ctx.tool.name}
    emit(PolicyJudged(**call, verdict=verdict, stage=stage, reason=reason, sensitive=bool(warnings), **ids))
    if verdict == "deny":
        emit(PolicyDenied(**call, reason=reason, **ids))
    for warning in warnings:
        log.warning("%s: for %s on %s, %s by %s (%s)", warning, ctx.user, ctx.channel, verdict, stage, reason)
