"""An answer that is delivered in blocks while the model still writes it, on a channel that takes blocks."""

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from tests.walks.house import House, crash, in_virtual_time, until

from finclaw.agent.model.retry import GO_ON
from finclaw.channels.settings import ChannelSettings
from finclaw.errors import ConfigError, SendFailed, SendRefused, StoreFailed
from finclaw.kernel.envelope import Capabilities
from finclaw.pipeline.settings import BlockSettings, PipelineSettings
from finclaw.testing import call, delay, hold, reply, say

BLOCKS = Capabilities(blocks=True)
FIRST = "The first part of the answer. " * 8
SECOND = "The second part of it. " * 10
LAST = "And its end."
WHOLE = FIRST + SECOND + LAST


def seen(gateway: Any) -> str:
    """What a person has read, as one text: white space at the cuts does not count."""
    return " ".join(" ".join(gateway.said).split())


@in_virtual_time
async def test_a_block_is_seen_while_the_model_still_writes(house: House) -> None:
    released = asyncio.Event()
    async with house.open(reply(say(FIRST), hold(released), say(SECOND + LAST)), capabilities=BLOCKS) as gateway:
        accepted = await gateway.channel.write("tell me")
        await gateway.channel.until_sent(1)
        assert gateway.said == [FIRST.strip()]
        assert not released.is_set()
        released.set()
        outcome = await gateway.outcome(accepted)
        await gateway.app.idle()
        assert (outcome.kind, outcome.reply) == ("answered", WHOLE)
        assert seen(gateway) == WHOLE
        assert [sent.unit.seq for sent in gateway.channel.sent] == list(range(len(gateway.said)))
        assert [sent.unit.outbound.reply_to is None for sent in gateway.channel.sent] == [False, True]
        assert (await gateway.app.messages(accepted.session))[-1].text == WHOLE


@in_virtual_time
async def test_an_answer_that_ends_with_a_block_has_nothing_left_to_send(house: House) -> None:
    async with house.open(reply(say(FIRST), delay(1)), capabilities=BLOCKS) as gateway:
        outcome = await gateway.ask("tell me")
        assert (outcome.kind, outcome.reply) == ("answered", FIRST.strip())
        assert gateway.said == [FIRST.strip()]


@in_virtual_time
async def test_elsewhere_an_answer_comes_when_it_is_complete(house: House) -> None:
    released = asyncio.Event()
    async with house.open(reply(say(FIRST), hold(released), say(LAST))) as gateway:
        accepted = await gateway.channel.write("tell me")
        await until(lambda: bool(gateway.provider.requests))
        for _ in range(50):
            await asyncio.sleep(0)
        assert gateway.said == []
        released.set()
        await gateway.outcome(accepted)
        await gateway.app.idle()
        assert gateway.said == [FIRST + LAST]


@in_virtual_time
async def test_what_was_said_before_a_tool_ran_stays_before_what_follows(house: House) -> None:
    script = [reply(say(FIRST), delay(1), call("no__such_tool", {})), SECOND + LAST]
    async with house.open(*script, capabilities=BLOCKS) as gateway:
        outcome = await gateway.ask("tell me")
        assert seen(gateway) == WHOLE
        assert outcome.reply == SECOND + LAST


@pytest.mark.parametrize("point", ["items:after_commit", "model:ended"])
@in_virtual_time
async def test_after_a_crash_the_model_goes_on_behind_what_was_seen(house: House, point: str) -> None:
    accepted = await crash(house, point, reply(say(WHOLE, chunks=60), pace=1.0), capabilities=BLOCKS)
    async with house.open(_rest, capabilities=BLOCKS) as gateway:
        outcome = await gateway.outcome(accepted)
        await gateway.app.idle()
        assert gateway.provider.requests[0].messages[-1].text == GO_ON
        assert outcome.kind == "answered"
        assert "another end" in seen(gateway)
        messages = await gateway.app.messages(accepted.session)
        (answer,) = [message for message in messages if message.role == "assistant"]
        assert answer.text == gateway.provider.requests[0].messages[-2].text + "But here is another end."
        order = [sent.unit.seq for sent in gateway.channel.sent]
        assert order == sorted(set(order))


def _rest(request: Any) -> Any:
    """A model that answers otherwise than before: what was seen stays all the same."""
    assert WHOLE.startswith(request.messages[-2].text)
    return reply(say("But here is another end."))


@in_virtual_time
async def test_a_turn_that_fails_tells_so_behind_what_was_seen(house: House) -> None:
    released = asyncio.Event()
    script = reply(say(FIRST), hold(released))
    async with house.open(script, capabilities=BLOCKS, pipeline=PipelineSettings(timeout_ms=5_000)) as gateway:
        accepted = await gateway.channel.write("tell me")
        outcome = await gateway.outcome(accepted)
        await gateway.app.idle()
        assert outcome.kind == "failed"
        assert len(gateway.said) == 2
        assert gateway.said[0] == FIRST.strip()
        last = (await gateway.app.messages(accepted.session))[-1].text
        assert last.startswith(FIRST)
        assert last.endswith(gateway.said[1])


