"""A message goes in, an answer comes out."""

from decimal import Decimal

import pytest
from msgspec.structs import replace
from tests.walks.house import ALL_STAGES, House, Parts, crash, in_virtual_time

import finclaw
from finclaw.agent.settings import AgentSettings
from finclaw.channels.mailbox import MailboxChannel
from finclaw.errors import AuthFailed, SendFailed, SendRefused
from finclaw.kernel.chunk import Usage
from finclaw.kernel.envelope import Capabilities, Embed, Outbound, Receipt
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.record import OutboxItem
from finclaw.kernel.scope import DeliveryContext, MessageContext, Outcome, TurnContext, TurnResult
from finclaw.testing import MemoryChannel, ScriptedProvider, call, fails, reply, say
from finclaw.testing.provider import Line


@pytest.mark.spec("P-01", "P-02", "P-05", "P-07", "DX-01", "P-59")
@in_virtual_time
async def test_row_01_a_message_walks_all_eight_stages(house: House) -> None:
    async with house.open("Hello, Ada.") as gateway:
        outcome = await gateway.ask("hi")
        assert outcome.kind == "answered"
        assert outcome.success
        assert outcome.reply == "Hello, Ada."
        assert outcome.stages_executed == ALL_STAGES
        assert [entry.result for entry in outcome.stages] == ["continue"] * 8
        assert (outcome.aborted_at, outcome.abort_reason, outcome.skipped_at, outcome.skip_reason) == (None,) * 4
        assert gateway.said == ["Hello, Ada."]
        assert gateway.channel.sent[0].unit.channel == gateway.channel.name


@pytest.mark.spec("P-15", "P-07")
@in_virtual_time
async def test_durations_are_of_the_steady_clock(house: House) -> None:
    from datetime import timedelta

    from finclaw.testing import delay

    async def slow(ctx: TurnContext) -> TurnResult:
        house.clock.jump(timedelta(hours=-5))
        return await ctx.next()

    async with house.open(reply(delay(2), "late"), layers=[("turn", slow)]) as gateway:
        outcome = await gateway.ask("hi")
        assert outcome.duration_ms == 2000
        assert {entry.name: entry.ms for entry in outcome.stages}["execute"] == 2000


@pytest.mark.spec("P-36", "DX-21")
@in_virtual_time
async def test_the_model_is_asked_with_everything_it_needs(house: House) -> None:
    settings = AgentSettings(model="scripted/one", instructions="Be brief.", max_tokens=512, temperature=0.25)
    async with house.open("first", "second", agent=settings) as gateway:
        await gateway.ask("one")
        await gateway.ask("two")
        request = gateway.provider.requests[1]
        assert (request.model.provider, request.model.name) == ("scripted", "one")
        assert "Be brief." in request.system
        assert [(each.role, each.text) for each in request.messages] == [
            ("user", "one"),
            ("assistant", "first"),
            ("user", "two"),
        ]
        assert "market__quote" in {tool.name for tool in request.tools}
        assert (request.max_tokens, request.temperature) == (512, 0.25)


@pytest.mark.spec("DX-21")
@in_virtual_time
async def test_usage_adds_up_over_the_steps(house: House) -> None:
    script = (
        reply(call("market__quote", {"symbol": "AAPL"}), usage=Usage(input=100, output=10, cache_read=5)),
        reply("done", usage=Usage(input=200, output=20, cache_write=7)),
    )
    async with house.open(*script) as gateway:
        outcome = await gateway.ask("AAPL?")
        assert outcome.usage == Usage(input=300, output=30, cache_read=5, cache_write=7)
        (turn,) = await gateway.app.turns(5)
        assert (turn.usage, turn.steps, turn.status) == (outcome.usage, 2, "completed")
        assert outcome.cost == Decimal(0)


@pytest.mark.spec("P-06", "DX-05", "P-48")
@pytest.mark.parametrize("token", ["NO_REPLY", "SILENT_REPLY"])
@in_virtual_time
async def test_row_08_a_silent_model_sends_nothing(house: House, token: str) -> None:
    async with house.open(f"<<{token}>>", "I am here") as gateway:
        outcome = await gateway.ask("psst")
        assert (outcome.kind, outcome.reply, outcome.success) == ("skipped", None, True)
        assert outcome.skipped_at == "deliver"
        assert outcome.skip_reason == f"the model chose not to answer: {token}"
        assert gateway.said == []
        assert (await gateway.ask("hello?")).kind == "answered"


