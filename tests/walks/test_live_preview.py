"""An answer that is shown in one message while the model writes it, on a channel that can edit."""

import asyncio
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace
from tests.walks.house import Gateway, House, crash, in_virtual_time

from finclaw.delivery.format import RESENT_MARK
from finclaw.errors import MarkupRefused, SendFailed, SendRefused, SendUnknown, StoreFailed
from finclaw.kernel.envelope import Capabilities, OutboundFile
from finclaw.pipeline.settings import PipelineSettings
from finclaw.testing import MemoryChannel, call, delay, hold, reply, say
from finclaw.testing.channel import PROFILES

EDITS = Capabilities(edits=True, deletes=True)
SENTENCES = [f"This is sentence {n} of the answer. " for n in range(12)]
WHOLE = "".join(SENTENCES)


def streamed(pace: float = 0.5) -> Any:
    return reply(*[say(each) for each in SENTENCES], pace=pace)


def shown(gateway: Gateway) -> list[str]:
    return [" ".join(text.split()) for text in gateway.said]


@in_virtual_time
async def test_the_first_sentence_is_seen_within_a_second_and_the_answer_in_its_place(house: House) -> None:
    async with house.open(streamed(), capabilities=EDITS) as gateway:
        begun = house.clock.now()
        accepted = await gateway.channel.write("tell me", thread="t-1")
        (first,) = await gateway.channel.until_sent(1)
        assert first.text == SENTENCES[0].strip()
        assert first.at - begun <= timedelta(seconds=0.5 + 1)
        outcome = await gateway.outcome(accepted)
        await gateway.app.idle()
        assert (outcome.kind, outcome.reply) == ("answered", WHOLE.strip())
        assert shown(gateway) == [WHOLE.strip()]
        assert len(gateway.channel.attempts) == 1, "one message, and no second one"
        (sent,) = gateway.channel.sent
        assert (sent.unit.outbound.thread, sent.unit.outbound.reply_to) == ("t-1", accepted.inbound.message_id)
        assert (await gateway.app.messages(accepted.session))[-1].text == WHOLE.strip()
        record = await gateway.app.wait(accepted.id, 0)
        assert record is not None
        assert record.delivery == "delivered"


@pytest.mark.parametrize(("chat_type", "seconds"), [("direct", 1), ("group", 4)])
@in_virtual_time
async def test_edits_are_at_least_a_second_apart_and_more_in_groups(house: House, chat_type: str, seconds: int) -> None:
    async with house.open(streamed(0.3), capabilities=EDITS) as gateway:
        await gateway.ask("tell me", chat_type=chat_type, mentions_us=True)
        *previews, final = [at for at, _, _ in gateway.channel.edits]
        times = [gateway.channel.sent[0].at, *previews]
        assert all(later - sooner >= timedelta(seconds=seconds) for sooner, later in pairwise(times))
        assert final >= previews[-1] if previews else True
        assert shown(gateway) == [WHOLE.strip()]


@pytest.mark.spec("P-08")
@in_virtual_time
async def test_streaming_can_be_switched_off(house: House) -> None:
    settings = PipelineSettings(streaming_enabled=False)
    async with house.open(streamed(), capabilities=EDITS, pipeline=settings) as gateway:
        await gateway.ask("tell me")
        assert shown(gateway) == [WHOLE.strip()]
        assert gateway.channel.edits == []


@in_virtual_time
async def test_a_longer_answer_goes_on_in_further_messages(house: House) -> None:
    capabilities = Capabilities(edits=True, max_length=200)
    async with house.open(streamed(), capabilities=capabilities) as gateway:
        await gateway.ask("tell me")
        assert " ".join(shown(gateway)) == WHOLE.strip()
        assert len(gateway.said) > 2
        assert [sent.unit.outbound.reply_to is None for sent in gateway.channel.sent] == [
            False,
            *[True] * (len(gateway.said) - 1),
        ]


@in_virtual_time
async def test_words_before_a_tool_make_room_for_the_answer(house: House) -> None:
    script = [reply(say("Let me look that up. "), delay(3), call("no__such_tool", {})), "The answer is yes. "]
    async with house.open(*script, capabilities=EDITS) as gateway:
        await gateway.ask("tell me")
        assert gateway.said == ["The answer is yes."]


# ── when something goes wrong ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("error", "messages"),
    [(SendRefused("the message is gone"), 2), (SendFailed("busy"), 1), (SendUnknown("cut"), 1)],
    ids=["refused", "failed", "unknown"],
)
@in_virtual_time
async def test_an_answer_that_cannot_take_its_place_is_a_message_of_its_own(
    house: House, error: Any, messages: int
) -> None:
    async with house.open(reply(say(SENTENCES[0]), delay(3), say(SENTENCES[1])), capabilities=EDITS) as gateway:
        accepted = await gateway.channel.write("tell me")
        await gateway.channel.until_sent(1)
        gateway.channel.fail_next_edits(error)
        await gateway.outcome(accepted)
        await gateway.app.idle()
        assert shown(gateway) == [(SENTENCES[0] + SENTENCES[1]).strip()], "once, and whole"
        assert len(gateway.channel.attempts) == messages


