"""When a turn fails: the sender is told in their language, and the conversation stays valid and true."""

import asyncio

import pytest
from tests.support.disk import Disk
from tests.walks.house import House, in_virtual_time
from tests.walks.tools import Desk

from finclaw.errors import (
    AuthFailed,
    BadRequest,
    ContextTooLong,
    NoStream,
    NotFound,
    Overloaded,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    StoreCorrupt,
    StoreFailed,
    Superseded,
)
from finclaw.kernel.chunk import Usage
from finclaw.kernel.envelope import Capabilities
from finclaw.kernel.message import ToolResult
from finclaw.kernel.port import ToolScope
from finclaw.testing import MemoryChannel, Reply, call, fails, reply, think
from finclaw.transcript.integrity import ABORTED


@pytest.mark.spec("DX-21", "P-60")
@pytest.mark.parametrize(
    ("error", "tries", "told"),
    [
        (RateLimited("slow"), 3, "not available right now"),
        (Overloaded("later"), 3, "not available right now"),
        (AuthFailed("who?"), 1, "has to be put right first"),
        (QuotaExceeded("pay"), 1, "has to be put right first"),
        (NotFound("whom?"), 1, "has to be put right first"),
        (NoStream("a page"), 1, "has to be put right first"),
        (BadRequest("no"), 1, "did not take this request"),
        (ContextTooLong("much"), 1, "more than I can read"),
    ],
    ids=repr,
)
@in_virtual_time
async def test_a_model_that_does_not_answer_is_an_abort_in_execute(
    house: House, error: ProviderError, tries: int, told: str
) -> None:
    """Who asked is told whether waiting, other words or the operator can help; the next message is answered."""
    async with house.open(*[fails(error)] * tries, "back again") as gateway:
        outcome = await gateway.ask("hi")
        assert (outcome.kind, outcome.aborted_at) == ("failed", "execute")
        assert (outcome.abort_reason or "").startswith(f"{type(error).__name__}: {error} (scripted/demo")
        assert told in gateway.said[0]
        assert (await gateway.ask("hi")).reply == "back again"


@pytest.mark.spec("RT-03")
@in_virtual_time
async def test_the_operator_reads_who_was_asked_and_what_to_do(house: House, caplog: pytest.LogCaptureFixture) -> None:
    async with house.open(fails(AuthFailed("api answered 401: the key sk-live-0123456789abcdefghijklmnop"))) as gateway:
        outcome = await gateway.ask("hi")
    assert outcome.reason.startswith("AuthFailed: api answered 401: the key ")
    assert "(scripted/" in outcome.reason
    assert "give a key that is valid and may use this model" in outcome.reason
    assert outcome.reason in caplog.text
    assert "0123456789abcdefghijklmnop" not in caplog.text + outcome.reason


@pytest.mark.parametrize("nothing", [reply(), reply(think("hm")), reply(stop="refusal")], ids=repr)
@in_virtual_time
async def test_a_model_that_says_nothing_is_told_to_the_person_and_to_the_log(
    house: House, nothing: Reply, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with house.open(nothing, "yes") as gateway:
        outcome = await gateway.ask("삼성전자 얼마야?")
        assert (outcome.kind, outcome.reason) == ("answered", "the model said nothing")
        assert "답변을 만들지 못했습니다" in gateway.said[0]
        assert (await gateway.ask("hi")).reason == ""
    assert [getattr(each, "reason", "") for each in caplog.records if each.message == "answered"] == [
        "the model said nothing",
        "",
    ]


@pytest.mark.parametrize(
    "half", [reply("half an ans", fault="cut"), reply("half", fault=Overloaded("x"))], ids=["cut", "fault"]
)
@in_virtual_time
async def test_half_an_answer_is_no_answer(house: House, half: object) -> None:
    async with house.open(half, half, half, "whole") as gateway:  # pyright: ignore[reportArgumentType]
        outcome = await gateway.ask("hi")
        assert (outcome.kind, outcome.aborted_at) == ("failed", "execute")
        await gateway.ask("again")
        assert [each.text for each in gateway.seen] == ["hi", outcome.reply, "again"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("삼성전자 얼마야?", "지금은 답변을 드릴 수 없습니다"),
        ("AAPL TSLA NVDA 얼마", "지금은 답변을 드릴 수 없습니다"),
        ("How is 삼성전자 doing today, please?", "not available right now"),
        ("123", "not available right now"),
    ],
)
@in_virtual_time
async def test_notices_speak_the_persons_language(house: House, text: str, words: str) -> None:
    async with house.open(*[fails(Overloaded("x"))] * 3) as gateway:
        await gateway.ask(text)
        assert words in gateway.said[0]


