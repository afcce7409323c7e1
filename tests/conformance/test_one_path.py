"""The one path of every tool call: who looks at it, in which order, and what everybody learns of its end."""

import ast
import asyncio
import os
import re
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec import Struct
from tests.agent.bench import Bench
from tests.tools.own_tool import Own
from tests.walks.house import House, in_virtual_time
from tests.walks.tools import Desk, hang

import finclaw
from finclaw.agent.settings import AgentSettings, ExtensionRef
from finclaw.approvals.people import PersonSettings
from finclaw.composition.extensions import load_registrar
from finclaw.errors import ExtensionError, ToolError
from finclaw.extensions.loading import OWN
from finclaw.kernel.chunk import ModelRequest, ToolSpec
from finclaw.kernel.envelope import Sender
from finclaw.kernel.event import PolicyDenied, PolicyJudged, ToolTimedOut, all_events
from finclaw.kernel.message import ToolResult
from finclaw.kernel.port import Tool, ToolScope
from finclaw.kernel.scope import ToolCallContext
from finclaw.policy.condition import Condition
from finclaw.policy.policy import STAGES, Policy, Stage
from finclaw.policy.rule import Rule
from finclaw.policy.verdict import PolicyContext, StageVerdict, facts_of
from finclaw.testing import Reply, call, reply
from finclaw.tools.define import ToolOptions, raw_tool, tool
from finclaw.tools.registry import ToolRegistry

CARD = "card 4111 1111 1111 1111"
SOURCE = Path(finclaw.__file__).parent


class Order(Struct):
    symbol: str
    amount: int = 1


class Watched:
    """A tool that moves money on a bench of its own; whatever happens to a call is noted in one list."""

    def __init__(self, *rules: Rule) -> None:
        self.steps: list[Any] = []
        self.bench = Bench(
            tools=[self._tool()],
            tool_call=[self._layer],
            consent=self._consent,
            policy=Policy(rules),
            events=self.steps,
        )

    def order(self, *calls: dict[str, Any]) -> list[str]:
        self.bench.run(*(reply(call("order", args)) for args in calls), "done")
        return [word for each in self.steps if (word := _word(each))]

    def _tool(self) -> Tool:
        @tool("order", "Orders.", group="finance", transactional=True)
        async def order(args: Order, scope: ToolScope) -> str:
            self.steps.append(f"run {args.amount}")
            return CARD

        return order

    async def _layer(self, ctx: ToolCallContext) -> ToolResult:
        self.steps.append("in")
        ctx.args = {**ctx.args, "amount": ctx.args.get("amount", 0)}
        result = await ctx.next()
        self.steps.append(f"out: {result.content}" if result.status == "ok" else f"out {result.status}")
        return result

    async def _consent(self, tool: Tool, args: Any, scope: ToolScope) -> bool:
        self.steps.append(f"asked {args['amount']}")
        return True


def _word(step: object) -> str:
    if isinstance(step, PolicyJudged | PolicyDenied):
        return "judged" if isinstance(step, PolicyJudged) else "denied"
    return step if isinstance(step, str) else ""


# ── the order ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("T-13", "T-21", "X-09", "DX-28", "DX-29", "DX-51")
def test_layers_then_policy_then_a_person_then_the_run_and_the_guard_last() -> None:
    watched = Watched()
    assert watched.order({"symbol": "A", "amount": 7}) == ["in", "judged", "asked 7", "run 7", f"out: {CARD}"]
    assert [result.content for result in watched.bench.results] == ["card [card …1111]"], "the guard has the last word"


@pytest.mark.spec("T-13", "T-17", "DX-24", "DX-28")
def test_what_does_not_fit_the_schema_is_not_even_judged_and_the_path_is_named() -> None:
    """Also when it is a layer that spoilt it."""
    watched = Watched()
    assert watched.order({"symbol": 7, "amount": "many"}) == ["in", "out invalid"]
    (result,) = watched.bench.results
    assert "amount" in result.content
    assert "symbol" in result.content