@pytest.mark.parametrize("deletes", [True, False])
@in_virtual_time
async def test_answer_after_edits_in_doubt_is_marked_if_its_preview_stays(house: House, *, deletes: bool) -> None:
    """An edit without a reply may have shown the answer already, in the message that cannot be deleted."""
    script = reply(say(SENTENCES[0]), delay(3), say(SENTENCES[1]))
    async with house.open(script, capabilities=Capabilities(edits=True, deletes=deletes)) as gateway:
        accepted = await gateway.channel.write("tell me")
        await gateway.channel.until_sent(1)
        gateway.channel.fail_next_edits(SendUnknown("cut"), times=3)
        await gateway.outcome(accepted)
        await gateway.app.idle()
        assert shown(gateway)[-1].startswith(RESENT_MARK) == (not deletes)


@in_virtual_time
async def test_markup_that_cannot_be_read_is_left_out_of_an_edit(house: House) -> None:
    capabilities = Capabilities(edits=True, markup="html")
    async with house.open(reply(say("A **bold** word. "), delay(3), say("And more.")), capabilities=capabilities) as g:
        accepted = await g.channel.write("tell me")
        await g.channel.until_sent(1)
        g.channel.fail_next_edits(MarkupRefused("cannot parse"))
        await g.outcome(accepted)
        await g.app.idle()
        assert [sent.formatted for sent in g.channel.sent] == ["A bold word. And more."]


@pytest.mark.parametrize(
    ("error", "arrives"),
    [(SendFailed("busy"), False), (SendRefused("no"), False), (SendUnknown("cut"), True), (SendUnknown("cut"), False)],
    ids=["failed", "refused", "arrived", "lost"],
)
@in_virtual_time
async def test_a_preview_that_fails_costs_nothing_but_the_early_sight(house: House, error: Any, arrives: bool) -> None:
    async with house.open(streamed(), capabilities=EDITS) as gateway:
        gateway.channel.fail_next(error, arrives=arrives)
        outcome = await gateway.ask("tell me")
        assert outcome.kind == "answered"
        mark = "(re-sent) " if isinstance(error, SendUnknown) else ""
        assert shown(gateway)[-1] == mark + WHOLE.strip()
        assert len(gateway.said) == 1 + arrives


@in_virtual_time
async def test_a_platform_that_knows_tokens_is_asked_for_the_preview_again(house: House) -> None:
    script = reply(say(SENTENCES[0]), say(SENTENCES[1]))
    async with house.open(script, capabilities=replace(EDITS, idempotent=True)) as gateway:
        gateway.channel.fail_next(SendUnknown("cut"), arrives=True)
        await gateway.ask("tell me")
        assert shown(gateway) == [(SENTENCES[0] + SENTENCES[1]).strip()], "the answer took its place"


@in_virtual_time
async def test_a_preview_in_doubt_is_asked_for_until_it_is_known(house: House) -> None:
    async with house.open(streamed(), capabilities=replace(EDITS, idempotent=True)) as gateway:
        gateway.channel.fail_next(SendUnknown("cut"), arrives=True)
        gateway.channel.fail_next(SendFailed("busy", retry_after=20))
        await gateway.ask("tell me")
        assert shown(gateway) == [WHOLE.strip()], "its first words would be left above the answer"


@in_virtual_time
async def test_an_answer_whose_preview_stays_in_doubt_says_that_it_repeats(house: House) -> None:
    async with house.open(streamed(), capabilities=replace(EDITS, idempotent=True)) as gateway:
        gateway.channel.fail_next(SendUnknown("cut"), arrives=True, times=4)
        await gateway.ask("tell me")
        assert shown(gateway) == [SENTENCES[0].strip(), f"(re-sent) {WHOLE.strip()}"]


@in_virtual_time
async def test_a_preview_that_hangs_is_given_up(house: House) -> None:
    async with house.open(streamed(), capabilities=EDITS) as gateway:
        gateway.channel.hold_sends()
        accepted = await gateway.channel.write("tell me")
        await gateway.channel.until_tried(1)
        await gateway.outcome(accepted)
        await house.clock.sleep(20)
        gateway.channel.release_sends()
        await gateway.app.idle()
        assert shown(gateway) == ["(re-sent) " + WHOLE.strip()]


@in_virtual_time
async def test_while_the_channel_is_away_nothing_is_shown_early(house: House) -> None:
    async with house.open(streamed(), capabilities=EDITS) as gateway:
        gateway.channel.connected = False
        accepted = await gateway.channel.write("tell me")
        await gateway.outcome(accepted)
        gateway.channel.connected = True
        await gateway.app.idle()
        assert shown(gateway) == [WHOLE.strip()]
        assert len(gateway.channel.attempts) == 1, "the preview has been superseded"