@pytest.mark.spec("DX-21d", "DX-05")
@pytest.mark.parametrize("text", ["", "   \n  "])
@pytest.mark.parametrize(
    ("asked", "told"), [("say nothing", "I came to no answer"), ("아무 말", "답변을 만들지 못했습니다")]
)
@in_virtual_time
async def test_an_empty_answer_is_told_in_one_line(house: House, text: str, asked: str, told: str) -> None:
    async with house.open(reply(say(text)) if text else reply(), "now with words") as gateway:
        outcome = await gateway.ask(asked)
        assert outcome.kind == "answered"
        assert told in (outcome.reply or "")
        assert gateway.said == [outcome.reply]
        assert (await gateway.ask("and now?")).reply == "now with words"


@pytest.mark.spec("P-46", "DX-21d")
@in_virtual_time
async def test_row_08_a_long_answer_comes_in_parts_and_only_the_first_replies(house: House) -> None:
    paragraphs = [f"Paragraph {number} " + "word " * 30 for number in range(6)]
    async with house.open("\n\n".join(paragraphs), capabilities=Capabilities(max_length=300)) as gateway:
        await gateway.ask("tell me much", message_id="m-1", thread="t-9")
        units = [sent.unit for sent in gateway.channel.sent]
        assert len(units) > 1
        assert [unit.seq for unit in units] == list(range(len(units)))
        assert [unit.outbound.reply_to for unit in units] == ["m-1"] + [None] * (len(units) - 1)
        assert {unit.outbound.thread for unit in units} == {"t-9"}
        assert len({unit.token for unit in units}) == len(units)
        assert all(len(unit.outbound.text) <= 300 for unit in units)
        assert " ".join(gateway.said).split() == "\n\n".join(paragraphs).split()


@pytest.mark.spec("P-46")
@in_virtual_time
async def test_cards_stand_with_the_last_part_or_become_text(house: House) -> None:
    card = Embed(title="AAPL", text="up", url="https://example.com/aapl")

    async def with_card(ctx: DeliveryContext) -> Outbound:
        return replace(await ctx.next(), embeds=(card,))

    async with house.open(
        "x " * 200, layers=[("delivery", with_card)], capabilities=Capabilities(max_length=200, embeds=True)
    ) as gateway:
        await gateway.ask("show me")
        assert [sent.unit.outbound.embeds for sent in gateway.channel.sent][-1] == (card,)
        assert not any(sent.unit.outbound.embeds for sent in gateway.channel.sent[:-1])
    async with house.open("look:", layers=[("delivery", with_card)]) as gateway:
        outcome = await gateway.ask("again")
        assert gateway.said == ["look:\n\nAAPL\nup\nhttps://example.com/aapl"]
        assert outcome.reply == gateway.said[0]


@pytest.mark.spec("DX-06")
@in_virtual_time
async def test_the_conversation_keeps_what_was_seen_and_not_what_was_said(house: House) -> None:
    seen: list[DeliveryContext] = []

    async def sign(ctx: DeliveryContext) -> Outbound:
        seen.append(ctx)
        outbound = await ctx.next()
        return replace(outbound, text=outbound.text + "\n– signed")

    async with house.open("<<NEED_INPUT>>\nWhich one?", "Fine.", layers=[("delivery", sign)]) as gateway:
        outcome = await gateway.ask("price?")
        assert gateway.said == ["Which one?\n– signed"]
        assert outcome.reply == "Which one?\n– signed"
        assert seen[0].inbound.text == "price?"
        assert seen[0].turn is not None
        assert seen[0].turn.status == "waiting_for_human"
        await gateway.ask("AAPL")
        assert [each.text for each in gateway.seen] == ["price?", "Which one?\n– signed", "AAPL"]


@pytest.mark.spec("P-09")
@in_virtual_time
async def test_two_gateways_in_one_process_share_nothing(house: House) -> None:
    other = House(house.state / "other", house.clock)
    async with house.open("from one") as one, other.open("from two") as two:
        assert (await one.ask("hi")).reply == "from one"
        assert (await two.ask("hi")).reply == "from two"
        assert (len(one.provider.requests), len(two.provider.requests)) == (1, 1)