@pytest.mark.spec("T-13", "T-14", "E-08", "E-09", "DX-29")
def test_what_is_denied_asks_nobody_and_its_layer_hears_of_it() -> None:
    watched = Watched(Rule("order", "deny", reason=f"not for {CARD}"))
    assert watched.order({"symbol": "A"}) == ["in", "judged", "denied", "out denied"]
    (result,) = watched.bench.results
    assert result.is_error
    assert "not for card [card …1111]" in result.content, "with its reason, and guarded"


@pytest.mark.spec("T-13")
def test_the_loop_guard_stands_before_all_of_it() -> None:
    """What would bring nothing new reaches no layer, and nobody is asked about it a fifth time."""
    watched = Watched()
    steps = watched.order(*[{"symbol": "A"}] * 5)
    assert steps.count("in") == steps.count("judged") == 4
    assert watched.bench.results[-1].status == "denied"


@pytest.mark.spec("X-09", "DX-29", "X-10", "T-16")
def test_a_layer_sees_every_outcome() -> None:
    seen: dict[str, str] = {}

    async def watch(ctx: ToolCallContext) -> ToolResult:
        result = await ctx.next()
        seen[ctx.call_id] = result.status
        return result

    async def fail(text: str, scope: ToolScope) -> str:
        raise ToolError("closed")

    async def crash(text: str, scope: ToolScope) -> str:
        raise ZeroDivisionError

    desk = Desk()
    tools = [
        desk.tool("fine"),
        desk.tool("failing", fail),
        desk.tool("crashing", crash),
        desk.tool("hanging", hang, timeout=1),
        desk.tool("forbidden"),
        desk.tool("order", transactional=True),
    ]
    bench = Bench(tools=tools, tool_call=[watch], policy=Policy([Rule("forbidden", "deny")]))
    names = [each.spec.name for each in tools]
    wrong = call("fine", {"text": 7}, id="wrong")
    bench.run(reply(*(call(name, id=name) for name in [*names, "nowhere"]), wrong), "done")
    assert seen == {result.call_id: result.status for result in bench.results}
    assert seen == {
        "fine": "ok",
        "failing": "error",
        "crashing": "error",
        "hanging": "timeout",
        "forbidden": "denied",
        "order": "denied",
        "nowhere": "error",
        "wrong": "invalid",
    }


# ── one result ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("T-08", "T-12", "X-04", "X-07", "X-08", "DX-51")
def test_known_unknown_parallel_and_oversized_come_back_as_one_type_in_call_order() -> None:
    async def slow(text: str, scope: ToolScope) -> str:
        await asyncio.sleep(1)
        return "x" * 200_000

    async def quick(text: str, scope: ToolScope) -> str:
        return text

    left_the_ring: list[object] = []

    async def watch(ctx: ToolCallContext) -> ToolResult:
        left_the_ring.append(await ctx.next())
        return left_the_ring[-1]  # pyright: ignore[reportReturnType]

    desk = Desk()
    bench = Bench(tools=[desk.tool("slow", slow), desk.tool("quick", quick)], tool_call=[watch])
    calls = [call("slow", id="a"), call("nowhere", id="b"), call("quick", {"text": "q"}, id="c")]
    bench.run(reply(*calls, call("slow", {"text": "again"}, id="d")), "done")
    assert bench.clock.monotonic() == 1, "side by side"
    assert bench.provider is not None
    told = bench.provider.requests[-1].messages[-1].tool_results
    assert told == bench.results, "what the model reads is what is kept"
    assert {type(each) for each in (*told, *left_the_ring)} == {ToolResult}
    assert [(each.call_id, each.is_error) for each in told] == [("a", False), ("b", True), ("c", False), ("d", False)]
    assert [len(each.content) <= 10_000 for each in told] == [True] * 4
    assert "there is no tool 'nowhere' here" in told[1].content


@pytest.mark.spec("X-03", "DX-51")
def test_twenty_calls_run_eight_at_once() -> None:
    running, most = 0, 0

    async def count(text: str, scope: ToolScope) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(1)
        running -= 1
        return text

    bench = Bench(tools=[Desk().tool("count", count)])
    bench.run(reply(*(call("count", {"text": str(number)}) for number in range(20))), "done")
    assert (most, bench.clock.monotonic()) == (8, 3)
    assert [result.content for result in bench.results] == [str(number) for number in range(20)]