@in_virtual_time
async def test_a_preview_that_cannot_be_written_comes_with_the_end(house: House) -> None:
    house.troubles["append_items"] = [StoreFailed("the disk is full")]
    async with house.open(streamed(), capabilities=EDITS) as gateway:
        await gateway.ask("tell me")
        assert shown(gateway) == [WHOLE.strip()]
        assert gateway.channel.edits == []


# ── ends of another kind ────────────────────────────────────────────────────────────────────────────────────────


@in_virtual_time
async def test_a_silent_answer_takes_its_preview_back(house: House) -> None:
    script = reply(say(SENTENCES[0] + "\n"), delay(3), say("<<NO_REPLY>>"))
    async with house.open(script, capabilities=EDITS) as gateway:
        accepted = await gateway.channel.write("tell me")
        await gateway.channel.until_sent(1)
        assert (await gateway.outcome(accepted)).kind == "skipped"
        await gateway.app.idle()
        assert gateway.said == []


@pytest.mark.spec("BS-06")
@in_virtual_time
async def test_after_a_stop_nothing_more_is_seen_of_the_answer(house: House) -> None:
    script = reply(say(SENTENCES[0]), delay(0.2), say(SENTENCES[1]), hold(asyncio.Event()))
    async with house.open(script, "next", capabilities=EDITS) as gateway:
        accepted = await gateway.channel.write("tell me")
        await gateway.channel.until_sent(1)
        await house.clock.sleep(0.3)
        assert gateway.app.stop_message(accepted.id)
        assert (await gateway.outcome(accepted)).kind == "stopped"
        await gateway.app.idle()
        await house.clock.sleep(10)
        assert gateway.said == [SENTENCES[0].strip(), "Stopped."]
        assert gateway.channel.edits == []
        last = (await gateway.app.messages(accepted.session))[-1].text
        assert last == f"{SENTENCES[0].strip()}\n\nStopped."


@pytest.mark.spec("P-49", "BS-02")
@in_virtual_time
async def test_a_file_comes_by_itself_behind_the_text(house: House) -> None:
    blobs: list[str] = []

    async def attach(ctx: Any) -> Any:
        outbound = await ctx.next()
        files = (OutboundFile(blob=blobs[0], name="chart.csv"),) if ctx.kind == "final" else ()
        return type(outbound)(text=outbound.text, reply_to=outbound.reply_to, attachments=files)

    capabilities = Capabilities(edits=True, media={"file": 1_000_000})
    async with house.open(streamed(), layers=[("delivery", attach)], capabilities=capabilities) as gateway:
        blobs.append((await gateway.app.put_blob(b"a,b", "text/csv")).sha256)
        await gateway.ask("tell me")
        assert shown(gateway) == [WHOLE.strip(), ""]
        assert [len(sent.unit.outbound.attachments) for sent in gateway.channel.sent] == [0, 1]


# ── after a crash ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("profile", ["telegram", "matrix"])
@pytest.mark.parametrize("point", ["items:after_commit", "model:ended"])
@in_virtual_time
async def test_after_a_crash_the_answer_still_takes_the_place_of_its_preview(
    house: House, point: str, profile: str
) -> None:

    channel = MemoryChannel(house.clock, capabilities=PROFILES[profile])
    accepted = await crash(house, point, streamed(), channel=channel)
    async with house.open(reply(say("Another answer. "), delay(2), say("Its end.")), channel=channel) as gateway:
        await gateway.outcome(accepted)
        await gateway.app.idle()
        assert shown(gateway) == ["Another answer. Its end."], "what was shown before is not shown beside it"


@in_virtual_time
async def test_after_a_crash_the_answer_behind_a_preview_in_doubt_says_that_it_repeats(house: House) -> None:
    channel = MemoryChannel(house.clock, capabilities=EDITS)
    channel.fail_next(SendUnknown("cut"), arrives=True)
    accepted = await crash(house, "model:ended", streamed(pace=5), channel=channel)
    async with house.open(reply(say("Another answer. "), delay(9), say("Its end.")), channel=channel) as gateway:
        await gateway.outcome(accepted)
        await gateway.app.idle()
        assert shown(gateway) == [SENTENCES[0].strip(), "(re-sent) Another answer. Its end."]


@in_virtual_time
async def test_the_objection_of_a_check_holds_the_preview_back(house: House) -> None:
    async def guard(ctx: Any) -> Any:
        if ctx.kind == "preview" and "sentence 3" in ctx.outbound.text:
            raise ValueError("not yet")
        return await ctx.next()

    async with house.open(streamed(2), layers=[("delivery", guard)], capabilities=EDITS) as gateway:
        accepted = await gateway.channel.write("tell me")
        await gateway.outcome(accepted)
        await gateway.app.idle()
        assert not any("sentence 3" in text for _, _, text in gateway.channel.edits[:-1])
        assert shown(gateway) == [WHOLE.strip()]
