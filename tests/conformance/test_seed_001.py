"""Seed 001, row by row: what its seventh chapter wants verified of tools, sessions and context.

The name of each test has the number of its row. Where the seed is wrong (DX-22 to DX-42), the test shows what is
right and its docstring says what the seed would have done.
"""

from pathlib import Path
from typing import Any

import pytest
from tests.agent.compaction_bench import Desk as CompactionDesk
from tests.agent.compaction_bench import size, summary_of
from tests.agent.prompt_parts import CACHED, LEVELS, MODES, VOLATILE, context, ids, parts
from tests.agent.talk import asks, entry, talk, tells
from tests.ports.nouns import AT
from tests.storage.lock_desk import Desk as LockDesk
from tests.storage.raw_conversations import RAW, WRITTEN
from tests.support.api_rules import violations
from tests.walks.house import House, in_virtual_time
from tests.walks.tools import Desk

from finclaw.agent.prompt.sections import build_prompt
from finclaw.agent.prompt.turn_context_note import turn_context_sections
from finclaw.agent.window.compaction.options import Strategy
from finclaw.agent.window.compaction.summary import HEADING
from finclaw.agent.window.size import Breakdown, Capacity, Status
from finclaw.errors import ExtensionError
from finclaw.kernel.envelope import Capabilities
from finclaw.kernel.event import LockTakenOver, PolicyJudged
from finclaw.kernel.message import Message, Source, Text, ToolCall, ToolResult
from finclaw.kernel.port import ToolScope
from finclaw.policy.policy import STAGES, Policy
from finclaw.policy.rule import Rule
from finclaw.policy.verdict import PolicyContext, ToolFacts, Verdict
from finclaw.storage.jsonl.base import repair_transcript
from finclaw.testing import FakeClock, call, reply
from finclaw.tools.registry import ToolRegistry
from finclaw.tools.result_guard import GuardOptions, guard
from finclaw.transcript.integrity import UNAVAILABLE, mend
from finclaw.transcript.request_sanitizer import sanitize_request

# ── row 1: the registry ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("V-03", "T-10", "T-11", "T-21", "X-02")
def test_row_1_tools_are_registered_found_listed_and_removed() -> None:
    registry, desk = ToolRegistry(FakeClock()), Desk()
    quote, mail = desk.tool("market__quote"), desk.tool("mail__send", group="communication")
    registry.register(quote)
    registry.register(mail, "post")
    assert (registry.get("market__quote"), registry.get("market__chart")) == (quote, None)
    assert registry.list() == (quote, mail)
    assert (registry.list_by_group("finance"), registry.list_by_group("web")) == ((quote,), ())
    with pytest.raises(ExtensionError, match="'mail__send' is already registered by 'post'"):
        registry.register(desk.tool("mail__send"), "stranger")
    assert (registry.unregister("mail__send"), registry.unregister("mail__send")) == (True, False)
    assert (registry.has("mail__send"), registry.list()) == (False, (quote,))


# ── row 2: from policy through the run to the guard ─────────────────────────────────────────────────────────


@pytest.mark.spec("V-03", "T-13", "T-14", "T-21", "DX-22")
@in_virtual_time
async def test_row_2_a_call_is_judged_run_and_guarded(house: House) -> None:
    """Judged before it runs and guarded behind it; what is denied does not run. Where a person is needed the seed
    writes a line into the log and goes on: here nothing runs until they have spoken (DX-22).
    """

    async def card(text: str, scope: ToolScope) -> str:
        return f"{text}: card 4111 1111 1111 1111"

    desk = Desk()
    tools = [desk.tool("look", card), desk.tool("forbidden"), desk.tool("order", transactional=True)]
    script = reply(call("look", {"text": "x"}), call("forbidden"), call("order"))
    rules = (Rule("forbidden", "deny", reason="not on Sundays"),)
    async with house.open(script, "later", tools=tools, rules=rules, consent=None) as gateway:
        await gateway.ask("go")
        assert desk.runs == [("look", "x")]
        judged = [(event.tool, event.verdict) for event in gateway.events if isinstance(event, PolicyJudged)]
        await gateway.ask("and?")
        seen, denied, waits = gateway.results
    assert judged == [("look", "allow"), ("forbidden", "deny"), ("order", "require-approval")]
    assert (seen.status, seen.content) == ("ok", "x: card [card …1111]")
    assert denied.status == "denied"
    assert "not on Sundays" in denied.content
    assert waits.status == "awaiting"