@pytest.mark.spec("X-05", "RG-05", "DX-32")
@in_virtual_time
async def test_what_is_not_shown_can_be_read_on_to_its_end(house: House) -> None:
    lines = "".join(f"row {number:05}\n" for number in range(3_000))

    async def much(text: str, scope: ToolScope) -> str:
        return lines

    def reads_on(request: ModelRequest) -> Reply:
        if not request.messages[-1].tool_results:
            return reply(call("much"))
        told = request.messages[-1].tool_results[0].content
        more = re.search(r"read on with start=(\d+)", told)
        if more is None and "call read_result" not in told:
            return reply("done")
        return reply(call("read_result", {"start": int(more[1]) if more else 0}))

    async with house.open(reads_on, tools=[Desk().tool("much", much)]) as gateway:
        assert (await gateway.ask("go")).reply == "done"
        shown, *parts = [result.content for result in gateway.results]
    assert len(shown) <= 10_000
    assert "row 00000" in shown
    assert "row 01500" not in shown
    assert "row 02999" in shown
    assert "".join(part.partition("\n")[2] for part in parts) == lines


@pytest.mark.spec("RG-11", "T-16", "X-06")
@pytest.mark.parametrize("how", ["its own word", "a surprise"])
def test_neither_traces_nor_secrets_of_a_failure_are_told(how: Literal["its own word", "a surprise"]) -> None:
    trace = f'Traceback (most recent call last):\n  File "/srv/a.py", line 3, in f\n    g()\nValueError: {CARD}'

    async def fail(text: str, scope: ToolScope) -> str:
        raise (
            ToolError(f"no quote\n{trace}", suggestion=f"pay with {CARD}") if how == "its own word" else OSError(trace)
        )

    bench = Bench(tools=[Desk().tool("fail", fail)])
    bench.run(reply(call("fail")), "done")
    (result,) = bench.results
    assert result.error is not None
    for said in (result.content, result.error.message, result.error.suggestion or ""):
        assert "/srv" not in said
        assert "4111" not in said
    assert ("no quote" in result.content) is (how == "its own word")


# ── time ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("P-39", "T-18", "E-07", "V-08")
def test_a_tool_has_thirty_seconds_and_leaves_nothing_behind() -> None:
    desk = Desk()
    bench = Bench(tools=[desk.tool("hang", hang)])

    async def main() -> int:
        assert (await bench.go(reply(call("hang")), "It took too long.")).text == "It took too long."
        return len(asyncio.all_tasks())

    assert bench.clock.run(main()) == 1
    assert (bench.clock.monotonic(), desk.cancelled, bench.results[0].status) == (30, ["hang"], "timeout")
    assert [event.timeout for event in bench.events if isinstance(event, ToolTimedOut)] == [30]


@pytest.mark.spec("V-08")
@pytest.mark.parametrize("ill", ["fails", "hangs", "loops"])
@in_virtual_time
async def test_whatever_is_wrong_with_a_tool_the_person_gets_an_answer_and_the_next_one(house: House, ill: str) -> None:
    async def fails(text: str, scope: ToolScope) -> str:
        raise RuntimeError("a bug")

    desk = Desk()
    body = {"fails": fails, "hangs": hang, "loops": None}[ill]
    times = 8 if ill == "loops" else 1
    script = [reply(call("ill")) for _ in range(times)]
    ends = () if ill == "loops" else ("I could not look.",)
    async with house.open(*script, *ends, "Fine.", tools=[desk.tool("ill", body)]) as gateway:
        outcome = await gateway.ask("look")
        assert outcome.kind == ("failed" if ill == "loops" else "answered")
        assert len(gateway.said) == 1
        assert gateway.said[0]
        assert (await gateway.ask("and you?")).reply == "Fine."


