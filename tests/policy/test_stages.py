"""The nine stages: what each says, in which order they are asked, and what comes of it."""

from typing import Any

import pytest

from finclaw.errors import ConfigError
from finclaw.policy.condition import Condition
from finclaw.policy.groups import GROUPS, ToolGroup
from finclaw.policy.policy import FINANCE_SAFETY, STAGES, Policy, Stage
from finclaw.policy.rule import Rule, RuleBook, Scope
from finclaw.policy.verdict import Judgement, PolicyContext, StageVerdict, ToolFacts, Verdict

NINE = [
    "global-deny",
    "global-allow",
    "user-deny",
    "user-allow",
    "channel-policy",
    "group-policy",
    "tool-policy",
    "finance-safety",
    "default-policy",
]
QUOTE = ToolFacts(name="market__quote", group="finance")
ORDER = ToolFacts(name="order__place", group="finance", transactional=True)
SHELL = ToolFacts(name="shell__run", group="system")
OWN = ToolFacts(name="garden__water", group="custom")


def asked(tool: ToolFacts = QUOTE, **others: Any) -> PolicyContext:
    usual: dict[str, Any] = {"user": "web:ann", "roles": ("trader",), "channel": "web", "agent": "main"}
    return PolicyContext(tool=tool, **usual | others)


def judged(*rules: Rule, tool: ToolFacts = QUOTE, **others: Any) -> Judgement:
    return Policy(rules).judge(asked(tool, **others))


def word(judgement: Judgement, stage: str) -> StageVerdict:
    return next(each for each in judgement.stages if each.stage == stage)


# ── each stage ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("Y-01", "Y-04", "Y-05", "Y-12", "Y-16")
@pytest.mark.parametrize(
    ("rule", "stage", "verdict"),
    [
        (Rule("market__*", "deny"), "global-deny", "deny"),
        (Rule("market__*", "allow"), "global-allow", "allow"),
        (Rule("market__*", "require-approval"), "global-allow", "require-approval"),
        (Rule("market__*", "deny", "user", ("web:ann",)), "user-deny", "deny"),
        (Rule("market__*", "deny", "user", ("ann",)), "user-deny", "deny"),
        (Rule("market__*", "deny", "role", ("trader",)), "user-deny", "deny"),
        (Rule("market__*", "allow", "user", ("web:ann",)), "user-allow", "allow"),
        (Rule("market__*", "require-approval", "user", ("ann",)), "user-allow", "require-approval"),
        (Rule("market__*", "allow", "role", ("trader",)), "user-allow", "allow"),
        (Rule("market__*", "deny", "channel", ("web",)), "channel-policy", "deny"),
        (Rule("market__*", "require-approval", "channel", ("web",)), "channel-policy", "require-approval"),
        (Rule("market__*", "allow", "agent", ("main",)), "channel-policy", "allow"),
        (Rule("market__*", "deny", "agent", ("main",)), "channel-policy", "deny"),
        (Rule("*", "deny", "group", ("finance",)), "group-policy", "deny"),
        (Rule("*", "require-approval", "group", ("finance",)), "group-policy", "require-approval"),
        (Rule("*", "allow", "group", ("finance",)), "group-policy", "allow"),
        (Rule("market__quote", "deny", "tool"), "tool-policy", "deny"),
        (Rule("market__quote", "require-approval", "tool"), "tool-policy", "require-approval"),
        (Rule("market__quote", "allow", "tool"), "tool-policy", "allow"),
    ],
)
def test_each_stage_answers_for_its_own_rules_and_is_named(rule: Rule, stage: str, verdict: Verdict) -> None:
    judgement = judged(rule)
    assert (judgement.verdict, judgement.deciding_stage) == (verdict, stage)
    assert judgement.reason == f"rule: {rule}"
    said = [each.stage for each in judgement.stages if each.verdict == verdict and not each.is_default]
    assert said == [stage]
    assert all(each.reason for each in judgement.stages), "always with a reason"


@pytest.mark.parametrize(
    "rule",
    [
        Rule("market__*", "deny", "user", ("web:bob", "telegram:ann")),
        Rule("market__*", "deny", "role", ("guest",)),
        Rule("market__*", "deny", "channel", ("telegram",)),
        Rule("market__*", "deny", "agent", ("other",)),
        Rule("market__*", "deny", "group", ("system", "custom")),
        Rule("order__*", "deny"),
        Rule("market__quot", "deny", "tool"),
    ],
)
@pytest.mark.spec("DX-23")
def test_a_rule_is_only_for_those_it_names(rule: Rule) -> None:
    assert judged(rule) == judged()