@in_virtual_time
async def test_a_model_that_breaks_off_goes_on_behind_what_was_seen(house: House) -> None:
    script = [
        reply(say(FIRST), delay(1), fault="cut"),
        reply(say(SECOND + LAST)),
    ]
    async with house.open(*script, capabilities=BLOCKS) as gateway:
        outcome = await gateway.ask("tell me")
        assert seen(gateway) == WHOLE
        assert outcome.reply == WHOLE


@in_virtual_time
async def test_a_stopped_answer_keeps_what_was_seen(house: House) -> None:
    released = asyncio.Event()
    async with house.open(reply(say(FIRST), hold(released)), "next", capabilities=BLOCKS) as gateway:
        accepted = await gateway.channel.write("tell me")
        await gateway.channel.until_sent(1)
        assert gateway.app.stop_message(accepted.id)
        assert (await gateway.outcome(accepted)).kind == "stopped"
        await gateway.ask("and now?")
        assert gateway.said[0] == FIRST.strip()
        assert any(FIRST in message.text for message in gateway.seen)


@in_virtual_time
async def test_behind_a_refused_block_nothing_is_sent(house: House) -> None:
    released = asyncio.Event()
    async with house.open(
        reply(say(FIRST), hold(released), say(SECOND + LAST)), "next", capabilities=BLOCKS
    ) as gateway:
        gateway.channel.fail_next(SendRefused("this chat is closed"))
        accepted = await gateway.channel.write("tell me")
        await gateway.channel.until_tried(1)
        released.set()
        await gateway.outcome(accepted)
        await gateway.app.idle()
        assert gateway.said == []
        record = await gateway.app.wait(accepted.id, 1)
        assert record is not None
        assert record.delivery == "dead"
        await gateway.ask("another")
        assert gateway.said == ["next"], "other answers go their way"


@in_virtual_time
async def test_a_block_that_cannot_be_written_comes_with_the_end(house: House) -> None:
    house.troubles["append_items"] = [StoreFailed("the disk is full")]
    async with house.open(reply(say(WHOLE, chunks=60), pace=1.0), capabilities=BLOCKS) as gateway:
        await gateway.ask("tell me")
        assert gateway.said == [WHOLE]


@pytest.mark.parametrize("words", ["<<NO_REPLY>>", "<<SILENT_REPLY>>"])
@in_virtual_time
async def test_a_token_at_the_beginning_holds_everything_back(house: House, words: str) -> None:
    script = reply(say(f"{words}\n{FIRST}\n{SECOND}", chunks=60), pace=1.0)
    async with house.open(script, capabilities=BLOCKS) as gateway:
        outcome = await gateway.ask("tell me")
        assert outcome.kind == "skipped"
        assert gateway.said == []


@in_virtual_time
async def test_a_block_passes_the_delivery_ring(house: House) -> None:
    async def shout(ctx: Any) -> Any:
        outbound = await ctx.next()
        return type(outbound)(text=outbound.text.upper(), reply_to=outbound.reply_to)

    script = reply(say(WHOLE, chunks=60), pace=1.0)
    async with house.open(script, layers=[("delivery", shout)], capabilities=BLOCKS) as gateway:
        outcome = await gateway.ask("tell me")
        assert len(gateway.said) > 1
        assert seen(gateway) == WHOLE.upper()
        assert outcome.reply == WHOLE.upper()


@in_virtual_time
async def test_a_layer_that_fails_on_a_block_has_another_look_at_the_end(house: House) -> None:
    calls: list[str] = []

    async def picky(ctx: Any) -> Any:
        calls.append(ctx.outbound.text)
        if len(calls) == 1:
            raise ValueError("not yet")
        return await ctx.next()

    script = reply(say(WHOLE, chunks=60), pace=1.0)
    async with house.open(script, layers=[("delivery", picky)], capabilities=BLOCKS) as gateway:
        await gateway.ask("tell me")
        assert gateway.said == [WHOLE]


@in_virtual_time
async def test_a_text_that_a_layer_made_anew_is_sent_whole(house: House) -> None:
    async def rewrite(ctx: Any) -> Any:
        result = await ctx.next()
        return type(result)(status=result.status, text="Forget that: it was wrong.")

    script = reply(say(WHOLE, chunks=60), pace=1.0)
    async with house.open(script, layers=[("turn", rewrite)], capabilities=BLOCKS) as gateway:
        outcome = await gateway.ask("tell me")
        assert len(gateway.said) > 1
        assert gateway.said[-1] == "Forget that: it was wrong."
        assert outcome.reply == "Forget that: it was wrong."


# ── gathering, pauses and sends that fail ───────────────────────────────────────────────────────────────────────