# ── what policy sees ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("Y-03", "DX-23")
def test_policy_is_asked_about_final_arguments_for_somebody_somewhere() -> None:
    asked: list[PolicyContext] = []

    def note(ctx: PolicyContext, _: object) -> StageVerdict:
        asked.append(ctx)
        return StageVerdict("note", "continue", "only looking")

    async def double(ctx: ToolCallContext) -> ToolResult:
        ctx.args = {"text": ctx.args["text"] * 2}
        return await ctx.next()

    policy = Policy([Rule("*", "allow")], stages=[Stage("note", note), *STAGES])
    bench = Bench(tools=[Desk().tool("look")], tool_call=[double], policy=policy)
    bench.run(reply(call("look", {"text": "ab"})), "done")
    (ctx,) = asked
    assert (ctx.tool.name, ctx.tool.group, ctx.args) == ("look", "finance", {"text": "abab"})
    assert (ctx.agent, ctx.session) == ("main", "s")
    assert ctx.user.startswith(f"{ctx.channel}:")


@pytest.mark.spec("Y-03", "DX-23")
@pytest.mark.parametrize(
    ("rule", "denied"),
    [
        (Rule("look", "deny", "user", ("memory:ann",)), True),
        (Rule("look", "deny", "user", ("memory:bob",)), False),
        (Rule("look", "deny", "role", ("guest",)), True),
        (Rule("look", "deny", "role", ("trader",)), False),
        (Rule("look", "deny", "channel", ("memory",)), True),
        (Rule("look", "deny", "channel", ("telegram",)), False),
        (Rule("look", "deny", "agent", ("main",)), True),
        (Rule("look", "deny", "group", ("finance",)), True),
        (Rule("look", "deny", when=(Condition(path="text", op="eq", value="x"),)), True),
        (Rule("look", "deny", when=(Condition(path="text", op="eq", value="y"),)), False),
    ],
    ids=str,
)
@in_virtual_time
async def test_every_scope_of_a_rule_holds_in_a_whole_message(house: House, rule: Rule, denied: bool) -> None:
    ann = PersonSettings(name="Ann", known_as=("memory:local:ann",), roles=("guest",))
    desk = Desk()
    script = (reply(call("look", {"text": "x"})), "done")
    async with house.open(*script, tools=[desk.tool("look")], rules=[rule], people=[ann]) as gateway:
        await gateway.ask("go", sender="ann")
        assert [result.status for result in gateway.results] == ["denied" if denied else "ok"]
    assert bool(desk.runs) is not denied


@pytest.mark.spec("H-07", "T-14")
@in_virtual_time
async def test_what_an_extension_brings_is_judged_like_our_own(house: House) -> None:
    desk = Desk()
    quote = call("market__quote", {"symbol": "AAPL"})
    rules = (Rule("*", "deny", "user", ("memory:local",), reason="not today"), Rule("*", "deny", reason="not today"))
    script = (reply(call("look"), quote), "I may not.")
    async with house.open(*script, tools=[desk.tool("look")], rules=rules) as gateway:
        await gateway.ask("AAPL?")
        assert [(result.name, result.status) for result in gateway.results] == [
            ("look", "denied"),
            ("market__quote", "denied"),
        ]
        assert all("not today" in result.content for result in gateway.results)
    assert desk.runs == []


# ── definitions ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("X-01", "T-06")
async def test_a_plain_handler_is_a_tool() -> None:
    """Input in, text out, with or without a scope; in the loop or, where it blocks, in a thread."""
    scope = ToolScope(session="s", turn_id="t", call_id="c", sender=Sender("u"))

    async def raw(args: dict[str, Any], scope: ToolScope) -> str:
        return f"{args['x']} for {scope.sender.id}"

    @tool("plain__one", "Plain.")
    def plain(x: int) -> str:
        return f"{x}"

    handlers = [raw_tool("raw__one", "Raw.", {"type": "object"}, raw), plain]
    registry = ToolRegistry()
    for each in handlers:
        registry.register(each)
    assert [(await each.run({"x": 3}, scope)).content for each in registry.list()] == ["3 for u", "3"]