@pytest.mark.spec("Y-05", "Y-16")
def test_the_nine_are_asked_in_their_order() -> None:
    assert [stage.name for stage in STAGES] == NINE
    assert [each.stage for each in judged().stages] == NINE


@pytest.mark.spec("Y-11")
def test_what_nobody_mentions_is_allowed_by_its_group() -> None:
    judgement = judged()
    assert (judgement.verdict, judgement.deciding_stage) == ("allow", "group-policy")
    assert word(judgement, "default-policy").verdict == "allow"


@pytest.mark.parametrize("who", ["web:ann", "ann"])
@pytest.mark.parametrize("verdict", ["deny", "require-approval"])
def test_a_label_of_ones_own_is_no_way_out(who: str, verdict: Verdict) -> None:
    rule = Rule("*", verdict, "user", (who,))
    for user in ("web:ann/elsewhere", "web:ann/a/b", "web:ann/"):
        assert judged(rule, user=user).verdict == verdict
    assert judged(rule, user="web:anna").verdict == judged(rule, user="web:bob/ann").verdict == "allow"


def test_what_is_allowed_to_somebody_is_not_allowed_to_their_labels() -> None:
    allow = Rule("*", "allow", "user", ("web:ann",))
    assert judged(allow, tool=SHELL).verdict == "allow"
    assert judged(allow, tool=SHELL, user="web:ann/guest").verdict == "require-approval"
    assert judged(Rule("*", "allow", "user", ("web:ann/guest",)), tool=SHELL, user="web:ann/guest").verdict == "allow"
    with pytest.raises(ConfigError, match="write the whole id"):
        Rule("*", "allow", "user", ("web:ann/",))


# ── how they add up ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("Y-06")
def test_a_deny_ends_it_at_once_and_nothing_lifts_it() -> None:
    judgement = judged(
        Rule("*", "deny", "user", ("ann",), reason="on holiday"),
        Rule("*", "allow", priority=1_000),
        Rule("*", "allow", "user", ("web:ann",), priority=1_000),
    )
    assert (judgement.verdict, judgement.reason, judgement.deciding_stage) == ("deny", "on holiday", "user-deny")
    assert [each.stage for each in judgement.stages] == NINE[:3]


@pytest.mark.spec("Y-07")
def test_approvals_add_up_and_the_first_decides_at_the_end() -> None:
    judgement = judged(
        Rule("order__*", "require-approval", "tool", reason="second"),
        Rule("order__*", "require-approval", "channel", ("web",), reason="first"),
        tool=ORDER,
    )
    assert (judgement.verdict, judgement.reason) == ("require-approval", "first")
    assert judgement.deciding_stage == "channel-policy"
    asking = [each.stage for each in judgement.stages if each.verdict == "require-approval"]
    assert asking == ["channel-policy", "tool-policy", "finance-safety"]


@pytest.mark.spec("Y-06", "Y-07")
def test_a_later_deny_beats_an_earlier_approval() -> None:
    judgement = judged(Rule("*", "require-approval"), Rule("*", "deny", "tool"))
    assert (judgement.verdict, judgement.deciding_stage) == ("deny", "tool-policy")


@pytest.mark.spec("Y-08", "Y-09")
def test_an_allow_ends_nothing_so_finance_safety_is_asked() -> None:
    everywhere: list[tuple[Scope, tuple[str, ...]]] = [
        ("global", ()),
        ("user", ("web:ann",)),
        ("role", ("trader",)),
        ("channel", ("web",)),
        ("agent", ("main",)),
        ("group", ("finance",)),
        ("tool", ()),
    ]
    rules = [Rule("*", "allow", scope, who, priority=1_000_000) for scope, who in everywhere]
    judgement = judged(*rules, tool=ORDER)
    assert (judgement.verdict, judgement.deciding_stage) == ("require-approval", "finance-safety")
    assert [each.stage for each in judgement.stages] == NINE


@pytest.mark.spec("Y-10")
def test_what_reads_sensitive_data_is_worth_a_warning_and_nothing_else() -> None:
    judgement = judged(tool=ToolFacts(name="portfolio__show", group="finance", sensitive=True))
    assert judgement.verdict == "allow"
    assert word(judgement, "finance-safety").warning == "portfolio__show reads sensitive data"
    both = judged(tool=ToolFacts(name="order__place", group="finance", sensitive=True, transactional=True))
    assert both.verdict == "require-approval"
    assert word(both, "finance-safety").warning