# ── rows 3 and 4: nine stages, and the eighth ───────────────────────────────────────────────────────────────

QUOTE = ToolFacts(name="market__quote", group="finance")
ORDER = ToolFacts(name="order__place", group="finance", transactional=True)


def judged(*rules: Rule, tool: ToolFacts = QUOTE) -> tuple[str, str]:
    asked = PolicyContext(tool=tool, user="web:ann", roles=("trader",), channel="web", agent="main")
    judgement = Policy(rules).judge(asked)
    return judgement.verdict, judgement.deciding_stage


@pytest.mark.spec("V-03", "Y-05", "Y-16", "DX-23")
@pytest.mark.parametrize(
    ("rule", "verdict", "stage"),
    [
        (Rule("*", "deny"), "deny", "global-deny"),
        (Rule("*", "allow"), "allow", "global-allow"),
        (Rule("*", "deny", "user", ("web:ann",)), "deny", "user-deny"),
        (Rule("*", "allow", "user", ("web:ann",)), "allow", "user-allow"),
        (Rule("*", "deny", "channel", ("web",)), "deny", "channel-policy"),
        (Rule("*", "require-approval", "group", ("finance",)), "require-approval", "group-policy"),
        (Rule("market__quote", "require-approval", "tool"), "require-approval", "tool-policy"),
    ],
)
def test_row_3_each_stage_speaks_for_its_own_rules(rule: Rule, verdict: Verdict, stage: str) -> None:
    """The seed cannot tell whose rule it is, and calls the deciding stage of most verdicts "fallthrough" (DX-23)."""
    assert judged(rule) == (verdict, stage)
    other = PolicyContext(tool=ToolFacts(name="chart__draw", group="web"), user="web:bob", channel="telegram")
    said = next(word for word in Policy((rule,)).judge(other).stages if word.stage == stage)
    assert (said.verdict == verdict and not said.is_default) is (rule.scope == "global"), "and for nobody else"


@pytest.mark.spec("V-03", "Y-05", "Y-06", "Y-07", "Y-16")
def test_row_3_they_are_asked_in_their_order_and_a_deny_ends_it() -> None:
    assert [stage.name for stage in STAGES] == [
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
    early = Rule("*", "require-approval", "channel", ("web",))
    late = Rule("*", "deny", "tool")
    assert judged(early, Rule("*", "require-approval", "tool")) == ("require-approval", "channel-policy")
    assert judged(early, late, Rule("*", "allow", priority=99)) == ("deny", "tool-policy")


@pytest.mark.spec("V-03", "Y-09", "Y-16")
@pytest.mark.parametrize("rules", [(), (Rule("*", "allow", priority=99),), (Rule("order__*", "allow", "tool"),)])
def test_row_4_what_moves_money_needs_a_person(rules: tuple[Rule, ...]) -> None:
    assert judged(*rules, tool=ORDER) == ("require-approval", "finance-safety")
    assert judged(*rules)[0] == "allow"


# ── row 5: the guard of results ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("V-03", "RG-05", "RG-12", "DX-32")
def test_row_5_a_long_result_is_cut_and_its_mark_is_within_the_limit() -> None:
    """The seed's "[truncated]" makes the text longer than its limit, and the end of the text is lost (DX-32)."""
    guarded = guard("first\n" + "x" * 5_000 + "\nlast", GuardOptions(shown=1_000))
    assert (guarded.was_truncated, guarded.guarded_size) == (True, len(guarded.content))
    assert len(guarded.content) <= 1_000
    assert guarded.content.startswith("first\n")
    assert "last\n[truncated]" in guarded.content
    assert guarded.full == "first\n" + "x" * 5_000 + "\nlast"


@pytest.mark.spec("V-03", "RG-06", "RG-08", "RG-12", "DX-31")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("key sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789", None),
        ("카드 4111-1111-1111-1111", "카드 [card …1111]"),
        ("amex 378282246310005", "amex [card …0005]"),
        ("계좌번호 110-123-456789", "계좌번호 [account …6789]"),
        ("SSN 536-22-8726", None),
    ],
)
def test_row_5_secrets_and_finance_data_are_hidden(text: str, shown: str | None) -> None:
    """Cards of fifteen digits and Korean accounts, which the seed does not know, too (DX-31)."""
    guarded = guard(text)
    assert guarded.was_redacted
    assert guarded.content == shown if shown else text.rsplit(maxsplit=1)[-1] not in guarded.content