@pytest.mark.spec("DX-27", "T-02")
def test_a_definition_has_one_list_of_fields_under_one_name() -> None:
    """What `@tool` takes, what a class of one's own has, what the registry asks for and what `kernel/tool.py` tells
    are the same.
    """
    fields = list(ToolOptions.__annotations__)
    protocol = [name for name, value in vars(Tool).items() if isinstance(value, property) and name != "spec"]
    assert sorted(protocol) == sorted(fields)
    assert all(hasattr(Own(), field) for field in fields)
    bare = type("Bare", (), {"spec": ToolSpec("bare__one", "", {})})()
    with pytest.raises(ExtensionError) as refused:
        ToolRegistry().register(bare)  # pyright: ignore[reportArgumentType]
    assert all(field in str(refused.value) for field in fields)
    given: ToolOptions = {
        "group": "data",
        "transactional": True,
        "parallel_safe": False,
        "timeout": 3.0,
        "approval": True,
        "sensitive": True,
        "upstream": "api.example.com",
        "isolation": "loop",
    }
    made = tool("all__of_it", "All.", **given)(_nothing)
    assert {field: getattr(made, field) for field in given} == given
    with pytest.raises(ExtensionError, match="there is no colour; there is group, transactional"):
        tool("odd__one", "Odd.", colour="red")(_nothing)  # pyright: ignore[reportCallIssue]


async def _nothing() -> str:
    return ""


@pytest.mark.spec("X-11")
def test_no_shell_ships(tmp_path: Path) -> None:
    """Of all that we offer, listed or not, nothing takes a command or a program to run."""
    assert {"memory", "skills", "web", "workspace"} <= set(OWN)
    needed = {"skills": {"directory": str(tmp_path)}, "workspace": {"root": str(tmp_path)}}
    use = tuple(ExtensionRef(name, needed.get(name, {})) for name in OWN)
    ours = load_registrar(finclaw.Settings(state=tmp_path, agent=AgentSettings(extensions=use))).tools.list()
    words = {"command", "cmd", "shell", "script", "argv", "code", "program"}
    taken = {each.spec.name: words & set(each.spec.input_schema["properties"]) for each in ours}
    assert {name: found for name, found in taken.items() if found} == {}
    assert len(taken) > 5


@tool("shell__run", "Runs a command.", group="system", isolation="process")
def shell(command: str) -> str:
    told = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    supervisor = Path(f"/proc/{os.getppid()}/status").read_text()
    return f"{told.stdout.strip()} {supervisor.partition('PPid:')[2].split()[0]}"


@pytest.mark.spec("X-11")
async def test_one_that_an_extension_adds_runs_on_this_machine_and_only_with_a_persons_word() -> None:
    scope = ToolScope(session="s", turn_id="t", call_id="c", sender=Sender("u"))
    assert (await shell.run({"command": "uname -n"}, scope)).content == f"{os.uname().nodename} {os.getpid()}"
    assert Policy().judge(PolicyContext(tool=facts_of(shell, "mine"))).verdict == "require-approval"


# ── events ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("E-17")
def test_each_event_is_made_in_the_one_place_where_the_thing_happens() -> None:
    """But for four that different things lead to: the removal of one tool and of all, a mending on disk and in the
    request, words that come and words that had come before a crash, a message that waits for its turn, waits for a seat
    or joins another's turn.
    """
    kinds = {kind.__name__: kind.name for kind in all_events()}
    places: defaultdict[str, set[str]] = defaultdict(set)
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in kinds:
                places[kinds[node.func.id]].add(path.relative_to(SOURCE).as_posix())
    assert set(places) == set(kinds.values()), "none that nobody tells"
    several = {name for name, files in places.items() if len(files) > 1}
    assert several == {"tool:unregister", "session:repair", "stream:text_delta", "queue:change"}
    told_by = {name: next(iter(places[name])) for name in places if name not in several}
    assert told_by["tool:policy:verdict"] == told_by["tool:policy:deny"] == "policy/policy.py"
    assert told_by["tool:execute:timeout"] == told_by["tool:circuit:change"] == "agent/tool_call.py"
    assert told_by["session:lock:acquire"] == told_by["session:lock:stale"]