PIECES = [f"This is piece {n} of the answer, and it is as long as a sentence may well be.\n\n" for n in range(40)]
AS_THEY_COME = PipelineSettings(blocks=BlockSettings(gather=False))


@pytest.mark.spec("BS-01", "D-02")
@in_virtual_time
async def test_pieces_are_gathered_into_readable_blocks(house: House) -> None:
    async with house.open(reply(*map(say, PIECES), pace=0.05), capabilities=BLOCKS) as gateway:
        await gateway.ask("tell me")
        assert seen(gateway) == " ".join("".join(PIECES).split())
        assert 3 <= len(gateway.said) <= 5
        assert all(700 <= len(text) <= 1_200 for text in gateway.said[:-1])


@pytest.mark.spec("BS-05")
@in_virtual_time
async def test_without_gathering_pieces_are_sent_as_they_come(house: House) -> None:
    script = reply(*map(say, PIECES[:10]), pace=0.5)
    async with house.open(script, capabilities=BLOCKS, pipeline=AS_THEY_COME) as gateway:
        await gateway.ask("tell me")
        assert gateway.said == [piece.strip() for piece in PIECES[:10]]


@pytest.mark.spec("BS-03", "DX-54")
@in_virtual_time
async def test_equal_blocks_are_both_said(house: House) -> None:
    script = reply(*[say("Again.\n\n")] * 4, pace=1)
    async with house.open(script, capabilities=BLOCKS, pipeline=AS_THEY_COME) as gateway:
        await gateway.ask("tell me")
        assert gateway.said == ["Again."] * 4


@pytest.mark.spec("D-03", "D-07", "DX-69")
@pytest.mark.parametrize("pause", [None, (800, 2_500), (500, 1_500)])
@in_virtual_time
async def test_the_pause_between_blocks_is_set_by_channel(house: House, pause: tuple[int, int] | None) -> None:
    channel = ChannelSettings(kind="mailbox", pause_ms=pause)
    script = reply(*map(say, PIECES[:8]), delay(60))
    async with house.open(script, capabilities=BLOCKS, pipeline=AS_THEY_COME, channel_settings=channel) as gateway:
        await gateway.ask("tell me")
        times = [sent.at for sent in gateway.channel.sent]
        gaps = [(later - sooner).total_seconds() for sooner, later in pairwise(times)]
        low, high = pause or (0, 0)
        assert len(gaps) == 7
        assert all(low / 1000 <= gap <= high / 1000 for gap in gaps)


@pytest.mark.parametrize("pause", [(-1, 5), (900, 800), (0, 10**9)])
def test_a_pause_that_is_no_range_is_refused(pause: tuple[int, int]) -> None:
    with pytest.raises(ConfigError, match="pause_ms"):
        ChannelSettings(kind="mailbox", pause_ms=pause)


@pytest.mark.spec("BS-04", "DX-54")
@in_virtual_time
async def test_a_block_that_hangs_is_cancelled_and_the_rest_comes_with_the_final(house: House) -> None:
    script = reply(*map(say, PIECES[:10]), pace=5)
    async with house.open(script, capabilities=BLOCKS, pipeline=AS_THEY_COME) as gateway:
        accepted = await gateway.channel.write("tell me")
        await gateway.channel.until_sent(2)
        gateway.channel.hold_sends()
        await gateway.channel.until_tried(3)
        await house.clock.sleep(15.5)
        gateway.channel.release_sends()
        await gateway.outcome(accepted)
        await gateway.app.idle()
        pieces = [piece.strip() for piece in PIECES[:10]]
        assert gateway.said[:3] == [*pieces[:2], f"(re-sent) {pieces[2]}"], "nobody knows whether it had arrived"
        assert gateway.said[3:] == ["\n\n".join(pieces[3:])]


@pytest.mark.spec("D-04")
@in_virtual_time
async def test_a_block_that_fails_is_tried_again_and_the_rest_waits_for_the_end(house: House) -> None:
    script = reply(*map(say, PIECES[:4]), pace=1)
    async with house.open(script, capabilities=BLOCKS, pipeline=AS_THEY_COME) as gateway:
        gateway.channel.fail_next(SendFailed("busy"))
        await gateway.ask("tell me")
        assert gateway.said == [PIECES[0].strip(), "\n\n".join(piece.strip() for piece in PIECES[1:4])]


@pytest.mark.spec("M-17")
@in_virtual_time
async def test_the_context_names_the_channel_and_holds_none(house: House) -> None:
    found: list[Any] = []

    async def look(ctx: Any) -> Any:
        found.append(ctx.context)
        return await ctx.next()

    async with house.open("done", layers=[("turn", look)], capabilities=BLOCKS) as gateway:
        await gateway.ask("hi")
        assert found[0].inbound.channel == gateway.channel.name
        values = [getattr(found[0], name) for name in found[0].__struct_fields__]
        assert not any(value is gateway.channel or hasattr(value, "send") for value in values)