@pytest.mark.spec("V-03", "RG-08", "DX-31")
@pytest.mark.parametrize(
    "figure", ["market cap 425000000000000", "volume 12345678901", "time 1736150400000", "₩1234567890123"]
)
def test_row_5_figures_are_what_the_tool_is_for(figure: str) -> None:
    """The seed hides every number of ten to fourteen digits: caps, volumes, times and amounts in won (DX-31)."""
    assert guard(figure).content == figure


@pytest.mark.spec("V-03", "RG-07", "RG-12", "DX-32")
def test_row_5_markup_goes_and_comparisons_stay() -> None:
    """And no tag hides a number: the seed masks first and takes tags out afterwards (DX-32)."""
    assert guard("<p>PER < 10 and <b>a < b</b></p><script>x()</script>").content.strip() == "PER < 10 and a < b"
    assert "4111" not in guard("4111<i></i>111111111111").content
    assert guard("<b>x</b>", GuardOptions(allow_html=True)).content == "<b>x</b>"


# ── row 6: the write lock ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("V-03", "L-10", "DX-33")
def test_row_6_one_writer_the_second_waits_in_vain_and_a_dead_one_is_followed(tmp_path: Path) -> None:
    """The seed deletes a lock that is older than five minutes, also under a writer that lives (DX-33)."""
    desk = LockDesk(tmp_path / "locks")

    async def main() -> None:
        mine = await desk.owner("me").acquire("s")
        await desk.clock.sleep(3_600)
        began = desk.clock.monotonic()
        second = await desk.owner("you").acquire("s", timeout=5)
        assert (mine.held, second.acquired) == (True, False)
        assert desk.clock.monotonic() - began == pytest.approx(5)
        mine.release()
        assert (await desk.owner("you").acquire("s", timeout=0)).acquired
        desk.leave_note("crashed")
        assert (await desk.owner("me").acquire("crashed", timeout=1)).acquired

    desk.clock.run(main())
    (taken,) = [event for event in desk.events if isinstance(event, LockTakenOver)]
    assert taken.session == "crashed"


# ── row 7: what is wrong with a transcript, and mending it ──────────────────────────────────────────────────

HI = Message("hi", "user", (Text("what does it cost?"),), Source("user"), AT)
ASK = Message("ask", "assistant", (ToolCall("a", "quote", {}),), Source("assistant"), AT)
TOLD = Message("told", "tool", (ToolResult("a", "quote", "190.50"),), Source("tool"), AT)
SO = Message("so", "assistant", (Text("190.50"),), Source("assistant"), AT)


@pytest.mark.spec("V-03", "TR-02", "TR-12", "DX-34", "DX-36")
@pytest.mark.parametrize(
    ("broken", "kind"),
    [
        ((HI, ASK, TOLD, SO, SO), "duplicate-entry"),
        ((HI, TOLD, SO), "orphan-tool-result"),
        ((HI, ASK, SO), "missing-tool-result"),
        ((HI, ASK, SO, TOLD), "invalid-role-sequence"),
    ],
)
def test_row_7_four_kinds_are_found_and_mended_for_good(broken: tuple[Message, ...], kind: str) -> None:
    """No call is invented for a result that has none, as the seed does (DX-36); what is mended stays so."""
    mended = mend(broken)
    assert [finding.kind for finding in mended.findings] == [kind]
    assert (
        violations(sanitize_request(mended.messages), "anthropic")
        == violations(sanitize_request(mended.messages), "openai")
        == ()
    )
    assert {call.id for message in mended.messages for call in message.tool_calls} <= {"a"}
    assert (kind == "orphan-tool-result") is (ASK not in mended.messages)
    assert (kind == "missing-tool-result") is (UNAVAILABLE in str(mended.messages))
    assert mend(mended.messages).findings == ()