@pytest.mark.spec("DX-21")
@in_virtual_time
async def test_after_a_failure_the_conversation_holds_what_the_person_saw(house: House) -> None:
    desk = Desk()
    script = (reply("I look. ", call("look", {"text": "x"})), *[fails(Overloaded("x"))] * 3, "fine")
    async with house.open(*script, tools=[desk.tool("look")]) as gateway:
        failed = await gateway.ask("go")
        await gateway.ask("again")
        assert [(each.role, each.text) for each in gateway.seen] == [
            ("user", "go"),
            ("assistant", "I look. "),
            ("tool", ""),
            ("assistant", failed.reply),
            ("user", "again"),
        ]
        assert gateway.results == [ToolResult("call_1_1", "look", "look: x")]
        assert gateway.said[0] == failed.reply


@in_virtual_time
async def test_calls_left_open_get_a_result_that_says_so(house: House) -> None:
    async def broken(ctx: object) -> ToolResult:
        raise RuntimeError("a layer's bug")

    async with house.open(
        reply(call("market__quote", {"symbol": "AAPL"}, id="c1")), "fine", layers=[("tool_call", broken)]
    ) as gateway:
        await gateway.ask("go")
        await gateway.ask("again")
        assert gateway.results == [ToolResult("c1", "market__quote", ABORTED, status="skipped")]


@in_virtual_time
async def test_an_answer_that_could_not_be_delivered_is_not_remembered_as_said(house: House) -> None:
    first = [1]

    async def broken(ctx: object) -> object:
        if first:
            first.pop()
            raise RuntimeError("a layer's bug")
        return await ctx.next()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]

    async with house.open("never shown", "fine", layers=[("delivery", broken)]) as gateway:
        outcome = await gateway.ask("go")
        assert outcome.aborted_at == "deliver"
        await gateway.ask("again")
        assert [each.text for each in gateway.seen] == ["go", outcome.reply, "again"]


@pytest.mark.spec("DX-21")
@in_virtual_time
async def test_a_failed_turn_still_tells_what_it_spent_and_did(house: House) -> None:
    desk = Desk()
    script = (reply(call("look"), usage=Usage(input=70, output=7)), fails(Overloaded("x")))
    async with house.open(*script, tools=[desk.tool("look")]) as gateway:
        outcome = await gateway.ask("go")
        assert (outcome.kind, outcome.usage) == ("failed", Usage(input=70, output=7))
        assert [use.name for use in outcome.tools] == ["look"]
        (turn,) = await gateway.app.turns(1)
        assert (turn.status, turn.usage) == ("failed", Usage(input=70, output=7))


@pytest.mark.spec("V-08", "X-06")
@in_virtual_time
async def test_a_tool_that_fails_is_for_the_model_to_read(house: House) -> None:
    async def broken(text: str, scope: ToolScope) -> str:
        raise ZeroDivisionError("secret detail")

    desk = Desk()
    async with house.open(reply(call("look")), "it broke", tools=[desk.tool("look", broken)]) as gateway:
        assert (await gateway.ask("go")).kind == "answered"
        assert gateway.results[0].content == "look failed: ZeroDivisionError"


# ── a store that refuses ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("method", ["claim", "record", "finish", "end", "release"])
@in_virtual_time
async def test_a_store_that_refuses_twice_loses_nothing(house: House, method: str) -> None:
    desk = Desk()
    house.troubles[method] = [StoreFailed("full"), StoreFailed("full")]
    text = "/help" if method == "end" else "go"
    script = (reply(call("look")), "answered", "next")
    async with house.open(*script, tools=[desk.tool("look")]) as gateway:
        outcome = await gateway.ask(text)
        expected = {"record": "failed", "end": "command"}.get(method, "answered")
        assert outcome.kind == expected
        assert len(gateway.said) == 1
        if method == "record":
            assert (outcome.aborted_at, outcome.abort_reason) == ("execute", "StoreFailed: full")


@pytest.mark.parametrize("method", ["claim", "record", "finish"])
@in_virtual_time
async def test_a_newer_writer_stops_the_turn_and_the_sender_is_told(house: House, method: str) -> None:
    desk = Desk()
    house.troubles[method] = [Superseded("reset")]
    async with house.open(reply(call("look")), "answer", "next", tools=[desk.tool("look")]) as gateway:
        outcome = await gateway.ask("go")
        assert (outcome.kind, outcome.reason) == ("stopped", "reset")
        assert gateway.said == [outcome.reply]


