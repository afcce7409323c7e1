"""What the world hears of a judgement."""

import logging

import pytest

from finclaw.kernel.event import Event, PolicyDenied, PolicyJudged
from finclaw.kernel.scope import Ids
from finclaw.policy.policy import FINANCE_SAFETY, Policy, Stage, announce
from finclaw.policy.rule import Rule
from finclaw.policy.verdict import PolicyContext, StageVerdict, ToolFacts

IDS = Ids(agent="main", session="s", inbound_id="m", turn_id="t")


def heard(*rules: Rule, sensitive: bool = False) -> list[Event]:
    ctx = PolicyContext(
        tool=ToolFacts(name="portfolio__show", group="finance", sensitive=sensitive),
        user="web:ann",
        channel="web",
        args={"account": "1234567890"},
    )
    events: list[Event] = []
    announce(Policy(rules).judge(ctx), ctx, "c1", events.append, IDS)
    return events


@pytest.mark.spec("E-08")
def test_every_judgement_is_told_with_verdict_and_stage() -> None:
    (told,) = heard()
    assert told == PolicyJudged(
        call_id="c1",
        tool="portfolio__show",
        verdict="allow",
        stage="group-policy",
        reason="default of group finance",
        **IDS,
    )


@pytest.mark.spec("E-09")
def test_a_deny_is_told_with_its_reason() -> None:
    judged, denied = heard(Rule("*", "deny", reason="closed"), sensitive=True)
    assert isinstance(judged, PolicyJudged)
    assert not judged.sensitive
    assert denied == PolicyDenied(call_id="c1", tool="portfolio__show", reason="closed", **IDS), "and nothing was read"


@pytest.mark.spec("Y-10")
@pytest.mark.parametrize("verdict", ["allow", "require-approval"])
def test_sensitive_data_leaves_a_warning_with_who_what_and_why(caplog: pytest.LogCaptureFixture, verdict: str) -> None:
    rule = Rule("*", "allow") if verdict == "allow" else Rule("*", "require-approval")
    with caplog.at_level(logging.WARNING):
        (told,) = heard(rule, sensitive=True)
    assert isinstance(told, PolicyJudged)
    assert (told.verdict, told.sensitive) == (verdict, True)
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    said = record.getMessage()
    assert "portfolio__show reads sensitive data: for web:ann on web" in said
    assert verdict in said
    assert "1234567890" not in said


def test_what_is_denied_after_all_was_not_read(caplog: pytest.LogCaptureFixture) -> None:
    never = Stage("never", lambda _, __: StageVerdict("never", "deny", "no"))
    ctx = PolicyContext(tool=ToolFacts(name="x__y", sensitive=True))
    events: list[Event] = []
    announce(Policy(stages=[FINANCE_SAFETY, never]).judge(ctx), ctx, "c1", events.append, IDS)
    assert [type(event) for event in events] == [PolicyJudged, PolicyDenied]
    assert caplog.records == []


def test_asking_alone_leaves_no_trace(caplog: pytest.LogCaptureFixture) -> None:
    Policy().judge(PolicyContext(tool=ToolFacts(name="x__y", group="finance", sensitive=True)))
    assert caplog.records == []