@pytest.mark.spec("V-03", "TR-04", "TR-12")
def test_row_7_the_fifth_a_torn_line_costs_itself_alone() -> None:
    repaired = repair_transcript(RAW + WRITTEN[0][:40])
    assert [finding.kind for finding in repaired.report.findings] == ["truncated-json"]
    assert repaired.report.is_recoverable
    assert repaired.messages == repair_transcript(RAW).messages


# ── row 8: the window ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("V-03", "W-06", "DX-72")
@pytest.mark.parametrize(
    ("percent", "status", "compact"),
    [(69, "safe", False), (70, "warning", False), (85, "critical", True), (95, "exceeded", True)],
)
def test_row_8_the_status_follows_the_tokens_up_and_down(percent: int, status: Status, compact: bool) -> None:
    window = Capacity(200_000)

    def look(share: int) -> Any:
        return window.state(2_000 * share, Breakdown(conversation=2_000 * share))

    for share in (percent, 99, percent, 1, percent):
        state = look(share)
    assert (state.status, state.compaction_needed) == (status, compact)
    assert state.usage_ratio == pytest.approx(percent / 100)


# ── row 9: four ways of compaction ──────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("V-03", "CP-01", "CP-19", "DX-38", "DX-40")
@pytest.mark.parametrize(
    ("strategy", "share"), [("summarize", 3), ("truncate-oldest", 3), ("truncate-tools", 2), ("hybrid", 3)]
)
async def test_row_9_each_strategy_makes_it_fit_in_its_own_way(strategy: Strategy, share: int) -> None:
    """No call is parted from its result, as the seed's cutting may do (DX-38); and its mix is only a summary where
    ours shortens results too (DX-40).
    """
    messages = talk(20, words=1_000, result=4_000)
    desk, target = CompactionDesk(), size(messages) // share
    done = await desk.compact(messages, target, strategy=strategy)
    assert (done.strategy, done.after_tokens <= target) == (strategy, True)
    before = {message.id: message for message in messages}
    shortened = [each for each in done.messages if each.role == "tool" and each is not before[each.id]]
    summarised = strategy in ("summarize", "hybrid")
    assert bool(desk.writer.asked) is (done.summary is not None)
    assert summarised or not desk.writer.asked
    assert bool(shortened) is (strategy in ("truncate-tools", "hybrid"))
    assert (done.removed_count > 0) is (strategy != "truncate-tools")
    if strategy == "summarize":
        assert summary_of(done).text.startswith(HEADING)


@pytest.mark.spec("V-03", "CP-04", "CP-06")
async def test_row_9_what_fits_is_left_alone_and_the_end_never_begins_with_an_orphan() -> None:
    pair = (asks("a", "c"), tells("t", ("c", "row")))
    messages = (*talk(10), entry("u", "user", "now?"), *pair)
    desk = CompactionDesk()
    assert (await desk.compact(messages, size(messages))).messages is messages
    done = await desk.compact(messages, size(messages) // 3, strategy="truncate-oldest", recent=1)
    assert done.messages[-2:] == pair


# ── row 10: the system prompt ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("V-03", "SP-04", "SP-08", "SP-09")
def test_row_10_fifteen_sections_and_the_finance_ones_in_every_mode() -> None:
    """What changes with every message stands in a passing message, so that a provider's cache keeps the rest; and the
    seed's minimal prompt forgets the rules of finance.
    """
    full = context(
        capabilities=Capabilities(max_length=160),
        provided={"investment_profile": {"risk_tolerance": "moderate"}, "current_state": "open", "memory": "likes tea"},
    )
    there = [*ids(build_prompt(parts()).sections), *ids(turn_context_sections(full, "retail"))]
    assert there == [*CACHED, *VOLATILE]
    assert len(there) == 15
    for level in LEVELS:
        for mode in MODES:
            sections = ids(build_prompt(parts(compliance=level), mode).sections)
            assert mode == "none" or {"compliance", "risk-disclaimer"} <= set(sections)
    assert "finance-context" in ids(build_prompt(parts()).sections)
