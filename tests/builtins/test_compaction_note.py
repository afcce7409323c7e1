"""A person is told that their conversation was compacted: once a session, in their language."""

import pytest
from tests.agent.long_talk import talked
from tests.walks.house import Gateway, House, crash, in_virtual_time

from finclaw.agent.window.compaction.summary import BEGIN
from finclaw.kernel.chunk import Model, ModelRequest
from finclaw.kernel.context import Context
from finclaw.kernel.event import ContextCompacted
from finclaw.kernel.scope import TurnContext, TurnResult
from finclaw.testing import Reply, reply
from finclaw.testing.provider import Script

SMALL = Model("offline", "demo", window=18_000, max_output=1_000)
ENGLISH = (
    "(This conversation has grown long, so I now know its earlier part only in summary. "
    "If I miss something that matters, please say it again.)"
)
KOREAN = "(대화가 길어져 앞부분은 이제 요약된 내용만 알고 있습니다. 놓친 내용이 있으면 다시 말씀해 주세요.)"
MUCH = "I bought 10 AAPL at 187.20 USD, and I wonder what to do with them now that they are up. " * 300
"""So much that a second one makes the next compaction."""


async def use_small_model(ctx: TurnContext) -> TurnResult:
    ctx.model = SMALL
    return await ctx.next()


def condensing(*answers: str) -> Script:
    """A model that condenses when it is asked to, and else says these in turn, the last one for ever."""
    left = list(answers)

    def answer(request: ModelRequest) -> Reply:
        if BEGIN in request.messages[-1].text:
            return reply("They spoke about order 4711.")
        return reply(left.pop(0) if len(left) > 1 else left[0])

    return answer


async def fill(gateway: Gateway, messages: int = 280) -> str:
    """A long talk in the session of our person, which is told."""
    await gateway.ask("first")
    (session,) = [each.key for each in (await gateway.app.sessions(1)).items]
    await gateway.app.reset(session)
    await gateway.app.restore(session, talked(messages))
    return session


def compactions(gateway: Gateway) -> int:
    return sum(isinstance(event, ContextCompacted) for event in gateway.events)


@pytest.mark.spec("CP-20")
@pytest.mark.parametrize(("question", "line"), [("how is order 4711?", ENGLISH), ("주문 4711은 어떻게 됐어?", KOREAN)])
@in_virtual_time
async def test_the_person_is_told_once_in_their_language(house: House, question: str, line: str) -> None:
    async with house.open(condensing("done"), layers=[("turn", use_small_model)]) as gateway:
        await fill(gateway)
        assert (await gateway.ask(question)).reply == f"done\n\n{line}"
        assert gateway.said[-1] == f"done\n\n{line}"
        assert compactions(gateway) == 1
        assert (await gateway.ask("and now?")).reply == "done"
        while compactions(gateway) < 3:
            assert (await gateway.ask(MUCH)).reply == "done", "the person knows"
    async with house.open(condensing("done"), layers=[("turn", use_small_model)]) as gateway:
        while compactions(gateway) < 1:
            assert (await gateway.ask(MUCH)).reply == "done", "also after a restart"


@pytest.mark.spec("CP-20")
@in_virtual_time
async def test_a_new_session_tells_it_again(house: House) -> None:
    async with house.open(condensing("done"), layers=[("turn", use_small_model)]) as gateway:
        for _ in range(2):
            await fill(gateway)
            assert (await gateway.ask("how is it?")).reply == f"done\n\n{ENGLISH}"


@pytest.mark.spec("CP-20")
@in_virtual_time
async def test_a_talk_that_fits_needs_no_word(house: House) -> None:
    async with house.open(condensing("done"), layers=[("turn", use_small_model)]) as gateway:
        await fill(gateway, 20)
        assert (await gateway.ask("how is it?")).reply == "done"
        assert compactions(gateway) == 0


@in_virtual_time
async def test_whoever_kept_silent_tells_it_at_the_next_compaction(house: House) -> None:
    script = condensing("first", "<<NO_REPLY>>", "done")
    async with house.open(script, layers=[("turn", use_small_model)]) as gateway:
        await fill(gateway)
        assert (await gateway.ask("how is it?")).kind == "skipped"
        assert compactions(gateway) == 1
        replies = [(await gateway.ask(MUCH)).reply for _ in range(8)]
        assert compactions(gateway) > 2
        assert sorted(replies, key=str) == [*["done"] * 7, f"done\n\n{ENGLISH}"]


@in_virtual_time
async def test_a_turn_that_is_tried_again_tells_it(house: House) -> None:
    async with house.open(condensing("done"), layers=[("turn", use_small_model)]) as gateway:
        await fill(gateway)
    await crash(house, "model:ended", condensing("lost"), layers=[("turn", use_small_model)])
    async with house.open(condensing("done"), layers=[("turn", use_small_model)]) as gateway:
        await gateway.app.idle()
        assert gateway.said == [f"done\n\n{ENGLISH}"]


@pytest.mark.spec("M-34")
@in_virtual_time
async def test_the_context_tells_that_earlier_messages_were_compacted_away(house: House) -> None:
    seen: list[Context] = []

    async def look(ctx: TurnContext) -> TurnResult:
        seen.append(ctx.context)
        return await use_small_model(ctx)

    async with house.open(condensing("done"), layers=[("turn", look)]) as gateway:
        session = await fill(gateway)
        await gateway.ask("how is it?")
        await gateway.ask("and now?")
        await gateway.app.reset(session)
        await gateway.ask("and anew?")
        assert [context.is_compacted for context in seen] == [False, False, True, False]
        ids = [{each.id for each in context.transcript} for context in seen]
        assert ("b0" in ids[1], "b0" in ids[2]) == (True, False), "and so they were"