# ── groups and definitions ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("G-03", "G-04", "G-05", "G-06", "G-07", "G-08")
@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.id)
def test_a_groups_default_counts_where_no_rule_does(group: ToolGroup) -> None:
    judgement = judged(tool=ToolFacts(name="x__y", group=group.id))
    assert (judgement.verdict, judgement.deciding_stage) == (group.default_policy, "group-policy")


@pytest.mark.spec("G-09")
def test_one_rule_governs_a_whole_group() -> None:
    policy = Policy([Rule("*", "deny", "group", ("system", "data"))])
    tools = [ToolFacts(name=f"x__{group.id}", group=group.id) for group in GROUPS]
    denied = {tool.group for tool in tools if policy.judge(asked(tool)).verdict == "deny"}
    assert denied == {"system", "data"}


def test_a_group_that_nobody_knows_is_trusted_like_the_custom_one() -> None:
    strange = ToolFacts(name="x__y", group="garden")
    assert judged(tool=strange).verdict == "require-approval"
    assert "garden (taken as custom)" in judged(tool=strange).reason
    assert judged(Rule("*", "deny", "group", ("custom",)), tool=strange).verdict == "deny"


@pytest.mark.spec("G-07")
def test_after_a_strangers_text_what_is_sent_to_people_needs_a_person() -> None:
    mail = ToolFacts(name="mail__send", group="communication")
    assert judged(tool=mail).verdict == "allow"
    generous = [Rule("*", "allow"), Rule("*", "allow", "group", ("communication",))]
    judgement = judged(*generous, tool=mail, untrusted=True)
    assert (judgement.verdict, judgement.deciding_stage) == ("require-approval", "group-policy")
    assert judged(Rule("*", "deny", "group", ("communication",)), tool=mail, untrusted=True).verdict == "deny"
    assert judged(untrusted=True).verdict == "allow"


# ── what the seed's form lacked, one by one ─────────────────────────────────────────────────────────────────


@pytest.mark.spec("DX-23")
@pytest.mark.parametrize(
    ("scope", "who", "other"),
    [
        ("user", "web:ann", {"user": "web:bob"}),
        ("role", "trader", {"roles": ("guest",)}),
        ("channel", "web", {"channel": "telegram"}),
        ("agent", "main", {"agent": "night"}),
    ],
)
def test_a_rule_knows_whose_it_is(scope: Any, who: str, other: dict[str, Any]) -> None:
    rule = Rule("*", "deny", scope, (who,))
    assert judged(rule).verdict == "deny"
    assert judged(rule, **other).verdict == "allow"


@pytest.mark.spec("DX-23", "Y-02")
def test_priority_counts_inside_a_stage() -> None:
    approval = Rule("market__*", "require-approval", "tool", priority=1)
    assert judged(approval, Rule("market__quote", "allow", "tool", priority=2)).verdict == "allow"
    assert judged(approval, Rule("market__quote", "allow", "tool", priority=0)).verdict == "require-approval"
    assert judged(approval, Rule("market__quote", "allow", "tool", priority=1)).verdict == "require-approval"
    across = judged(
        Rule("*", "allow", "role", ("trader",), priority=5), Rule("*", "require-approval", "user", ("ann",))
    )
    assert (across.verdict, across.deciding_stage) == ("allow", "user-allow")


@pytest.mark.spec("DX-23", "Y-06")
@pytest.mark.parametrize(
    ("scope", "who"), [("channel", ("web",)), ("agent", ("main",)), ("group", ("finance",)), ("tool", ())]
)
def test_no_priority_beats_a_deny_of_the_same_stage(scope: Scope, who: tuple[str, ...]) -> None:
    deny, allow = Rule("*", "deny", scope, who, priority=-5), Rule("*", "allow", scope, who, priority=5)
    assert judged(deny, allow).verdict == judged(allow, deny).verdict == "deny"


@pytest.mark.spec("DX-23")
def test_of_several_denies_the_highest_gives_its_reason() -> None:
    low = Rule("*", "deny", "user", ("ann",), priority=1, reason="low")
    high = Rule("*", "deny", "role", ("trader",), priority=2, reason="high")
    assert judged(low, high).reason == judged(high, low).reason == "high"


@pytest.mark.spec("DX-23", "Y-02")
def test_priority_does_not_reach_into_another_stage() -> None:
    judgement = judged(Rule("*", "allow", priority=100), Rule("*", "require-approval", "tool", priority=-100))
    assert (judgement.verdict, judgement.deciding_stage) == ("require-approval", "tool-policy")


