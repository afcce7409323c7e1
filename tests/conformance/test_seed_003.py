"""Seed 003, rule by rule: what a layer is, how layers are registered, and in which order they run (§2, §5, §6, §11).

The name of each test has the section and the number of its rule. Where we deviate on purpose, the test shows what we
do and its docstring says why; the reasons are the defects DX-55 to DX-65 of the seed.
"""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.conformance.onion import STANDARD, Extending, Heard, extended
from tests.walks.house import AnyRegistration, House, in_virtual_time
from tests.walks.tools import Desk

import finclaw
from finclaw.agent.settings import AgentSettings, ExtensionRef
from finclaw.errors import ExtensionError
from finclaw.kernel.envelope import Outbound
from finclaw.kernel.event import ShortCircuited
from finclaw.kernel.extension import RING_NAMES, ExtensionApi, PipelineApi, RingName
from finclaw.kernel.message import ToolResult
from finclaw.kernel.scope import DeliveryContext, MessageContext, Outcome, ToolCallContext, TurnContext, TurnResult
from finclaw.testing import MemoryChannel, ScriptedProvider, call, reply

HOME = Path(__file__).resolve().parents[2]
LOOK = reply(call("look", {"text": "x"}))
"""A model's answer that asks for the tool of that name."""


def registering(name: str, *layers: tuple[Any, ...]) -> Extending:
    """An extension that registers these: ring, layer and perhaps a priority."""

    def register(api: ExtensionApi) -> None:
        for ring, layer, *priority in layers:
            api.pipeline.register(ring, layer, priority=priority[0] if priority else 0)

    return Extending(name, register)


# ── §2: rules for every layer ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("MW-01", "H-01")
@in_virtual_time
async def test_2_1_must_every_modifying_hook_is_a_layer(house: House) -> None:
    """The page for extensions has one way to change what happens. Observers get frozen events, and whatever they
    return, raise or try to change goes nowhere.
    """
    assert [name for name in vars(PipelineApi) if not name.startswith("_")] == ["register"]
    tried: list[str] = []

    def meddle(event: Any) -> Any:
        tried.append(event.name)
        with pytest.raises(AttributeError):
            event.agent = "somebody else"
        raise RuntimeError("stop everything")

    async with extended(house, Extending("mine", lambda api: api.events.observe(meddle)), script=["done"]) as gateway:
        assert (await gateway.ask("go")).reply == "done"
        assert tried == [event.name for event in gateway.events if event.name != "tool:register"]


@pytest.mark.spec("MW-02")
@pytest.mark.parametrize("ring", RING_NAMES)
@in_virtual_time
async def test_2_2_must_a_layer_runs_the_rest_by_next(house: House, ring: Any) -> None:
    """In every ring: what lies inside runs while the layer waits for next(), and at no other time."""
    heard = Heard()
    layers: list[AnyRegistration] = [(ring, heard.layer("outer")), (ring, heard.layer("inner"))]
    async with house.open(LOOK, "done", layers=layers, tools=[Desk().tool("look")]) as gateway:
        await gateway.ask("go")
    assert heard[:4] == ["outer(", "inner(", ")inner", ")outer"]


@pytest.mark.spec("MW-03")
@in_virtual_time
async def test_2_3_before_next_is_earlier_and_behind_it_is_later(house: House) -> None:
    ran: list[int] = []
    desk = Desk()

    async def around(ctx: TurnContext) -> TurnResult:
        ran.append(len(desk.runs))
        result = await ctx.next()
        ran.append(len(desk.runs))
        return result

    async with house.open(LOOK, "done", layers=[("turn", around)], tools=[desk.tool("look")]) as gateway:
        await gateway.ask("go")
    assert ran == [0, 1]


@pytest.mark.spec("MW-04", "DX-55")
@in_virtual_time
async def test_2_4_must_a_second_next_is_refused(house: House) -> None:
    """The seed asks for exactly one call and enforces nothing; here a second one raises and the core ran once."""
    refused: list[str] = []

    async def greedy(ctx: TurnContext) -> TurnResult:
        result = await ctx.next()
        with pytest.raises(ExtensionError) as second:
            await ctx.next()
        refused.append(str(second.value))
        return result

    async with house.open("once", layers=[("turn", greedy)]) as gateway:
        assert (await gateway.ask("go")).reply == "once"
    assert refused == ["layer 'parts.greedy' of ring 'turn' called ctx.next() twice; it may go inward at most once"]


