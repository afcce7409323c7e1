"""`finclaw trace`: what became of a message, as a tree: message, turn, steps, calls, approvals, times and costs."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from textwrap import wrap
from typing import Any
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from finclaw.agent.budget.call_ledger import usage_of
from finclaw.agent.model.answer import stop_of
from finclaw.approvals.display import quote_text
from finclaw.cli import formatting
from finclaw.cli.arguments import add_turn_argument, settings_to_look
from finclaw.cli.attach import attach, find_turn
from finclaw.cli.formatting import fit_line, local_time, milliseconds, money, plural, short, terminal_columns
from finclaw.kernel.approval import Approval
from finclaw.kernel.chunk import StopReason, Usage
from finclaw.kernel.envelope import OPTIONS
from finclaw.kernel.event import ApprovalChange
from finclaw.kernel.message import Message, ToolCall, ToolResult, ToolStatus, as_seen
from finclaw.kernel.record import TurnTrace
from finclaw.kernel.scope import OutcomeKind, StageEntry
from finclaw.web.approvals import ApprovalsView


def arguments(parser: ArgumentParser) -> None:
    add_turn_argument(parser)


def run(args: Namespace) -> None:
    settings = settings_to_look(args)
    with attach(settings) as client:
        story = find_turn(client, settings, args.turn)
        query = urlencode({"state": "all", "limit": 500, "session": story.record.session})
        approvals = client.call("GET", f"/api/v1/approvals?{query}", ApprovalsView).items
    trace = trace_of(story, approvals)
    formatting.print_result(args, trace, (fit_line(line, terminal_columns()) for line in tree_lines(trace)))


class TracedChange(Struct, frozen=True, kw_only=True):
    """A change of an approval. `at` is None where the record does not say when; `by` is a person or a turn."""

    change: ApprovalChange
    at: datetime | None = None
    by: str = ""


class TracedApproval(Struct, frozen=True):
    approval_id: str
    call_id: str
    tool: str
    changes: tuple[TracedChange, ...]


def approvals_of(story: TurnTrace, known: Iterable[Approval]) -> tuple[TracedApproval, ...]:
    """Those of this turn, in the order in which they were asked for: the one it ran first, then those it asked for."""
    turn_id = story.record.turn_id
    ran = story.inbound.limits and story.inbound.limits.approval
    own = [each for each in known if turn_id in (each.turn_id, each.used_by) or each.id == ran]
    own.sort(key=lambda each: each.asked_at)
    return tuple(TracedApproval(each.id, each.call_id, each.tool, tuple(_changes(each))) for each in own)


def _changes(approval: Approval) -> Iterator[TracedChange]:
    if approval.lapsed:
        yield TracedChange(change="lapsed", by=approval.lapsed)
    yield TracedChange(change="asked", at=approval.asked_at, by=approval.asked_by)
    yield from (TracedChange(change="notified", by=each.name) for each in approval.sent_to)
    if approval.reminded_at is not None:
        yield TracedChange(change="reminded", at=approval.reminded_at)
    if approval.decided_at is not None:
        change = "denied" if approval.state == "denied" else "approved"
        yield TracedChange(change=change, at=approval.decided_at, by=approval.decided_by or "")
    if approval.state in ("used", "failed"):
        change = "run" if approval.state == "used" else "failed"
        yield TracedChange(change=change, by=approval.used_by or "")
    elif approval.state == "expired":
        yield TracedChange(change="expired", at=approval.expires_at)


class TracedCall(Struct, frozen=True):
    """A tool call. `status` is None while it runs."""

    call_id: str
    tool: str
    arguments: dict[str, Any] | str
    status: ToolStatus | None = None
    ms: float | None = None
    facts: int = 0


class TracedStep(Struct, frozen=True, kw_only=True):
    """A step of a turn: one answer of the model, and its tool calls. `ms` is the time until the model's answer was
    there; model and cost are None where they were not recorded."""

    model: str | None
    instead_of: str | None
    stop: StopReason
    wordless: bool
    """The model itself said nothing and called nothing; `text` is what the gateway said for it."""
    ms: float
    usage: Usage
    cost: Decimal | None
    text: str
    calls: tuple[TracedCall, ...]


class TracedTurn(Struct, frozen=True, kw_only=True):
    turn_id: str
    status: str
    started_at: datetime
    ms: float | None
    usage: Usage
    cost: Decimal
    approvals: tuple[TracedApproval, ...]
    """What it ran because somebody had approved it, and what it asked for."""
    steps: tuple[TracedStep, ...]
    whole: bool


class TracedJoin(Struct, frozen=True):
    message_id: str
    accepted_at: datetime
    text: str


class Trace(Struct, frozen=True, kw_only=True):
    """The message is the root; its outcome is None while it has none."""

    message_id: str
    session: str
    channel: str
    sender: str
    accepted_at: datetime
    text: str
    outcome: OutcomeKind | None = None
    reason: str = ""
    ms: float | None = None
    stages: tuple[StageEntry, ...] = ()
    joined: tuple[TracedJoin, ...]  # other messages that its turn has answered
    turn: TracedTurn
    options: Mapping[str, Any] = {}
    """What directives had set for the turn, in the message itself or for its session."""


def trace_of(story: TurnTrace, known: Sequence[Approval] = ()) -> Trace:
    """`known` are approvals; those that are not this turn's are left out."""
    inbound = story.inbound
    record = story.record
    steps = tuple(_steps(story))
    known_end: dict[str, Any] = {}
    if (end := story.outcome) is not None:
        known_end = {"outcome": end.kind, "reason": end.reason, "ms": end.duration_ms, "stages": end.stages}
    if story.messages:
        known_end["options"] = story.messages[0].metadata.get(OPTIONS, {})
    return Trace(
        message_id=record.inbound_id,
        session=record.session,
        channel=inbound.channel,
        sender=inbound.sender.id,
        accepted_at=story.accepted_at,
        text=inbound.text,
        **known_end,
        joined=tuple(TracedJoin(each.inbound_id, each.accepted_at, each.inbound.text) for each in story.joined),
        turn=TracedTurn(
            turn_id=record.turn_id,
            status=record.status,
            started_at=record.started_at,
            ms=formatting.turn_ms(record),
            usage=sum((step.usage for step in steps), Usage()) if record.ended_at is None else record.usage,
            cost=record.cost,
            approvals=approvals_of(story, known),
            steps=steps,
            whole=story.whole,
        ),
    )


