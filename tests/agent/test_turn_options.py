"""Options of one turn: they win over the settings, layers win over them, and a picked model stands alone."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace
from tests.agent.bench import Bench

from finclaw.agent.model.failover import ModelRoute
from finclaw.agent.settings import AgentSettings
from finclaw.errors import AuthFailed, ModelUnknown
from finclaw.kernel.chunk import Features, Model, ModelRequest
from finclaw.kernel.envelope import THOUGHTS, TurnOptions
from finclaw.kernel.port import ToolOutput, ToolScope
from finclaw.kernel.scope import StepContext, StepResult, TurnContext, TurnResult
from finclaw.testing import ScriptedProvider, call, fails, reply
from finclaw.tools.define import tool

THINKER = Model("scripted", "thinker", max_output=100_000, features=Features(thinking=True))


@tool("look", "Looks.")
async def look(args: Struct, scope: ToolScope) -> ToolOutput:
    return ToolOutput("seen")


def asked(bench: Bench, *script: Any) -> list[ModelRequest]:
    bench.run(*(script or ("done",)))
    assert bench.provider is not None
    return bench.provider.requests


@pytest.mark.spec("M-38", "M-42", "R-02", "DX-16b")
def test_a_wish_wins_over_the_settings_and_what_it_leaves_open_they_say() -> None:
    settings = AgentSettings(temperature=0.5, thinking="low", max_tokens=100)
    (request,) = asked(Bench(settings=settings, model=THINKER))
    assert (request.temperature, request.thinking, request.max_tokens) == (0.5, "low", 100 + THOUGHTS["low"])
    wishes = TurnOptions(temperature=0.0, thinking="high", max_tokens=50)
    (request,) = asked(Bench(settings=settings, model=THINKER, wishes=wishes))
    assert (request.temperature, request.thinking, request.max_tokens) == (0.0, "high", 50 + THOUGHTS["high"])
    (request,) = asked(Bench(settings=settings, model=THINKER, wishes=TurnOptions(thinking="off")))
    assert (request.temperature, request.thinking, request.max_tokens) == (0.5, "off", 100)


@pytest.mark.spec("DX-16b")
def test_one_that_cannot_stop_thinking_has_room_for_it_beside_its_answer() -> None:
    ceaseless = replace(THINKER, features=Features(thinking=True, thinking_off="never"))
    (request,) = asked(Bench(model=ceaseless, wishes=TurnOptions(thinking="off", max_tokens=100)))
    assert (request.thinking, request.max_tokens) == ("off", 100 + THOUGHTS["low"])


@pytest.mark.spec("DX-16b")
def test_words_at_which_to_stop_reach_a_model_that_takes_them() -> None:
    settings = AgentSettings(stop_sequences=("END",))
    assert asked(Bench(settings=settings, model=THINKER))[0].stop_sequences == ("END",)
    deaf = replace(THINKER, features=Features(stop_sequences=False))
    assert asked(Bench(settings=settings, model=deaf))[0].stop_sequences == ()


def test_thoughts_get_no_room_that_the_model_does_not_have() -> None:
    short = Model("scripted", "short", max_output=5_000, features=Features(thinking=True))
    (request,) = asked(Bench(model=short, wishes=TurnOptions(thinking="high")))
    assert request.max_tokens == 5_000
    small = Model("scripted", "small", window=8_000, max_output=8_000, features=Features(thinking=True))
    (request,) = asked(Bench(model=small, wishes=TurnOptions(thinking="high")))
    assert 4_096 < request.max_tokens < 8_000


def test_a_model_that_cannot_think_gets_no_room_for_it() -> None:
    thoughtless = ModelRoute(ScriptedProvider("done", name="other"), Model("other", "two"))
    bench = Bench(model=THINKER, fallbacks=[thoughtless], wishes=TurnOptions(thinking="high", max_tokens=70))
    assert asked(bench, fails(AuthFailed("no")))[0].max_tokens == 70 + THOUGHTS["high"]
    assert isinstance(thoughtless.provider, ScriptedProvider)
    assert thoughtless.provider.requests[0].max_tokens == 70


def test_a_layer_may_still_change_them() -> None:
    async def rethink(ctx: TurnContext) -> TurnResult:
        assert (ctx.thinking, ctx.verbosity) == ("low", "low")
        ctx.thinking = "high"
        return await ctx.next()

    async def hurry(ctx: StepContext) -> StepResult:
        if ctx.index == 1:
            ctx.turn.thinking = "off"
        return await ctx.next()

    wishes = TurnOptions(thinking="low", verbosity="low")
    bench = Bench(tools=[look], turn=[rethink], step=[hurry], model=THINKER, wishes=wishes)
    requests = asked(bench, reply(call("look")), "done")
    assert [each.thinking for each in requests] == ["high", "off"]


# ── how long ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("DX-42", "PC-01")
def test_how_long_is_told_behind_the_input_and_not_in_the_system_prompt() -> None:
    (plain,) = asked(Bench())
    assert [each.text for each in plain.messages] == ["go"]
    bench = Bench(tools=[look], wishes=TurnOptions(verbosity="low"))
    first, second = asked(bench, reply(call("look")), "done")
    assert first.system == second.system == plain.system
    assert [each.passing for each in first.messages] == ["", "verbosity"]
    assert "few words" in first.messages[1].text
    assert [each.passing for each in second.messages] == ["", "verbosity", "", ""]


def test_a_layer_that_changes_its_mind_is_heard_at_once() -> None:
    async def change(ctx: StepContext) -> StepResult:
        ctx.turn.verbosity = "high" if ctx.index == 0 else "medium"
        return await ctx.next()

    bench = Bench(tools=[look], step=[change])
    said = [
        [each.text for each in request.messages if each.passing]
        for request in asked(bench, reply(call("look")), reply(call("look")), "done")
    ]
    assert [len(each) for each in said] == [1, 1, 1]
    assert "in detail" in said[0][0]
    assert "usual length" in said[1][0]
    assert said[1] == said[2]


# ── the model that was picked ───────────────────────────────────────────────────────────────────────────────


class Shop:
    """Models to pick: two ways to one of them."""

    def __init__(self, *scripts: Any) -> None:
        self.providers = [ScriptedProvider(*script, name="picked") for script in scripts]
        self.model = Model("picked", "one", features=Features(thinking=True))

    def __call__(self, reference: str) -> Sequence[ModelRoute]:
        if reference != "one":
            raise ModelUnknown(f"{reference!r} names no model (did you mean one?)", model=reference)
        return [ModelRoute(each, self.model, f"key {place}") for place, each in enumerate(self.providers)]


def test_the_picked_model_is_asked_and_the_next_turn_asks_the_usual_one() -> None:
    shop = Shop(["from one"])
    bench = Bench(pick=shop, wishes=TurnOptions(model="one"))
    assert bench.run().text == "from one"
    assert shop.providers[0].requests[0].model == shop.model
    bench.wishes, bench.memory.groups = TurnOptions(), []
    assert bench.run("as usual").text == "as usual"


@pytest.mark.spec("RT-06")
def test_the_picked_model_is_asked_by_all_of_its_keys_and_nobody_instead_of_it() -> None:
    shop = Shop([fails(AuthFailed("first key"))], [fails(AuthFailed("second key"))])
    fallback = ScriptedProvider("never")
    bench = Bench(pick=shop, wishes=TurnOptions(model="one"), fallbacks=[ModelRoute(fallback, Model("other", "two"))])
    with pytest.raises(AuthFailed, match="second key"):
        bench.run("never either")
    assert [len(each.requests) for each in shop.providers] == [1, 1]
    assert not fallback.requests
    assert bench.provider is not None
    assert not bench.provider.requests


@pytest.mark.parametrize("pick", [None, Shop()])
def test_a_model_that_nobody_knows(pick: Shop | None) -> None:
    bench = Bench(pick=pick, wishes=TurnOptions(model="gpt-99"))
    with pytest.raises(ModelUnknown) as failed:
        bench.run("never")
    assert failed.value.model == "gpt-99"
    assert not bench.events