@pytest.mark.spec("MW-04", "DX-55", "H-05", "H-02")
@in_virtual_time
async def test_2_4_deviation_next_may_be_left_out_with_a_valid_result(house: House) -> None:
    """A cache or a refusal has to leave the core out, so that is allowed: inner layers and core do not run, and it
    is told to observers. A skipped call is no error.
    """
    heard, desk = Heard(), Desk()

    async def refuse(ctx: ToolCallContext) -> ToolResult:
        return ctx.skip()

    layers: list[AnyRegistration] = [("tool_call", refuse), ("tool_call", heard.layer("inner"))]
    async with house.open(LOOK, "done", layers=layers, tools=[desk.tool("look")]) as gateway:
        await gateway.ask("go")
        (result,) = gateway.results
        assert (result.content, result.status, result.is_error) == ("Skipped", "skipped", False)
        told = [event for event in gateway.events if isinstance(event, ShortCircuited)]
        assert [(event.ring, event.layer) for event in told] == [("tool_call", "parts.refuse")]
    assert (heard, desk.runs) == ([], [])


@pytest.mark.spec("MW-04", "DX-55")
@pytest.mark.parametrize("ring", RING_NAMES)
@in_virtual_time
async def test_2_4_deviation_what_is_left_out_without_a_result_is_the_authors_error(house: House, ring: Any) -> None:
    async def nothing(ctx: Any) -> Any:
        return None

    async with house.open(LOOK, "done", layers=[(ring, nothing)], tools=[Desk().tool("look")]) as gateway:
        outcome = await gateway.ask("go")
        assert outcome.kind == "failed"
        assert f"layer 'parts.nothing' of ring '{ring}' returned NoneType" in outcome.reason


@pytest.mark.spec("MW-05")
@in_virtual_time
async def test_2_5_may_a_layer_returns_another_result_than_it_got(house: House) -> None:
    async def louder(ctx: TurnContext) -> TurnResult:
        result = await ctx.next()
        return replace(result, text=result.text.upper())

    async with house.open("done", layers=[("turn", louder)]) as gateway:
        assert (await gateway.ask("go")).reply == "DONE"


@pytest.mark.spec("MW-06", "MW-19")
@in_virtual_time
async def test_2_6_must_the_first_extension_is_outermost(house: House) -> None:
    heard = Heard()
    one, two = (registering(name, ("turn", heard.layer(name))) for name in ("one", "two"))
    async with extended(house, one, two, script=["done"]) as gateway:
        await gateway.ask("go")
    assert heard.line == "one( two( )two )one"


@pytest.mark.spec("MW-07", "MW-30")
@in_virtual_time
async def test_2_7_must_the_order_is_the_same_every_time(house: House) -> None:
    lines: set[str] = set()
    for _ in range(3):
        heard = Heard()
        names = ("m", "a", "z", "b")
        extensions = [registering(name, *((ring, heard.layer(name)) for ring in STANDARD)) for name in names]
        async with extended(house, *extensions, script=["done", "done"]) as gateway:
            await gateway.ask("go")
            first, heard[:] = heard.line, []
            await gateway.ask("go")
            lines |= {first, heard.line}
    assert lines == {"m( a( z( b( m( a( z( b( )b )z )a )m )b )z )a )m"}


@pytest.mark.spec("MW-08", "EX-08")
@in_virtual_time
async def test_2_8_must_the_agents_list_decides(house: House) -> None:
    """The list of the agent's settings, whatever the files are called and whenever they were written."""
    for name in ("alpha", "beta"):
        (house.state / f"{name}.py").write_text(
            "from msgspec.structs import replace\n"
            "def register(api):\n"
            "    async def sign(ctx):\n"
            "        result = await ctx.next()\n"
            "        return replace(result, text=f'{api.name}({result.text})')\n"
            "    api.pipeline.register('turn', sign)\n"
        )
    replies: list[str | None] = []
    for order in (("alpha", "beta"), ("beta", "alpha")):
        files = tuple(ExtensionRef(str(house.state / f"{name}.py")) for name in order)
        channel = MemoryChannel(house.clock)
        settings = finclaw.Settings(state=house.state / order[0], agent=AgentSettings(extensions=files))
        async with finclaw.build(
            settings, channels=[channel], provider=ScriptedProvider("x"), clock=house.clock, threaded=False
        ) as app:
            replies.append((await app.handle(finclaw.Inbound(text="go", channel="memory"))).reply)
    assert replies == ["alpha(beta(x))", "beta(alpha(x))"]