def _steps(story: TurnTrace) -> Iterator[TracedStep]:
    results = {result.call_id: result for message in story.messages for result in message.tool_results}
    for before, message in pairwise(story.messages):
        if message.source.kind != "assistant":
            continue
        own = message.metadata.get("model_text", message.text)
        yield TracedStep(
            model=message.metadata.get("model"),
            instead_of=message.metadata.get("instead_of"),
            stop=stop_of(message),
            wordless=not message.tool_calls and (own == 0 or not str(own).strip()),
            ms=(message.created_at - before.created_at).total_seconds() * 1000,
            usage=usage_of(message),
            cost=_cost(story, message),
            text=as_seen(message).text,
            calls=tuple(_call(call, results.get(call.id)) for call in message.tool_calls),
        )


def _cost(story: TurnTrace, answer: Message) -> Decimal | None:
    """A turn of one step tells its step's cost, and one that was free tells them all."""
    if "cost" in answer.metadata:
        return Decimal(str(answer.metadata["cost"]))
    record = story.record
    if record.ended_at is not None and (record.steps == 1 or record.cost.is_zero()):
        return record.cost
    return None


def _call(call: ToolCall, result: ToolResult | None) -> TracedCall:
    arguments = call.args if call.bad_args is None else call.bad_args
    if result is None:
        return TracedCall(call.id, call.name, arguments)
    return TracedCall(call.id, call.name, arguments, result.status, result.ms, len(result.facts))


