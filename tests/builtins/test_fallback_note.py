"""A person is told when another model answers: once, in their language, and again only when something has changed."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.agent.bench import Bench
from tests.agent.long_talk import SMALL, talked
from tests.walks.house import Gateway, House, crash, in_virtual_time

import finclaw
from finclaw.agent.model.failover import ModelRoute
from finclaw.agent.settings import AgentSettings
from finclaw.agent.window.compaction.summary import BEGIN
from finclaw.builtins.answer_notes import Fallback
from finclaw.errors import AuthFailed, StreamCut
from finclaw.kernel.chunk import Model, ModelRequest
from finclaw.kernel.envelope import Outbound
from finclaw.kernel.event import ModelFellBack
from finclaw.kernel.scope import DeliveryContext, TurnContext, TurnResult
from finclaw.providers.settings import ModelSettings, ProviderSettings
from finclaw.testing import FakeClock, MemoryChannel, Reply, ScriptedProvider, fails, reply

AGENT = AgentSettings(model="house/claude-x", fallbacks=("offline/demo",))
DOWN = fails(AuthFailed("no"))
"""Once it has failed so, the chosen model is left alone for half a minute."""
LINE = "(claude-x was not available just now; demo answered instead.)"


async def says_so(gateway: Gateway, text: str = "hello there") -> bool:
    """Whether the answer to this has the line, which then stands at its end and nowhere else."""
    outcome = await gateway.ask(text)
    assert (outcome.kind, gateway.said[-1]) == ("answered", outcome.reply)
    reply = outcome.reply or ""
    assert reply.count("claude-x") == reply.endswith("\n\n" + LINE)
    return reply.endswith(LINE)


@pytest.mark.spec("RT-06")
@in_virtual_time
async def test_it_is_said_when_it_begins_and_not_while_it_goes_on(house: House) -> None:
    async with house.open(DOWN, "I am back.", DOWN, agent=AGENT) as gateway:
        assert await says_so(gateway)
        assert not await says_so(gateway)
        assert not await says_so(gateway)
        await house.clock.sleep(31)
        assert not await says_so(gateway), "the chosen one has answered"
        assert await says_so(gateway), "it begins again"


@in_virtual_time
async def test_what_was_said_is_known_after_a_restart(house: House) -> None:
    async with house.open(DOWN, agent=AGENT) as gateway:
        assert await says_so(gateway)
    async with house.open(DOWN, agent=AGENT) as gateway:
        assert not await says_so(gateway)


@in_virtual_time
async def test_each_person_is_told(house: House) -> None:
    async with house.open(DOWN, agent=AGENT) as gateway:
        for conversation in ("c-1", "c-2"):
            outcome = await gateway.ask("hello", conversation=conversation)
            assert (outcome.reply or "").endswith(LINE)


@in_virtual_time
async def test_it_is_said_in_the_persons_language(house: House) -> None:
    async with house.open(DOWN, agent=AGENT) as gateway:
        outcome = await gateway.ask("안녕하세요")
        line = "(지금은 claude-x 모델을 쓸 수 없어 demo 모델이 대신 답했습니다.)"
        assert (outcome.reply or "").endswith("\n\n" + line)
        outcome = await gateway.ask("and now in English")
        assert "claude-x" not in (outcome.reply or ""), "the person knows it, in whatever language"


@in_virtual_time
async def test_another_fallback_is_news(house: House) -> None:
    chosen = [Model("house", "claude-x"), Model("house", "claude-y")]

    async def choose(ctx: TurnContext) -> TurnResult:
        ctx.model = chosen.pop(0)
        return await ctx.next()

    async with house.open(DOWN, DOWN, agent=AGENT, layers=[("turn", choose)]) as gateway:
        assert await says_so(gateway)
        outcome = await gateway.ask("hello")
        assert (outcome.reply or "").endswith("(claude-y was not available just now; demo answered instead.)")


@pytest.mark.parametrize("silence", ["<<NO_REPLY>>", "I say nothing.\n\n<<NO_REPLY>>\n", "<<HEARTBEAT_OK>>", " "])
@in_virtual_time
async def test_whoever_keeps_silent_says_nothing_and_the_next_answer_does(house: House, silence: str) -> None:
    silent = [True, False]

    async def hush(ctx: DeliveryContext) -> Outbound:
        outbound = await ctx.next()
        return replace(outbound, text=silence) if silent.pop(0) else outbound

    async with house.open(DOWN, agent=AGENT, layers=[("delivery", hush)]) as gateway:
        assert (await gateway.ask("hello")).kind == "skipped"
        assert gateway.said == []
        assert await says_so(gateway)


@in_virtual_time
async def test_a_token_at_the_end_is_heard_and_not_shown(house: House) -> None:
    async def ask_back(ctx: DeliveryContext) -> Outbound:
        return replace(await ctx.next(), text="Which one?\n<<NEED_INPUT>>")

    async with house.open(DOWN, agent=AGENT, layers=[("delivery", ask_back)]) as gateway:
        assert (await gateway.ask("hello")).reply == f"Which one?\n\n{LINE}"


@in_virtual_time
async def test_a_turn_that_is_taken_up_again_says_it_once(house: House) -> None:
    await crash(house, "model:ended", DOWN, agent=AGENT)
    async with house.open(DOWN, agent=AGENT) as gateway:
        await gateway.app.idle()
        assert [(text.count(LINE), text.endswith(LINE)) for text in gateway.said] == [(1, True)]


@in_virtual_time
async def test_a_turn_that_the_chosen_model_ends_after_all_needs_no_word(house: House) -> None:
    await crash(house, "model:ended", DOWN, agent=AGENT)
    async with house.open("Here I am.", agent=AGENT) as gateway:
        await gateway.app.idle()
        assert gateway.said == ["Here I am."]


@in_virtual_time
async def test_a_chosen_model_that_answers_needs_no_word(house: House) -> None:
    async with house.open("Hello.", agent=AGENT) as gateway:
        assert (await gateway.ask("hello")).reply == "Hello."


def test_nothing_is_said_when_the_fallback_fails_too(tmp_path: Path) -> None:
    clock = FakeClock()

    async def main() -> None:
        channel = MemoryChannel(clock)
        settings = finclaw.Settings(
            state=tmp_path,
            agent=AgentSettings(model="house/claude-x", fallbacks=("box/one",)),
            providers={"box": ProviderSettings(kind="openai", base_url="http://127.0.0.1:1/v1")},
            models={"box/one": ModelSettings(window=8_192)},
        )
        provider = ScriptedProvider(DOWN, clock=clock)
        async with finclaw.build(settings, channels=[channel], provider=provider, clock=clock, threaded=False) as app:
            gateway = Gateway(app, channel, provider)
            app.events.observe(gateway.events.append)
            outcome = await gateway.ask("hello")
            assert outcome.kind == "failed"
            assert [event.instead for event in gateway.events if isinstance(event, ModelFellBack)] == ["box/one"]
            assert "claude-x" not in (outcome.reply or "")

    clock.run(main())


def test_a_summary_by_another_model_is_not_an_answer_by_it() -> None:
    """Three cuts cool nothing: the next question goes to the chosen model again."""

    def chosen(request: ModelRequest) -> Reply:
        return fails(StreamCut("x")) if BEGIN in request.messages[-1].text else reply("done")

    bench = Bench(model=SMALL, base=talked(120))
    other = ScriptedProvider(lambda _: reply("They spoke about order 4711."), clock=bench.clock)
    bench.fallbacks = [ModelRoute(other, Model("scripted", "two"))]
    result = bench.run(chosen)
    assert {event.instead for event in bench.events if isinstance(event, ModelFellBack)} == {"scripted/two"}
    assert result.text == "done"
    assert "instead_of" not in result.messages[-1].metadata


@pytest.mark.parametrize(
    ("fallback", "told"),
    [
        (Fallback("a/x", "b/y"), "(x was not available just now; y answered instead.)"),
        (Fallback("a/x", "b/x"), "(a/x was not available just now; b/x answered instead.)"),
        (Fallback("a/m/x:1", "b/{y}"), "(m/x:1 was not available just now; {y} answered instead.)"),
    ],
)
def test_how_models_are_called(fallback: Fallback, told: str) -> None:
    assert fallback.describe("en") == told