@pytest.mark.spec("MW-09", "EX-01", "EX-02")
@in_virtual_time
async def test_2_9_must_layers_are_registered_in_the_entry_function(house: House) -> None:
    """By kind, function and priority; once the gateway runs, no layer can be slipped in."""
    pages: list[ExtensionApi] = []
    heard = Heard()

    def register(api: ExtensionApi) -> None:
        pages.append(api)
        api.pipeline.register("turn", heard.layer("mine"), priority=3)

    async with extended(house, Extending("mine", register), script=["done"]) as gateway:
        with pytest.raises(ExtensionError, match="register"):
            pages[0].pipeline.register("turn", heard.layer("late"))
        await gateway.ask("go")
    assert heard.line == "mine( )mine"


@pytest.mark.spec("MW-10", "MW-29")
@in_virtual_time
async def test_2_10_must_extra_kinds_leave_the_standard_ones_alone(house: House) -> None:
    """What the three standard rings do is the same with layers in `message` and `delivery` as without."""
    lines: list[str] = []
    extras: list[list[RingName]] = [[], ["message", "delivery"]]
    for extra in extras:
        heard, others = Heard(), Heard()
        layers: list[AnyRegistration] = [(ring, heard.layer(ring)) for ring in STANDARD]
        layers.extend((ring, others.layer(ring)) for ring in extra)
        async with house.open(LOOK, "done", layers=layers, tools=[Desk().tool("look")]) as gateway:
            await gateway.ask("go")
            lines.append(heard.line)
            assert len(others) == 2 * len(extra)
    assert lines[0] == lines[1]


# ── §5.1: registering ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("MW-11", "EX-02", "DX-62")
@pytest.mark.parametrize("kind", ["toolCall", "turn.pre", "step.llmCall", "workspace.repoAvailable", "", "Turn"])
@in_virtual_time
async def test_5_1_1_must_only_known_kinds_are_taken(house: House, kind: str) -> None:
    """`turn`, `step` and `tool_call` (the seed's `toolCall`, spelled as Python spells), and our two documented extra
    kinds of §11. Anything else raises, instead of being ignored silently.
    """
    with pytest.raises(ExtensionError, match="there is no ring"):
        async with extended(house, registering("mine", (kind, Heard().layer("x")))):
            raise AssertionError("it started")


@pytest.mark.spec("MW-11", "MW-29")
def test_5_1_1_the_kinds_are_three_and_two() -> None:
    assert set(RING_NAMES) == {*STANDARD, "message", "delivery"}


@pytest.mark.spec("MW-12")
@in_virtual_time
async def test_5_1_2_must_not_mutate_and_wrap_are_gone(house: House) -> None:
    pages: list[Any] = []
    async with extended(house, Extending("mine", pages.append)):
        (page,) = pages
        for old in ("mutate", "wrap"):
            assert not hasattr(page, old)
            assert not hasattr(page.pipeline, old)
            assert not hasattr(finclaw, old)


@pytest.mark.spec("MW-13", "MW-15", "MW-17")
@in_virtual_time
async def test_5_1_3_must_layers_of_one_kind_form_one_chain(house: House) -> None:
    heard = Heard()
    three = [("step", heard.layer(name)) for name in "abc"]
    async with extended(house, registering("mine", *three), script=["done"]) as gateway:
        await gateway.ask("go")
    assert heard.line == "a( b( c( )c )b )a"


@pytest.mark.spec("MW-14")
@in_virtual_time
async def test_5_1_4_must_one_extension_registers_several_kinds(house: House) -> None:
    heard = Heard()
    mine = registering("mine", *((ring, heard.layer(ring)) for ring in RING_NAMES))
    script = [reply(call("market__quote", {"symbol": "AAPL"})), "done"]
    async with extended(house, mine, script=script) as gateway:
        await gateway.ask("AAPL?")
    assert {each.strip("()") for each in heard} == set(RING_NAMES)


@pytest.mark.spec("MW-15")
@in_virtual_time
async def test_5_1_5_may_one_extension_registers_several_of_one_kind(house: House) -> None:
    """Also the same function twice: it is then two layers, each with a next() of its own."""
    heard = Heard()
    same = heard.layer("same")
    async with extended(house, registering("mine", ("turn", same), ("turn", same)), script=["done"]) as gateway:
        assert (await gateway.ask("go")).reply == "done"
    assert heard.line == "same( same( )same )same"


