"""What extensions say and begin: to a session or a person, with facts, files and buttons; turns in the cron pool."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from tests.walks.house import Gateway, House, in_virtual_time

import finclaw
from finclaw.agent.settings import AgentSettings
from finclaw.approvals.people import PersonSettings
from finclaw.errors import ExtensionError
from finclaw.finance.extension import DEMO_LINES
from finclaw.finance.market import DEMO_SOURCE
from finclaw.kernel.envelope import ActionButton, Capabilities, Limits, OutboundFile
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.fact import Fact
from finclaw.pipeline.settings import PipelineSettings
from finclaw.testing import MemoryChannel, ScriptedProvider
from finclaw.testing.channel import PROFILES

SESSION = "main:memory:local:direct:u-1"
MINA = PersonSettings(name="Mina", known_as=("memory:local:u-1", "other:local:mina"), roles=("approver",))
PRICE = Fact(
    subject="AAPL", field="price", value=Decimal("190.5"), as_of=datetime(2026, 1, 2, tzinfo=UTC), source=DEMO_SOURCE
)


class Speaker:
    name = "speaker"
    api: ExtensionApi

    def register(self, api: ExtensionApi) -> None:
        self.api = api


@asynccontextmanager
async def speaking(
    house: House, *script: str, capabilities: Capabilities | None = None, mention: bool = False
) -> AsyncGenerator[tuple[Gateway, ExtensionApi, MemoryChannel]]:
    channel = MemoryChannel(house.clock, capabilities=capabilities)
    other = MemoryChannel(house.clock, name="other")
    speaker, provider = Speaker(), ScriptedProvider(*script, clock=house.clock)
    settings = finclaw.Settings(
        state=house.state, people=(MINA,), agent=AgentSettings(), pipeline=PipelineSettings(require_mention=mention)
    )
    async with finclaw.build(
        settings,
        channels=[channel, other],
        provider=provider,
        extensions=[speaker],
        clock=house.clock,
        threaded=False,
    ) as app:
        gateway = Gateway(app, channel, provider)
        app.events.observe(gateway.events.append)
        yield gateway, speaker.api, other


@in_virtual_time
async def test_files_and_buttons_go_out_with_the_words(house: House) -> None:
    chart = OutboundFile(blob="ab" * 32, name="aapl.png", mime="image/png", alt="AAPL")
    more = ActionButton(label="More", command="/help")
    async with speaking(house, capabilities=PROFILES["telegram"]) as (gateway, api, _):
        said = await api.send(SESSION, "Look: **a**", attachments=[chart], actions=[more])
        await gateway.app.idle()
        (sent,) = gateway.channel.sent
        outbound = sent.unit.outbound
        assert (outbound.attachments, outbound.actions, outbound.kind) == ((chart,), (more,), "notice")
        assert (sent.formatted, outbound.fallback) == ("Look: **a**", "Look: **a**\n\n1. More: /help")
        await gateway.channel.write("/help", sender="u-1", kind="action", target=sent.platform_id)
        await gateway.app.idle()
        assert "/help" in gateway.said[-1]
        assert (await gateway.app.wait(said, 0)) is not None


@in_virtual_time
async def test_facts_make_it_a_reply_that_is_labelled(house: House) -> None:
    async with speaking(house) as (gateway, api, _):
        said = await api.send(SESSION, "AAPL is at **190.5** dollars", facts=[PRICE])
        record = await gateway.app.wait(said, 60)
        await gateway.app.idle()
        (sent,) = gateway.channel.sent
        assert (sent.unit.outbound.kind, sent.unit.outbound.perishable) == ("reply", True)
        assert DEMO_LINES["en"] in sent.formatted
        assert "190.5 dollars" in sent.formatted
        assert record is not None
        assert record.outcome is not None
        assert record.outcome.facts == (PRICE,)


@in_virtual_time
async def test_a_person_is_told_where_they_wrote_last_and_once(house: House) -> None:
    async with speaking(house, "hi", "hello") as (gateway, api, other):
        await gateway.channel.write("first", sender="u-1")
        await gateway.app.idle()
        house.clock.jump(timedelta(minutes=1))
        assert await api.send("Mina", "one", key="a")
        await gateway.app.idle()
        assert gateway.said == ["hi", "one"]
        house.clock.jump(timedelta(minutes=1))
        await other.write("second", sender="mina")
        await gateway.app.idle()
        await api.send("memory:local:u-1", "two")
        await api.send("Mina", "one, once more", key="a")
        await gateway.app.idle()
        assert [sent.text for sent in other.sent] == ["hello", "two"]
        assert gateway.said == ["hi", "one"]
        with pytest.raises(ExtensionError, match="nor is it a person whom we know"):
            await api.send("Jun", "hi")


@in_virtual_time
async def test_what_is_perishable_is_dropped_and_not_asked_again(house: House) -> None:
    async with speaking(house) as (gateway, api, _):
        gateway.channel.connected = False
        said = await api.send(SESSION, "AAPL has fallen", perishable=True)
        record = await gateway.app.wait(said, 60)
        house.clock.jump(timedelta(minutes=11))
        gateway.channel.connected = True
        await gateway.app.idle()
        assert gateway.said == []
        record = await gateway.app.wait(said, 0)
        assert record is not None
        assert record.delivery == "expired"


@pytest.mark.parametrize("actions", [ActionButton(label="", command="/x"), ActionButton(label="x", command="/x\n/y")])
@in_virtual_time
async def test_a_button_is_one_line(house: House, actions: ActionButton) -> None:
    async with speaking(house) as (_, api, _other):
        with pytest.raises(ExtensionError, match="is one line"):
            await api.send(SESSION, "hi", actions=[actions])


@in_virtual_time
async def test_a_turn_is_started_and_its_answer_sent(house: House) -> None:
    async with speaking(house, "Good morning.") as (gateway, api, _):
        limits = Limits(pool="main", tools=(), max_steps=2, approval="ap-1")
        begun = await api.start_turn(SESSION, "Write the morning brief.", limits)
        record = await gateway.app.wait(begun, 60)
        await gateway.app.idle()
        assert gateway.said == ["Good morning."]
        assert record is not None
        assert record.outcome is not None
        assert (record.outcome.kind, record.session) == ("answered", SESSION)
        trace = await gateway.app.turn(begun)
        assert trace is not None
        kept = trace.inbound.limits
        assert kept is not None
        assert (kept.pool, kept.approval, kept.max_steps) == ("cron", None, 2)
        assert gateway.provider.requests[0].tools == ()


@in_virtual_time
async def test_words_of_a_started_turn_are_no_command(house: House) -> None:
    async with speaking(house, "hello", "I cannot do that.") as (gateway, api, _):
        await gateway.channel.write("hi", sender="u-1", conversation="u-1")
        await gateway.app.idle()
        await api.start_turn(SESSION, "/reset")
        await gateway.app.idle()
        assert gateway.said == ["hello", "I cannot do that."]
        assert len(await gateway.app.messages(SESSION)) == 4, "nothing was reset"


@in_virtual_time
async def test_a_turn_in_a_group_needs_no_mention(house: House) -> None:
    async with speaking(house, "The brief.", mention=True) as (gateway, api, _):
        await api.start_turn("main:memory:local:group:room", "Write the brief.")
        await gateway.app.idle()
        assert gateway.said == ["The brief."]
        with pytest.raises(ExtensionError, match="is no session"):
            await api.start_turn("Mina", "hi")
