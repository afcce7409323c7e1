"""The live stream: numbered, resumed, reset when the place is gone."""

import asyncio
from contextlib import aclosing

import pytest
from tests.web.live_stream import accepted, take

from finclaw.kernel.event import (
    ApprovalChange,
    ApprovalChanged,
    MessageEnded,
    PreviewUpdated,
    ToolEndedEvent,
    ToolStartedEvent,
)
from finclaw.web.live import LiveStream


def one_message(live: LiveStream, inbound_id: str = "m-1") -> None:
    live.observe(accepted(inbound_id))
    live.observe(ToolStartedEvent(inbound_id=inbound_id, turn_id="t-1", call_id="c", tool="market__quote"))
    live.observe(
        ToolEndedEvent(
            inbound_id=inbound_id, turn_id="t-1", call_id="c", tool="market__quote", status="ok", duration_ms=1
        )
    )
    live.observe(PreviewUpdated(inbound_id=inbound_id, turn_id="t-1", at=0, text="Apple is up."))
    live.observe(MessageEnded(inbound_id=inbound_id, turn_id="t-1", outcome="answered", reply="Apple is up."))


@pytest.mark.spec("TC-03")
async def test_tool_progress_and_previews_are_streamed_in_order() -> None:
    live = LiveStream()
    async with aclosing(live.follow("owner", None, None)) as events:
        first = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        one_message(live)
        seen = [await first, *await take(events, 4)]
    assert [event.type for event in seen] == ["accepted", "tool_progress", "tool_progress", "preview_update", "outcome"]
    assert seen[1].data["state"] == "started"
    assert seen[2].data["status"] == "ok"
    assert seen[4].data["reply"] == "Apple is up."


async def test_a_client_goes_on_exactly_behind_the_event_it_saw_last() -> None:
    live = LiveStream()
    async with aclosing(live.follow("owner", None, None)) as events:
        first = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        one_message(live)
        seen = [await first, *await take(events, 4)]
    for place in range(4):
        async with aclosing(live.follow("owner", None, seen[place].id)) as events:
            assert await take(events, 4 - place) == seen[place + 1 :]


async def test_other_accounts_conversations_and_channels_are_not_shown() -> None:
    live = LiveStream()
    async with aclosing(live.follow("owner", "main", None)) as events:
        first = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        live.observe(accepted("m-1", account="somebody"))
        live.observe(accepted("m-2", conversation="other"))
        live.observe(accepted("m-3", channel="telegram"))
        live.observe(accepted("m-4"))
        assert (await asyncio.wait_for(first, 60)).data["inbound_id"] == "m-4"


@pytest.mark.parametrize("after", ["deadbeef.3", "nonsense", "", ".", "x.99999999999999999999"])
async def test_a_place_of_another_life_is_answered_with_reset_and_what_is_open(after: str) -> None:
    live = LiveStream()
    one_message(live, "m-1")
    live.observe(accepted("m-2"))
    live.observe(PreviewUpdated(inbound_id="m-2", turn_id="t-2", at=0, text="Well, "))
    live.observe(PreviewUpdated(inbound_id="m-2", turn_id="t-2", at=6, text="it depends."))
    async with aclosing(live.follow("owner", None, after)) as events:
        (reset,) = await take(events, 1)
    assert reset.type == "reset"
    assert reset.data["seq"] == 8
    assert reset.data["open"] == [
        {"inbound_id": "m-2", "conversation": "main", "turn_id": "t-2", "preview": "Well, it depends."}
    ]


async def test_a_client_that_is_too_slow_is_reset_instead_of_fed_half() -> None:
    live = LiveStream(capacity=3)
    async with aclosing(live.follow("owner", None, None)) as events:
        first = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        live.observe(accepted("m-0"))
        seen = await first
        one_message(live)
        one_message(live, "m-2")
        (reset,) = await take(events, 1)
        assert reset.type == "reset"
        live.observe(accepted("m-9"))
        (following,) = await take(events, 1)
        assert following.data["inbound_id"] == "m-9"
    async with aclosing(live.follow("owner", None, seen.id)) as events:
        assert (await take(events, 1))[0].type == "reset"


async def test_an_answer_that_begins_anew_replaces_the_preview() -> None:
    live = LiveStream()
    live.observe(accepted("m-1"))
    live.observe(PreviewUpdated(inbound_id="m-1", at=0, text="Let me look."))
    live.observe(PreviewUpdated(inbound_id="m-1", at=0, text="Found it."))
    async with aclosing(live.follow("owner", None, "old.1")) as events:
        (reset,) = await take(events, 1)
    assert reset.data["open"][0]["preview"] == "Found it."


def changed(change: ApprovalChange, *, account: str = "owner", channel: str = "web") -> ApprovalChanged:
    return ApprovalChanged(
        inbound_id="m-1",
        turn_id="t-1",
        approval_id="ap-1",
        call_id="c",
        tool="order",
        change=change,
        by="web:owner:owner",
        channel=channel,
        account=account,
        conversation="main",
    )


@pytest.mark.spec("DX-22")
async def test_what_becomes_of_an_approval_is_streamed_also_when_its_message_has_long_ended() -> None:
    live = LiveStream()
    async with aclosing(live.follow("owner", "main", None)) as events:
        first = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        live.observe(changed("asked"))
        live.observe(changed("approved", account="somebody"))
        live.observe(changed("approved", channel="telegram"))
        live.observe(changed("approved"))
        seen = [await first, *await take(events, 1)]
    assert [(event.type, event.data["change"]) for event in seen] == [("approval", "asked"), ("approval", "approved")]
    assert seen[1].data == {
        "inbound_id": "m-1",
        "conversation": "main",
        "turn_id": "t-1",
        "approval_id": "ap-1",
        "tool": "order",
        "change": "approved",
        "by": "web:owner:owner",
    }