# ── §6: order ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("MW-02", "MW-19")
@in_virtual_time
async def test_6_1_1_must_layers_run_as_an_onion_around_the_core(house: House) -> None:
    heard, desk = Heard(), Desk()

    async def core(text: str, scope: Any) -> str:
        heard.append("core")
        return text

    layers: list[AnyRegistration] = [("tool_call", heard.layer("a")), ("tool_call", heard.layer("b"))]
    async with house.open(LOOK, "done", layers=layers, tools=[desk.tool("look", core)]) as gateway:
        await gateway.ask("go")
    assert heard.line == "a( b( core )b )a"


@pytest.mark.spec("MW-19")
@in_virtual_time
async def test_6_1_2_must_the_outermost_begins_first_and_ends_last(house: House) -> None:
    heard = Heard()
    layers: list[AnyRegistration] = [("turn", heard.layer(name)) for name in ("outermost", "middle", "innermost")]
    async with house.open("done", layers=layers) as gateway:
        await gateway.ask("go")
    assert (heard[0], heard[-1]) == ("outermost(", ")outermost")


@pytest.mark.spec("MW-07", "MW-30")
@in_virtual_time
async def test_6_2_1_must_registration_alone_decides(house: House) -> None:
    """Not the names, not the time, not what ran before: other extensions between them change nothing."""
    lines: list[list[str]] = []
    for others in (0, 3):
        heard = Heard()
        crowd = [registering(f"x{number}", ("turn", heard.layer(f"x{number}"))) for number in range(others)]
        z, a = (registering(name, ("turn", heard.layer(name))) for name in ("z", "a"))
        async with extended(house, z, *crowd, a, script=["done"]) as gateway:
            await gateway.ask("go")
        lines.append([each for each in heard if "x" not in each])
    assert lines == [["z(", "a(", ")a", ")z"]] * 2


@pytest.mark.spec("MW-08")
@in_virtual_time
async def test_6_2_2_must_the_list_of_extensions_is_the_order_of_registration(house: House) -> None:
    entered: list[str] = []
    named = [Extending(name, lambda api: entered.append(api.name)) for name in ("logging", "compaction", "skills")]
    async with extended(house, *named):
        assert entered == ["logging", "compaction", "skills"]


@pytest.mark.spec("MW-16", "MW-17", "MW-18", "DX-58")
@pytest.mark.parametrize("ring", STANDARD)
@in_virtual_time
async def test_6_2_3_should_sort_by_priority_and_keep_equals_in_order(house: House, ring: Any) -> None:
    """The seed's own example: A has 10, B has 5, C has 10."""
    heard = Heard()
    extensions = [
        registering(name, (ring, heard.layer(name), priority)) for name, priority in (("A", 10), ("B", 5), ("C", 10))
    ]
    script = [reply(call("market__quote", {"symbol": "AAPL"})), "done"]
    async with extended(house, *extensions, script=script) as gateway:
        await gateway.ask("AAPL?")
    assert heard[:6] == ["B(", "A(", "C(", ")C", ")A", ")B"]


@pytest.mark.spec("MW-16", "DX-58")
@in_virtual_time
async def test_6_2_4_deviation_a_higher_priority_is_not_outer(house: House) -> None:
    """Rules 4 and 5 of this section contradict each other; rule 5, the example and the code agree, so they hold."""
    heard = Heard()
    async with extended(
        house, registering("mine", ("turn", heard.layer("high"), 9), ("turn", heard.layer("low"), 1)), script=["done"]
    ) as gateway:
        await gateway.ask("go")
    assert heard.line == "low( high( )high )low"


@pytest.mark.spec("MW-16", "DX-58")
@in_virtual_time
async def test_6_2_5_must_a_lower_number_is_further_out_and_zero_is_the_default(house: House) -> None:
    heard = Heard()
    layers: list[AnyRegistration] = [
        ("turn", heard.layer("one"), 1),
        ("turn", heard.layer("none")),
        ("turn", heard.layer("minus"), -1),
    ]
    async with extended(house, registering("mine", *layers), script=["done"]) as gateway:
        await gateway.ask("go")
    assert heard.line == "minus( none( one( )one )none )minus"


