"""What holds of the policy whatever the rules are."""

import random
from collections.abc import Sequence
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from finclaw.errors import ConfigError
from finclaw.policy.condition import Condition, Operator
from finclaw.policy.groups import GROUPS
from finclaw.policy.policy import FINANCE_SAFETY, STAGES, Policy
from finclaw.policy.rule import SCOPES, Rule, Scope
from finclaw.policy.verdict import PolicyContext, ToolFacts, Verdict

STRICTNESS: dict[Verdict, int] = {"allow": 0, "require-approval": 1, "deny": 2}
IDS: dict[Scope, tuple[str, ...]] = {
    "user": ("web:ann", "web:bob", "telegram:ann"),
    "role": ("trader", "owner", "guest"),
    "channel": ("web", "telegram"),
    "agent": ("main", "night"),
    "group": tuple(group.id for group in GROUPS),
}
NAMES = ("market__quote", "order__place", "shell__run")
PATTERNS = (*NAMES, "*", "market__*", "order__*", "*__place", "?arket__quot[e]", "shell__[!a]*")
NUMBERS = st.integers(-5, 5) | st.floats() | st.decimals() | st.sampled_from(["1", "-2.50", "1,000", "3 USD", "", "٣"])
VALUES: st.SearchStrategy[Any] = st.recursive(
    NUMBERS | st.text(max_size=3) | st.booleans() | st.none(),
    lambda below: st.lists(below, max_size=2) | st.dictionaries(st.sampled_from("ab0"), below, max_size=2),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(st.sampled_from(["a", "b", "amount"]), VALUES, max_size=3)
OPERATORS: tuple[Operator, ...] = ("eq", "ne", "lt", "le", "gt", "ge", "in", "matches-glob", "exists")


@st.composite
def conditions(draw: st.DrawFn) -> Condition:
    op = draw(st.sampled_from(OPERATORS))
    fitting: dict[str, st.SearchStrategy[Any]] = {
        "in": st.lists(st.integers(-3, 3) | st.text(max_size=2), min_size=1, max_size=3).map(tuple),
        "matches-glob": st.sampled_from(["*", "a*", "[ab]?"]),
        "exists": st.booleans(),
        "eq": st.integers(-3, 3) | st.text(max_size=2) | st.booleans() | st.none(),
    }
    value = draw(fitting.get("eq" if op == "ne" else op, st.integers(-3, 3)))
    return Condition(path=draw(st.sampled_from(["a", "b", "amount", "a.b", "a.0"])), op=op, value=value)


@st.composite
def rules(draw: st.DrawFn, verdicts: Sequence[Verdict] = tuple(STRICTNESS)) -> Rule:
    scope = draw(st.sampled_from(SCOPES))
    who = draw(st.lists(st.sampled_from(IDS[scope]), min_size=1, max_size=2)) if scope in IDS else []
    return Rule(
        draw(st.sampled_from(PATTERNS)),
        draw(st.sampled_from(verdicts)),
        scope,
        tuple(who),
        tuple(draw(st.lists(conditions(), max_size=2))),
        draw(st.integers(-2, 2)),
    )


@st.composite
def calls(draw: st.DrawFn, *, transactional: bool | None = None) -> PolicyContext:
    flags: dict[str, Any] = {name: draw(st.booleans()) for name in ("requires_approval", "sensitive", "external")}
    moves = draw(st.booleans()) if transactional is None else transactional
    return PolicyContext(
        tool=ToolFacts(
            name=draw(st.sampled_from(NAMES)), group=draw(st.sampled_from(IDS["group"])), transactional=moves, **flags
        ),
        user=draw(st.sampled_from(IDS["user"])),
        roles=tuple(draw(st.lists(st.sampled_from(IDS["role"]), max_size=2))),
        channel=draw(st.sampled_from(IDS["channel"])),
        agent=draw(st.sampled_from(IDS["agent"])),
        args=draw(ARGUMENTS),
        untrusted=draw(st.booleans()),
    )


def is_for(rule: Rule, ctx: PolicyContext) -> bool:
    """Said a second time, and slowly: whether a rule without conditions is about this call."""
    mine: dict[Scope, set[str]] = {
        "user": {ctx.user, ctx.user.partition(":")[2]},
        "role": set(ctx.roles),
        "channel": {ctx.channel},
        "agent": {ctx.agent},
        "group": {ctx.tool.group},
    }
    return fnmatchcase(ctx.tool.name, rule.pattern) and (rule.scope not in mine or bool(mine[rule.scope] & {*rule.who}))


@pytest.mark.spec("Y-09")
@given(st.lists(rules(), max_size=12), calls(transactional=True), st.permutations(STAGES), st.integers(0, 8))
def test_a_transactional_tool_is_never_simply_allowed(
    laid_down: list[Rule], ctx: PolicyContext, order: list[Any], dropped: int
) -> None:
    assert Policy(laid_down).judge(ctx).verdict != "allow"
    stages = [each for each in order if each is FINANCE_SAFETY or each is not STAGES[dropped]]
    assert Policy(laid_down, stages=stages).judge(ctx).verdict != "allow"


@pytest.mark.spec("Y-06", "DX-23")
@given(st.lists(rules(), max_size=12), calls())
def test_any_deny_that_applies_wins(laid_down: list[Rule], ctx: PolicyContext) -> None:
    verdict = Policy(laid_down).judge(ctx).verdict
    if any(rule.verdict == "deny" and not rule.when and is_for(rule, ctx) for rule in laid_down):
        assert verdict == "deny"
    if not any(rule.verdict == "deny" and is_for(rule, ctx) for rule in laid_down):
        assert verdict != "deny"


@pytest.mark.spec("M-36")
@given(st.lists(rules(), max_size=12), calls(), st.lists(ARGUMENTS, max_size=4))
def test_what_is_always_denied_is_denied_with_any_arguments(
    laid_down: list[Rule], ctx: PolicyContext, others: list[dict[str, Any]]
) -> None:
    """And only that: a rule without a condition that is for this person, or a group's default."""
    policy = Policy(laid_down)
    unconditional = any(rule.verdict == "deny" and not rule.when and is_for(rule, ctx) for rule in laid_down)
    assert policy.always_denies(ctx) == unconditional
    assert policy.may_deny_always or not unconditional
    if unconditional:
        for args in (ctx.args, *others):
            assert policy.judge(replace(ctx, args=args)).verdict == "deny"


@pytest.mark.spec("Y-06")
@given(st.lists(rules(), max_size=12), rules(["deny"]), calls(), st.integers(0, 12))
def test_one_more_deny_never_loosens(laid_down: list[Rule], deny: Rule, ctx: PolicyContext, place: int) -> None:
    before = Policy(laid_down).judge(ctx).verdict
    after = Policy([*laid_down[:place], deny, *laid_down[place:]]).judge(ctx).verdict
    assert STRICTNESS[after] >= STRICTNESS[before]


@given(st.lists(rules(), max_size=12), rules(["allow"]), calls())
def test_one_more_allow_never_tightens(laid_down: list[Rule], allow: Rule, ctx: PolicyContext) -> None:
    assert (
        STRICTNESS[Policy([*laid_down, allow]).judge(ctx).verdict] <= STRICTNESS[Policy(laid_down).judge(ctx).verdict]
    )


@pytest.mark.spec("Y-02")
@given(st.lists(rules(), max_size=12), calls(), st.randoms(use_true_random=False))
def test_the_order_in_the_file_changes_no_verdict(
    laid_down: list[Rule], ctx: PolicyContext, chance: random.Random
) -> None:
    """At unequal priorities; and at equal ones too, because then the stricter counts."""
    first = Policy(laid_down).judge(ctx)
    chance.shuffle(laid_down)
    again = Policy(laid_down).judge(ctx)
    assert (again.verdict, again.deciding_stage) == (first.verdict, first.deciding_stage)
    assert [each.verdict for each in again.stages] == [each.verdict for each in first.stages]


@pytest.mark.spec("Y-12")
@given(st.lists(rules(), max_size=12), calls())
def test_the_deciding_stage_said_what_was_decided(laid_down: list[Rule], ctx: PolicyContext) -> None:
    judgement = Policy(laid_down).judge(ctx)
    (decided,) = (each for each in judgement.stages if each.stage == judgement.deciding_stage)
    assert (decided.verdict, decided.reason, decided.lifted_by) == (judgement.verdict, judgement.reason, "")
    assert judgement == Policy(laid_down).judge(ctx)


@given(rules(["allow"]), rules(["deny"]), calls())
def test_leaving_an_argument_out_opens_no_door(allow: Rule, deny: Rule, ctx: PolicyContext) -> None:
    """Without arguments only `exists: false` may help an allow, and only `exists: true` may stop a deny."""
    ctx = PolicyContext(tool=ToolFacts(name=ctx.tool.name, group="system"), user=ctx.user, roles=ctx.roles)
    if any(each.op != "exists" for each in allow.when):
        assert Policy([allow]).judge(ctx).verdict == "require-approval"
    if is_for(deny, ctx) and all(each.op != "exists" for each in deny.when):
        assert Policy([deny]).judge(ctx).verdict == "deny"


@given(conditions(), ARGUMENTS)
def test_every_question_has_an_answer(condition: Condition, args: dict[str, Any]) -> None:
    ctx = PolicyContext(tool=ToolFacts(name="x__y", group="finance"), args=args)
    strict = Policy([Rule("*", "deny", when=(condition,))]).judge(ctx).verdict
    generous = Policy([Rule("*", "allow", when=(condition,))]).judge(ctx).deciding_stage
    assert strict in ("allow", "deny")
    if generous == "global-allow":  # what is sure enough to allow is sure enough to deny
        assert strict == "deny"


@given(st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**6), max_value=10**6))
def test_amounts_are_compared_to_the_last_digit(amount: Decimal) -> None:
    cent = Decimal("0.01")
    policy = Policy([Rule("*", "deny", when=(Condition(path="amount", op="gt", value=str(amount)),))])

    def verdict(given: object) -> Verdict:
        return policy.judge(PolicyContext(tool=ToolFacts(name="x__y", group="finance"), args={"amount": given})).verdict

    assert verdict(f"{amount:f}") == verdict(amount) == verdict(float(amount)) == "allow"
    assert verdict(f"{amount + cent:f}") == verdict(amount + cent) == verdict(float(amount + cent)) == "deny"


@pytest.mark.spec("Y-13", "DX-23b")
@given(st.text(alphabet="ab_-*?[]!:.x ", max_size=12), st.text(alphabet="ab_-x", max_size=12))
def test_patterns_are_real_globs(pattern: str, name: str) -> None:
    ctx = PolicyContext(tool=ToolFacts(name=name, group="finance"))
    try:
        rule = Rule(pattern, "deny")
    except ConfigError:
        assert not pattern or set(pattern) & {":", ".", " "}
        return
    assert (Policy([rule]).judge(ctx).verdict == "deny") == fnmatchcase(name, pattern)