class Caller:
    """An extension that only keeps its api."""

    name = "caller"
    api: ExtensionApi

    def register(self, api: ExtensionApi) -> None:
        self.api = api


@pytest.mark.spec("RO-05")
@in_virtual_time
async def test_whichever_way_a_message_came_it_enters_the_pipeline_at_one_place(house: House) -> None:
    """Two channels, a mailbox that is polled, a call by a program, a turn that an extension starts, and what a gateway
    that died had accepted.
    """
    entered: list[tuple[str, str]] = []

    async def watch(ctx: MessageContext) -> Outcome:
        entered.append((ctx.inbound.channel, ctx.inbound.text))
        return await ctx.next()

    caller, layers = Caller(), Parts([("message", watch)])
    one, two = MemoryChannel(house.clock, name="one"), MemoryChannel(house.clock, name="two")
    await crash(house, "model:ended", "lost")
    async with finclaw.build(
        finclaw.Settings(state=house.state),
        channels=[one, two, MailboxChannel("web"), MemoryChannel(house.clock)],
        provider=ScriptedProvider(lambda request: "ok", clock=house.clock),
        extensions=[layers, caller],
        clock=house.clock,
        threaded=False,
    ) as app:
        first = await one.write("by one")
        ids = [first.id, (await two.write("by two")).id]
        ids.append((await app.accept(finclaw.Inbound(text="by mailbox", channel="web"))).id)
        ids.append(await caller.api.start_turn(first.session, "by extension"))
        by_call = await app.handle(finclaw.Inbound(text="by call"))
        await app.idle()
        records = [await app.wait(id, 0) for id in ids]
        outcomes = [by_call, *[record.outcome for record in records if record is not None]]
        assert [outcome and outcome.stages_executed for outcome in outcomes] == [ALL_STAGES] * 5
        assert sorted(entered) == [
            ("api", "by call"),
            ("memory", "buy"),
            ("one", "by extension"),
            ("one", "by one"),
            ("two", "by two"),
            ("web", "by mailbox"),
        ]


@pytest.mark.spec("TC-04")
@pytest.mark.parametrize(
    ("script", "trouble", "ends"),
    [
        ("word " * 40, None, "delivered"),
        ("word " * 40, SendFailed("busy"), "delivered"),
        ("word " * 40, SendRefused("no"), "dead"),
        (fails(AuthFailed("no")), None, "delivered"),
        (fails(AuthFailed("no")), SendRefused("no"), "dead"),
    ],
)
@in_virtual_time
async def test_a_status_is_open_until_the_last_send_is_done(
    house: House, script: Line, trouble: SendFailed | SendRefused | None, ends: str
) -> None:
    """Also where the turn failed and the notice is what is sent, and where the send itself fails."""
    before_sends: list[str] = []

    class Asking(MemoryChannel):
        async def send(self, unit: OutboxItem) -> Receipt:
            before_sends.append(await status(unit.inbound_id))
            return await super().send(unit)

    async def status(inbound_id: str) -> str:
        record = await gateway.app.wait(inbound_id, 0)
        assert record is not None
        assert record.state == "ended", "the answer is there, and not all of it was sent"
        return record.delivery

    channel = Asking(house.clock, capabilities=Capabilities(max_length=50))
    async with house.open(script, channel=channel) as gateway:
        if trouble is not None:
            channel.fail_next(trouble)
        accepted = await channel.write("hi")
        await gateway.app.idle()
        assert await status(accepted.id) == ends
    assert len(before_sends) >= (1 if ends == "dead" else 2), "in several parts"
    assert set(before_sends) == {"pending"}


@in_virtual_time
async def test_a_message_handled_before_gives_the_outcome_it_had(house: House) -> None:
    inbound = finclaw.Inbound(text="once", message_id="m-1")
    async with house.open("only once") as gateway:
        first = await gateway.app.handle(inbound)
        assert await gateway.app.handle(inbound) == first
    async with house.open() as gateway:
        assert await gateway.app.handle(inbound) == first
