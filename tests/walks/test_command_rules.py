"""What a command may declare: its pause, when it runs, its arguments, its names; and what its answer may carry."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from tests.walks.house import House, in_virtual_time

import finclaw
from finclaw.builtins.basics import BasicCommand
from finclaw.errors import ExtensionError
from finclaw.finance.extension import DEMO_LINES
from finclaw.finance.market import DEMO_SOURCE
from finclaw.kernel.envelope import ActionButton, Inbound, OutboundFile
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.fact import Fact
from finclaw.kernel.port import Command, CommandArgument, CommandReply, CommandScope
from finclaw.kernel.scope import Draft, DraftFinding
from finclaw.testing import ScriptedProvider, delay, reply
from finclaw.testing.channel import PROFILES

PRICE = Fact(
    subject="AAPL", field="price", value=Decimal("190.5"), as_of=datetime(2026, 1, 2, tzinfo=UTC), source=DEMO_SOURCE
)
CHART = OutboundFile(blob="ab" * 32, name="aapl.png", mime="image/png")
MORE = ActionButton(label="More", command="/tick AAPL", style="primary")


async def quote(args: Sequence[str], scope: CommandScope) -> CommandReply:
    return CommandReply(
        f"**{args[0]}** is at 190.5", kind="reply", facts=(PRICE,), attachments=(CHART,), actions=(MORE,)
    )


QUOTE = BasicCommand(
    name="tick",
    names={"ko": "체결가"},
    description="Tells a price / 체결가",
    usage="/tick SYMBOL [currency]",
    arguments=(CommandArgument("SYMBOL", "what it is the price of"), CommandArgument("currency", "", required=False)),
    cooldown=30,
    answer=quote,
)


async def done(args: Sequence[str], scope: CommandScope) -> CommandReply:
    return CommandReply("done")


LATER = BasicCommand(name="later", description="Waits", usage="/later", when="in_lane", answer=done)
AT_ONCE = BasicCommand(name="now", description="Does not", usage="/now", answer=done)


@pytest.mark.spec("C-01", "C-10", "DX-13")
@in_virtual_time
async def test_a_cooldown_is_one_persons_and_says_how_long(house: House) -> None:
    async with house.open(commands=[QUOTE]) as gateway:
        assert (await gateway.ask("/tick AAPL")).kind == "command"
        house.clock.advance(10.5)
        early = await gateway.ask("/tick AAPL")
        assert (early.kind, early.reply) == ("refused", "/tick can be used again in 20 s.")
        assert (await gateway.ask("/체결가 AAPL")).reply == "/tick 명령은 20초 뒤에 다시 쓸 수 있습니다."
        await gateway.channel.write("/tick AAPL", sender="grace")
        await gateway.app.idle()
        assert "is at 190.5" in gateway.said[-1]
        house.clock.advance(20)
        assert (await gateway.ask("/tick AAPL")).kind == "command"


@pytest.mark.spec("C-01")
@in_virtual_time
async def test_a_command_in_its_lane_waits_for_what_was_asked_before(house: House) -> None:
    async with house.open(reply(delay(5), "slow"), commands=[LATER, AT_ONCE]) as gateway:
        await gateway.channel.write("hi")
        await asyncio.sleep(1)
        await gateway.channel.write("/later")
        await gateway.channel.write("/now")
        await gateway.app.idle()
        assert gateway.said == ["done", "slow", "done"]


@in_virtual_time
async def test_an_answer_with_facts_files_and_buttons_is_labelled_like_a_reply(house: House) -> None:
    async with house.open(commands=[QUOTE], capabilities=PROFILES["telegram"]) as gateway:
        outcome = await gateway.ask("/tick AAPL")
        (sent,) = gateway.channel.sent
        outbound = sent.unit.outbound
        assert outcome.facts == (PRICE,)
        assert (outbound.kind, outbound.attachments, outbound.actions) == ("reply", (CHART,), (MORE,))
        assert sent.formatted.startswith("<b>AAPL</b> is at 190.5")
        assert DEMO_LINES["en"] in sent.formatted
        assert outbound.perishable


async def test_a_visibility_check_sees_the_facts_of_an_answer(house: House) -> None:
    drafts = list[Draft]()

    def look(draft: Draft) -> Sequence[DraftFinding]:
        drafts.append(draft)
        return ()

    class Looking:
        name = "looking"

        def register(self, api: ExtensionApi) -> None:
            api.commands.register(QUOTE)
            api.visible.check(look)

    settings = finclaw.Settings(state=house.state)
    async with finclaw.build(settings, provider=ScriptedProvider(), extensions=[Looking()]) as app:
        assert (await app.handle(Inbound(text="/tick AAPL"))).facts == (PRICE,)
    assert next(tuple(draft.facts) for draft in drafts if "190.5" in draft.text) == (PRICE,)


@in_virtual_time
async def test_a_missing_argument_is_explained(house: House) -> None:
    async with house.open(commands=[QUOTE]) as gateway:
        bare = await gateway.ask("/tick")
        assert bare.kind == "command"
        assert (bare.reply or "").splitlines() == [
            "/tick SYMBOL [currency]",
            "Tells a price",
            "  SYMBOL – what it is the price of",
            "  currency (optional)",
            "also: 체결가",
        ]
        assert (await gateway.ask("/help tick")).reply == bare.reply
        assert ((await gateway.ask("/help 체결가")).reply or "").endswith("currency (선택)\n다른 이름: 체결가")
        assert (await gateway.ask("/tick AAPL")).reply != bare.reply, "an explanation uses up no time"


@in_virtual_time
async def test_help_names_commands_in_the_language_it_is_asked_in(house: House) -> None:
    async with house.open(commands=[QUOTE]) as gateway:
        assert "/tick – Tells" in ((await gateway.ask("/help")).reply or "")
        assert "/체결가 – 체결가" in ((await gateway.ask("/도움말")).reply or "")
        assert {"tick", "체결가"} <= set(gateway.app.known_commands())


@in_virtual_time
async def test_a_name_in_a_language_belongs_to_one_command(house: House) -> None:
    other = BasicCommand(name="other", names={"ko": "체결가"}, description="", usage="", answer=done)
    with pytest.raises(ExtensionError, match="체결가"):
        async with house.open(commands=[QUOTE, other]):
            pass


class Older:
    """A command as extensions wrote it before there was more to declare."""

    name, aliases, description, usage, category, roles = "older", (), "Old", "/older", "general", ()

    async def run(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        return CommandReply("still here")


@in_virtual_time
async def test_a_command_of_an_older_extension_still_works(house: House) -> None:
    older: Command = Older()  # pyright: ignore[reportAssignmentType]
    async with house.open(commands=[older]) as gateway:
        assert (await gateway.ask("/older")).reply == "still here"
        assert "/older – Old" in ((await gateway.ask("/help")).reply or "")
        assert ((await gateway.ask("/help older")).reply or "").startswith("/older")