@pytest.mark.spec("P-32")
@in_virtual_time
async def test_a_conversation_that_cannot_be_read_ends_the_message_and_says_where_and_why(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    house.troubles["claim"] = [StoreCorrupt("row 7 of the conversation holds no message")]
    async with house.open("never asked", "next") as gateway:
        accepted = await gateway.channel.write("go")
        await gateway.outcome(accepted)
        await gateway.app.idle()
        record = await gateway.app.wait(accepted.id, 0)
        assert record is not None
        outcome = record.outcome
        assert outcome is not None
        assert (outcome.kind, outcome.success, outcome.aborted_at) == ("failed", False, "dispatch")
        assert outcome.abort_reason == "StoreCorrupt: row 7 of the conversation holds no message"
        assert (outcome.stages[-1].name, outcome.stages[-1].result) == ("dispatch", "abort")
        assert outcome.abort_reason in caplog.text
        assert gateway.said == [outcome.reply]
        assert gateway.provider.requests == []


@pytest.mark.spec("P-32")
@pytest.mark.parametrize("at", range(1, 16))
@in_virtual_time
async def test_a_disk_that_fails_for_a_while_delays_and_loses_nothing(house: House, at: int) -> None:
    with Disk(default=True) as disk:
        async with house.open("one", "two") as gateway:
            await gateway.ask("first")
            disk.fail(at=at, error="full", ops=("write", "sync"), forever=True)
            asyncio.get_running_loop().call_later(7, disk.heal)
            accepted = None
            while accepted is None:
                try:
                    accepted = await gateway.channel.write("second", message_id="m-2")
                except StoreFailed:
                    await house.clock.sleep(1)
            await gateway.app.idle()
            outcome = await gateway.outcome(accepted)
            assert (outcome.kind, outcome.reply) == ("answered", "two")
            assert gateway.said == ["one", "two"]


@in_virtual_time
async def test_a_notice_that_the_delivery_layers_break_goes_out_as_it_is(house: House) -> None:
    async def broken(ctx: object) -> object:
        raise RuntimeError("a layer's bug")

    async with house.open("never shown", layers=[("delivery", broken)]) as gateway:
        outcome = await gateway.ask("go")
        assert (outcome.kind, outcome.aborted_at) == ("failed", "deliver")
        assert gateway.said == [outcome.reply]
        assert "something went wrong" in gateway.said[0]


@in_virtual_time
async def test_a_channel_whose_abilities_cannot_be_read_still_gets_an_end(house: House) -> None:
    class Blank(MemoryChannel):
        @property
        def capabilities(self) -> Capabilities:
            raise RuntimeError("a channel's bug")

        @capabilities.setter
        def capabilities(self, given: Capabilities) -> None:
            pass

    async with house.open("x", channel=Blank(house.clock)) as gateway:
        outcome = await gateway.outcome(await gateway.channel.write("go"))
        assert (outcome.kind, outcome.abort_reason) == ("failed", "RuntimeError: a channel's bug")


@in_virtual_time
async def test_a_failed_turn_counts_only_what_the_model_said(house: House) -> None:
    async with house.open(fails(Overloaded("x"))) as gateway:
        await gateway.ask("go")
        (turn,) = await gateway.app.turns(1)
        assert turn.steps == 0


@in_virtual_time
async def test_an_end_that_cannot_be_written_leaves_the_message_for_the_next_start(house: House) -> None:
    house.troubles["finish"] = [StoreCorrupt("damaged"), StoreCorrupt("damaged")]
    async with house.open("lost", "not this one") as gateway:
        accepted = await gateway.channel.write("go")
        record = await gateway.app.wait(accepted.id, float("inf"))
        assert record is not None
        assert record.outcome is None
        assert gateway.said == []
    async with house.open("found") as gateway:
        assert (await gateway.outcome(accepted)).reply == "found"


@pytest.mark.parametrize(("text", "words"), [("hi", "more than I can read at once"), ("안녕", "너무 깁니다")])
@in_virtual_time
async def test_what_no_model_can_take_in_is_said_so(house: House, text: str, words: str) -> None:
    async with house.open(fails(ContextTooLong("too long")), "fine") as gateway:
        assert (await gateway.ask(text)).kind == "failed"
        assert words in gateway.said[0]
        assert (await gateway.ask("short")).reply == "fine"
