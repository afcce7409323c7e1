"""Turn options in the pipeline: they come with an inner message, hold for its turn, and no budget is forgotten."""

from decimal import Decimal
from typing import Any

import pytest
from tests.walks.house import Gateway, House, in_virtual_time
from tests.walks.tools import Desk

import finclaw
from finclaw.agent.budget.settings import BudgetSettings
from finclaw.agent.settings import AgentSettings
from finclaw.kernel.chunk import ModelRequest, Usage
from finclaw.kernel.envelope import THOUGHTS, Limits, TurnOptions
from finclaw.kernel.port import ToolScope
from finclaw.kernel.scope import Outcome, TurnContext, TurnResult
from finclaw.providers.settings import ModelSettings, ProviderSettings
from finclaw.testing import MemoryChannel, ScriptedProvider, call, reply

HAIKU = AgentSettings(model="anthropic/claude-haiku-4-5")
"""1 dollar for a million tokens in, 5 out."""


async def ask(gateway: Gateway, text: str, **wishes: Any) -> Outcome:
    return await gateway.ask(text, limits=Limits(wishes=TurnOptions(**wishes)))


@pytest.mark.spec("DI-01", "DX-16b", "M-38", "M-42")
@in_virtual_time
async def test_wishes_hold_for_their_turn_alone(house: House) -> None:
    seen: list[TurnOptions] = []

    async def look(ctx: TurnContext) -> TurnResult:
        seen.append(ctx.context.wishes)
        return await ctx.next()

    async with house.open("one", "two", agent=HAIKU, layers=[("turn", look)]) as gateway:
        await ask(gateway, "hello", thinking="medium", temperature=0.25, verbosity="high", max_tokens=900)
        await gateway.ask("again")
        first, second = gateway.provider.requests
    assert (first.thinking, first.temperature, first.max_tokens) == ("medium", 0.25, 900 + THOUGHTS["medium"])
    assert (second.thinking, second.temperature, second.max_tokens) == ("off", None, 4_096)
    assert first.system == second.system
    assert [each.passing for each in first.messages] == ["", "verbosity"]
    assert [each.text for each in second.messages] == ["hello", "one", "again"]
    assert [each.thinking for each in seen] == ["medium", None]


@pytest.mark.spec("DI-01")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hello", "I cannot use the model you chose here: sonet."),
        ("안녕하세요", "선택하신 모델은 여기서 사용할 수 없습니다: sonet."),
    ],
)
def test_a_model_that_nobody_knows_ends_the_turn_with_a_word_and_nothing_is_lost(
    house: House, text: str, words: str
) -> None:
    async def walk() -> None:
        async with house.open("one", "two", agent=HAIKU) as gateway:
            await gateway.ask("before")
            outcome = await ask(gateway, text, model="sonet")
            assert (outcome.kind, outcome.reason.partition(":")[0]) == ("failed", "ModelUnknown")
            assert "did you mean sonnet" in outcome.reason
            assert gateway.said[-1].startswith(words)
            assert len(gateway.provider.requests) == 1
            assert (await gateway.ask("after")).reply == "two"
            assert [each.text for each in gateway.seen if each.role == "user"] == ["before", text, "after"]

    house.clock.run(walk())


@in_virtual_time
async def test_a_name_is_not_repeated_without_end(house: House) -> None:
    async with house.open() as gateway:
        await ask(gateway, "hi", model="x{about}\n" * 500)
        assert len(gateway.said[-1]) < 250
        assert "\n" not in gateway.said[-1]


@pytest.mark.spec("CO-01")
@in_virtual_time
async def test_a_budget_holds_for_thoughts_too(house: House) -> None:
    """4,096 tokens of an answer cost some 2 cents; with thoughts they might cost 14."""
    budget = BudgetSettings(turn_usd=Decimal("0.10"))
    async with house.open("fine", agent=HAIKU, budget=budget) as gateway:
        outcome = await ask(gateway, "go", thinking="high")
        assert (outcome.kind, gateway.provider.requests) == ("failed", [])
        assert gateway.said[-1].startswith("To go on would cost more")
        assert (await gateway.ask("go")).reply == "fine"