@pytest.mark.spec("DX-23")
@pytest.mark.parametrize(
    "allow",
    [
        Rule("*", "allow"),
        Rule("*", "allow", "user", ("web:ann",)),
        Rule("*", "allow", "role", ("trader",)),
        Rule("*", "allow", "channel", ("web",)),
        Rule("*", "allow", "group", ("system", "custom")),
        Rule("*__*", "allow", "tool"),
    ],
    ids=str,
)
def test_an_explicit_allow_lifts_a_softer_default(allow: Rule) -> None:
    asking = ToolFacts(name="shell__run", group="system", requires_approval=True)
    assert judged(tool=asking).verdict == "require-approval"
    lifted = judged(allow, tool=asking)
    assert lifted.verdict == "allow"
    assert lifted.reason == f"rule: {allow}"
    assert word(lifted, lifted.deciding_stage).verdict == "allow"
    assert {each.stage for each in lifted.stages if each.lifted_by == lifted.deciding_stage} <= {
        "group-policy",
        "tool-policy",
    }


@pytest.mark.spec("DX-23")
def test_an_explicit_allow_lifts_no_rule_of_another_stage() -> None:
    judgement = judged(Rule("*", "allow"), Rule("*", "require-approval", "channel", ("web",)), tool=SHELL)
    assert (judgement.verdict, judgement.deciding_stage) == ("require-approval", "channel-policy")
    assert word(judgement, "group-policy").lifted_by == "global-allow"


@pytest.mark.spec("DX-23")
def test_the_definitions_own_wish_is_read() -> None:
    judgement = judged(tool=ToolFacts(name="market__quote", group="finance", requires_approval=True))
    assert (judgement.verdict, judgement.deciding_stage) == ("require-approval", "tool-policy")


@pytest.mark.spec("DX-23")
def test_the_groups_default_is_read() -> None:
    assert judged(tool=OWN).verdict == "require-approval"


@pytest.mark.spec("DX-23", "Y-12")
def test_the_deciding_stage_is_the_real_one() -> None:
    for judgement in (judged(), judged(tool=ORDER), judged(tool=SHELL), judged(Rule("*", "allow"), tool=SHELL)):
        decided = word(judgement, judgement.deciding_stage)
        assert (decided.verdict, decided.reason) == (judgement.verdict, judgement.reason)


@pytest.mark.spec("DX-23", "Y-02", "Y-03")
def test_rules_may_look_at_the_arguments() -> None:
    large = Rule("order__*", "deny", when=(Condition(path="amount", op="gt", value=1000),))
    assert judged(large, tool=ORDER, args={"amount": "1000.01"}).verdict == "deny"
    assert judged(large, tool=ORDER, args={"amount": "1000.00"}).verdict == "require-approval"


# ── stages of one's own ─────────────────────────────────────────────────────────────────────────────────────


def _weekend(ctx: PolicyContext, _: RuleBook) -> StageVerdict:
    return StageVerdict("weekend", "deny", "markets are closed")


@pytest.mark.spec("Y-14")
def test_the_stages_can_be_replaced() -> None:
    judgement = Policy(stages=[FINANCE_SAFETY, Stage("weekend", _weekend)]).judge(asked())
    assert (judgement.verdict, judgement.deciding_stage) == ("deny", "weekend")
    assert [each.stage for each in judgement.stages] == ["finance-safety", "weekend"]


@pytest.mark.spec("Y-14", "Y-09")
def test_finance_safety_cannot_be_left_out_or_imitated() -> None:
    fake = Stage("finance-safety", _weekend)
    for stages in ([], [Stage("weekend", _weekend)], [each for each in STAGES if each is not FINANCE_SAFETY] + [fake]):
        with pytest.raises(ConfigError, match=r"lack finance-safety.*put finclaw\.policy\.policy"):
            Policy(stages=stages)


@pytest.mark.spec("Y-09", "Y-14")
def test_no_stage_of_ones_own_lets_money_move_unasked() -> None:
    generous = Stage("generous", lambda _, __: StageVerdict("generous", "allow", "why not"))
    for stages in ([generous, FINANCE_SAFETY], [FINANCE_SAFETY, generous]):
        assert Policy(stages=stages).judge(asked(ORDER)).verdict == "require-approval"


def test_stages_that_have_no_answer_allow_nothing() -> None:
    judgement = Policy(stages=[FINANCE_SAFETY]).judge(asked())
    assert (judgement.verdict, judgement.deciding_stage) == ("deny", "finance-safety")


@pytest.mark.spec("Y-15")
@pytest.mark.parametrize("odd", ["maybe", "ALLOW", "", None])
def test_a_verdict_that_is_none_does_not_slip_through(odd: Any) -> None:
    stages = [Stage("odd", lambda _, __: StageVerdict("odd", odd, "?")), *STAGES]
    with pytest.raises(AssertionError):
        Policy(stages=stages).judge(asked())