@pytest.mark.spec("MW-20", "R-17", "R-18")
@in_virtual_time
async def test_6_3_turns_enclose_steps_and_steps_enclose_calls(house: House) -> None:
    """Every layer of a ring goes around every noun of it: two steps, of which the first has two calls."""
    heard, desk = Heard(), Desk()
    layers: list[AnyRegistration] = [(ring, heard.layer(f"{ring}-{place}")) for ring in STANDARD for place in (1, 2)]
    two_calls = reply(call("look", {"text": "1"}), call("look", {"text": "2"}))
    async with house.open(two_calls, "done", layers=layers, tools=[desk.tool("look", parallel_safe=False)]) as gateway:
        await gateway.ask("go")

    def onion(ring: str, inside: str = "") -> str:
        return " ".join(f"{ring}-1( {ring}-2( {inside} ){ring}-2 ){ring}-1".split())

    calls = f"{onion('tool_call')} {onion('tool_call')}"
    assert heard.line == onion("turn", f"{onion('step', calls)} {onion('step')}")


# ── §11: extra kinds ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("MW-29")
@in_virtual_time
async def test_11_may_two_extra_kinds_are_there(house: House) -> None:
    """`message` goes around the whole road of one message, `delivery` around one reply before it is checked."""
    heard = Heard()
    layers: list[AnyRegistration] = [(ring, heard.layer(ring)) for ring in ("message", "turn", "delivery")]
    async with house.open("done", layers=layers) as gateway:
        await gateway.ask("go")
    assert heard.line == "message( turn( )turn delivery( )delivery )message"


@pytest.mark.spec("P-10")
@in_virtual_time
async def test_11_may_they_do_the_work_of_four_hooks(house: House) -> None:
    """Before and after process, before send: layers that may change something. After send: an observer, that cannot."""
    sent: list[str] = []

    async def process(ctx: MessageContext) -> Outcome:
        ctx.inbound = replace(ctx.inbound, text=f"{ctx.inbound.text}!")
        outcome = await ctx.next()
        sent.append(outcome.kind)
        return outcome

    async def before_send(ctx: DeliveryContext) -> Outbound:
        ctx.outbound = replace(ctx.outbound, text=f"{ctx.outbound.text} Yours.")
        return await ctx.next()

    def after_send(event: Any) -> Any:
        if event.state == "sent":
            sent.append(event.name)
            raise RuntimeError("it is too late")

    def register(api: ExtensionApi) -> None:
        api.pipeline.register("message", process)
        api.pipeline.register("delivery", before_send)
        api.events.observe(after_send, "delivery:unit")

    async with extended(house, Extending("mine", register), script=["done."]) as gateway:
        await gateway.ask("go")
        assert gateway.seen[-1].text == "go!"
        assert gateway.said == ["done. Yours."]
    assert sorted(sent) == ["answered", "delivery:unit"]


@pytest.mark.spec("MW-10", "MW-29")
@in_virtual_time
async def test_11_1_must_a_broken_extra_layer_breaks_no_standard_one(house: House) -> None:
    """A delivery layer that fails loses its reply, not the turn's layers nor the next message."""
    heard = Heard()

    async def broken(ctx: Any) -> Any:
        if ctx.turn is not None:
            raise RuntimeError("no delivery")
        return await ctx.next()

    layers: list[AnyRegistration] = [("delivery", broken), *((ring, heard.layer(ring)) for ring in STANDARD)]
    async with house.open("one", "two", layers=layers) as gateway:
        await gateway.ask("go")
        await gateway.ask("again")
    assert heard.line == " ".join(["turn( step( )step )turn"] * 2)


@pytest.mark.spec("MW-29")
def test_11_2_should_extra_kinds_are_documented() -> None:
    """On the page that an author reads first, and in the tour of the house."""
    assert "five nouns" in (PipelineApi.__doc__ or "")
    tour = " ".join((HOME / "docs" / "tour.md").read_text("utf-8").split())
    assert "Around message, turn, step, tool call and delivery" in tour


@pytest.mark.spec("MW-29", "DX-55", "DX-58")
@pytest.mark.parametrize("ring", ["message", "delivery"])
@in_virtual_time
async def test_11_3_must_extra_kinds_follow_the_same_onion(house: House, ring: Any) -> None:
    """Same order, same priorities, and a second next() is refused as everywhere."""
    heard = Heard()
    refused: list[ExtensionError] = []

    async def greedy(ctx: Any) -> Any:
        result = await ctx.next()
        with pytest.raises(ExtensionError, match="twice") as second:
            await ctx.next()
        refused.append(second.value)
        return result

    layers: list[AnyRegistration] = [(ring, heard.layer("b")), (ring, heard.layer("a"), -1), (ring, greedy, 1)]
    async with house.open("done", layers=layers) as gateway:
        assert (await gateway.ask("go")).reply == "done"
    assert heard.line == "a( b( )b )a"
    assert len(refused) == 1