def tree_lines(trace: Trace) -> Iterator[str]:
    ended = "not ended yet" if trace.outcome is None else f"{trace.outcome} in {milliseconds(trace.ms)}"
    yield f"message {trace.message_id}  {ended}"
    yield f"│  accepted  {local_time(trace.accepted_at)} from {short(trace.sender, 40)} on {trace.channel}"
    yield f"│  session   {short(trace.session, 100)}"
    yield f"│  text      {short(trace.text, 100)}"
    for each in trace.joined:
        yield f"│  joined    {each.message_id}  {local_time(each.accepted_at)}  {short(each.text, 80)}"
    label = "reason"
    # All of it: what to do is said at its end. In one line for a program that looks for something in it.
    for line in wrap(short(trace.reason, 2_000), max((terminal_columns() or 2_013) - 13, 20)):
        yield f"│  {label:<8}  {line}"
        label = ""
    if trace.stages:
        yield f"│  stages    {', '.join(f'{stage.name} {stage.ms:.1f}' for stage in trace.stages)} ms"
    if trace.options:
        yield f"│  options   {short(', '.join(f'{name} {value}' for name, value in trace.options.items()), 100)}"
    for stage in trace.stages:
        if stage.name == "dispatch" and stage.result == "continue" and stage.reason:
            yield f"│  queued    {stage.reason}"
    yield from _turn_lines(trace.turn)


def _turn_lines(turn: TracedTurn) -> Iterator[str]:
    known = [plural(len(turn.steps), "step"), milliseconds(turn.ms), formatting.tokens(turn.usage), money(turn.cost)]
    yield f"└─ turn {turn.turn_id}  {turn.status}  {'  '.join(known)}"
    if turn.status == "undone":
        yield "   (taken back by /undo or /retry: its words are not part of the conversation any more)"
    elif not turn.whole:
        yield "   (the conversation was reset or shortened since: this is what is left of the turn)"
    asked = {each.call_id: each for each in turn.approvals}
    here = {call.call_id for step in turn.steps for call in step.calls}
    branches = [_approval_lines(each) for each in turn.approvals if each.call_id not in here]
    branches += [list(_step_lines(number, step, asked)) for number, step in enumerate(turn.steps, 1)]
    yield from (f"   {line}" for line in _draw(branches))


def _draw(branches: Sequence[Sequence[str]]) -> Iterator[str]:
    """Draw branches that stand below one another, each with a first line and the lines that belong to it."""
    for number, (first, *rest) in enumerate(branches, 1):
        is_last = number == len(branches)
        corner = "└" if is_last else "├"
        edge = " " if is_last else "│"
        yield f"{corner}─ {first}"
        yield from (f"{edge}  {line}" for line in rest)


def _approval_lines(approval: TracedApproval) -> list[str]:
    lines = [f"approval {approval.approval_id}  {short(approval.tool, 64)}"]
    for change in approval.changes:
        at = "" if change.at is None else f"  {local_time(change.at)}"
        by = f"  {short(quote_text(change.by)[1:-1], 80)}" if change.by else ""
        lines.append(f"   {change.change:<8}{at}{by}".rstrip())
    return lines


def _step_lines(number: int, step: TracedStep, asked: Mapping[str, TracedApproval]) -> Iterator[str]:
    known = [milliseconds(step.ms), formatting.tokens(step.usage), *_remarks(step)]
    if step.model is not None:
        known.insert(0, step.model)
    yield f"step {number}  {'  '.join(known)}"
    for text in step.text.strip().splitlines()[:1]:
        margin = "│  " if step.calls else ""
        yield f"{margin}“{short(text, 100)}”"
    branches: list[list[str]] = []
    for call in step.calls:
        approval = asked.get(call.call_id)
        branches.append([_call_line(call), *(_approval_lines(approval) if approval else ())])
    yield from _draw(branches)


def _remarks(step: TracedStep) -> Iterator[str]:
    if step.cost is not None:
        yield money(step.cost)
    if step.instead_of is not None:
        yield f"instead of {step.instead_of}"
    if step.stop == "max_tokens":
        yield "cut off: agent.max_tokens or the model's own limit was reached"
    if step.stop == "refusal":
        yield "refused: the provider's rules, not ours"
    if step.wordless:
        yield "the model said nothing; what was said for it:"


def _call_line(call: TracedCall) -> str:
    arguments = call.arguments
    if not isinstance(arguments, str):
        arguments = msgspec.json.encode(arguments).decode()
    known = [call.status or "running", milliseconds(call.ms)]
    if call.facts:
        known.append(plural(call.facts, "fact"))
    return f"{short(call.tool, 64)}  {'  '.join(known)}  {short(arguments, 80)}"