@pytest.mark.spec("CO-01")
@in_virtual_time
async def test_a_picked_model_of_unknown_price_is_not_asked_under_a_budget(house: House) -> None:
    channel, provider = MemoryChannel(house.clock), ScriptedProvider("never", clock=house.clock)
    settings = finclaw.Settings(
        state=house.state,
        agent=HAIKU,
        budget=BudgetSettings(turn_usd=Decimal(1)),
        providers={"house": ProviderSettings(kind="openai", base_url="http://127.0.0.1:9")},
        models={"house/llama": ModelSettings(window=32_000)},
    )
    parts: dict[str, Any] = {"channels": [channel], "provider": provider, "clock": house.clock, "threaded": False}
    async with finclaw.build(settings, **parts) as app:
        accepted = await channel.write("go", limits=Limits(wishes=TurnOptions(model="house/llama")))
        record = await app.wait(accepted.id, float("inf"))
    assert record is not None
    assert record.outcome is not None
    assert record.outcome.reason.startswith("BudgetExceeded: no price is known of house/llama")
    assert not provider.requests


@in_virtual_time
async def test_another_model_is_picked_and_then_the_usual_one_answers_again(house: House) -> None:
    async with house.open("the usual", agent=HAIKU) as gateway:
        outcome = await ask(gateway, "AAPL price", model="offline/demo")
        assert outcome.kind == "answered"
        assert outcome.reply != "the usual"
        assert not gateway.provider.requests
        assert (await gateway.ask("and you?")).reply == "the usual"


# ── answers in a form ───────────────────────────────────────────────────────────────────────────────────────

TREND = {"type": "object", "properties": {"up": {"type": "boolean"}}, "required": ["up"]}
CENT = Usage(input=10_000)


async def judge(text: str, scope: ToolScope) -> str:
    assert scope.ask is not None
    return f"up: {(await scope.ask(f'Is this good news? {text}', TREND))['up']}"


@pytest.mark.spec("X-10", "DX-49")
@in_virtual_time
async def test_a_tool_asks_for_a_form_through_a_whole_message(house: House) -> None:
    script = (
        reply(call("judge", {"text": "record profit"}), usage=CENT),
        reply("Surely!", usage=CENT),
        reply('{"up": true}', usage=CENT),
        reply("Good news.", usage=CENT),
    )
    async with house.open(*script, tools=[Desk().tool("judge", judge)], agent=HAIKU) as gateway:
        outcome = await gateway.ask("what of this?")
        assert (outcome.reply, outcome.kind) == ("Good news.", "answered")
        assert gateway.results[0].content == "up: True"
        assert outcome.cost == Decimal("0.04")
        (line,) = await gateway.app.costs(1, "model")
        assert (line.calls, line.cost) == (4, Decimal("0.04"))
        assert gateway.said == ["Good news."]
        assert not any("Is this good news" in each.text for each in gateway.seen)


@in_virtual_time
async def test_at_the_limit_a_tool_is_refused_its_question(house: House) -> None:
    """The correction would be one call too many; what was paid for until then stays paid for."""

    def answer(request: ModelRequest) -> Any:
        if request.answer_schema is not None:
            return reply("no", usage=Usage(output=4_000))
        return reply(call("judge", {"text": "x"}), usage=Usage(input=10_000))

    budget = BudgetSettings(turn_usd=Decimal("0.045"))
    async with house.open(answer, tools=[Desk().tool("judge", judge)], agent=HAIKU, budget=budget) as gateway:
        outcome = await gateway.ask("go")
        assert (outcome.kind, outcome.cost) == ("failed", Decimal("0.03"))
        assert len(gateway.provider.requests) == 2
