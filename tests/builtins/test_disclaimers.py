"""The line that says that an answer is no investment advice: when there is one, which, and where it stands."""

from collections.abc import Sequence
from decimal import Decimal

import pytest
from tests.walks.house import House, in_virtual_time
from tests.walks.tools import PRICE, price_tool

from finclaw.agent.prompt.sections import ComplianceLevel
from finclaw.agent.settings import AgentSettings
from finclaw.builtins.answer_notes import LINES, states_opinion
from finclaw.builtins.basics import BasicCommand
from finclaw.delivery.format import has_room_for
from finclaw.kernel.envelope import Capabilities, Outbound
from finclaw.kernel.fact import Fact
from finclaw.kernel.port import CommandReply, CommandScope
from finclaw.kernel.scope import DeliveryContext
from finclaw.testing import call, delay, reply, say
from finclaw.testing.channel import PROFILES

RETAIL = LINES["retail"]
FIGURE_LINE, OPINION_LINE = RETAIL["figure"]["en"], RETAIL["opinion"]["en"]


def level(of: ComplianceLevel) -> AgentSettings:
    return AgentSettings(default_extensions=(), compliance=of)


async def tell_price(args: Sequence[str], scope: CommandScope) -> CommandReply:
    return CommandReply("AAPL is at 190.5", kind="notice" if args else "reply", facts=(PRICE,))


TELL_PRICE = BasicCommand(name="tick", description="Tells a price", usage="/tick", answer=tell_price)


@pytest.mark.spec("P-47")
@pytest.mark.parametrize("of", ["retail", "professional", "institutional"])
@in_virtual_time
async def test_level_language_and_content_choose_the_line(house: House, of: ComplianceLevel) -> None:
    said = [
        ("Apple?", call("price", {}), "Apple is at 190.5.", LINES[of].get("figure", {}).get("en")),
        ("애플?", call("price", {}), "애플은 190.5달러입니다.", LINES[of].get("figure", {}).get("ko")),
        ("And now?", None, "I would sell some of it.", LINES[of]["opinion"]["en"]),
        ("그럼?", None, "지금은 매수를 추천합니다.", LINES[of]["opinion"]["ko"]),
        ("Thanks", None, "You are welcome.", None),
    ]
    script = [line for _, tool_call, answer, _ in said for line in (tool_call, answer) if line is not None]
    async with house.open(*script, tools=[price_tool(PRICE)], agent=level(of)) as gateway:
        for asked, _, answer, line in said:
            wanted = answer if line is None else f"{answer}\n\n{line}"
            assert (await gateway.ask(asked)).reply == wanted
            assert line is None or "not investment advice" in line.lower() or "투자 조언이 아닙니다" in line


@in_virtual_time
async def test_for_one_person_the_rules_may_be_stricter(house: House) -> None:
    async with house.open("I'd buy.", "I'd buy.", agent=level("institutional")) as gateway:
        assert (await gateway.ask("?")).reply == f"I'd buy.\n\n{LINES['institutional']['opinion']['en']}"
        await gateway.app.persons.change("memory:local:ada", {"compliance": "retail"})
        assert (await gateway.ask("?")).reply == f"I'd buy.\n\n{OPINION_LINE}"


@pytest.mark.spec("K-06")
@pytest.mark.parametrize(
    "written",
    [
        "<<ATTACH_DISCLAIMER>>\nBonds pay interest.",
        "Bonds pay interest.\n<<ATTACH_DISCLAIMER>>",
        "<<ATTACH_DISCLAIMER>>\nBonds pay interest.\n\n<<ATTACH_DISCLAIMER>>\n<<ATTACH_DISCLAIMER>>\n",
        f"Bonds pay interest.\n\n{OPINION_LINE}\n<<ATTACH_DISCLAIMER>>",
    ],
)
@in_virtual_time
async def test_the_model_can_ask_for_it_and_it_comes_once(house: House, written: str) -> None:
    async with house.open(written) as gateway:
        assert (await gateway.ask("What is a bond?")).reply == f"Bonds pay interest.\n\n{OPINION_LINE}"
        assert gateway.said == [f"Bonds pay interest.\n\n{OPINION_LINE}"]


@pytest.mark.spec("DX-20")
@pytest.mark.parametrize("profile", ["telegram", "discord", "plain"])
@in_virtual_time
async def test_it_is_counted_in_the_last_part_and_outside_of_code(house: House, profile: str) -> None:
    capabilities = PROFILES[profile]
    for length in range(capabilities.max_length - 120, capabilities.max_length + 120, 41):
        code = "x = 1\n" * (length // 6)
        unclosed = f"```python\n{code}y = {'2' * (length % 6 + 1)}"
        house.state = house.state.with_name(f"state-{length}")
        async with house.open(
            call("price", {}), unclosed, tools=[price_tool(PRICE)], capabilities=capabilities
        ) as gateway:
            await gateway.ask("Apple in code?")
            sent = gateway.channel.sent
            shown = [each.unit.outbound.fallback for each in sent]
            assert all(has_room_for(capabilities, text) for text in shown)
            assert [text.count(FIGURE_LINE) for text in shown] == [0] * (len(shown) - 1) + [1]
            closed = "```" if "```" in sent[-1].text else ""  # plain text has no fences
            assert sent[-1].text.endswith(f"{closed}\n\n{FIGURE_LINE}") or sent[-1].text == FIGURE_LINE
            assert not sent[-1].formatted.endswith(("</code></pre>", "```"))


@in_virtual_time
async def test_what_was_sent_in_blocks_gets_it_at_the_end(house: House) -> None:
    blocks = Capabilities(blocks=True)
    first = "You should buy it, I think. " * 10
    for rest in ("And that is all.", ""):
        house.state = house.state.with_name(f"state-{len(rest)}")
        async with house.open(reply(say(first), delay(10), say(rest)), capabilities=blocks) as gateway:
            await gateway.ask("Shall I?")
            assert gateway.said[0] == first.strip()
            assert gateway.said[1:] == [f"{rest}\n\n{OPINION_LINE}".strip()]


@in_virtual_time
async def test_a_command_with_figures_has_it_and_a_notice_does_not(house: House) -> None:
    async with house.open(commands=[TELL_PRICE]) as gateway:
        assert (await gateway.ask("/tick")).reply == f"AAPL is at 190.5\n\n{FIGURE_LINE}"
        assert (await gateway.ask("/tick quietly")).reply == "AAPL is at 190.5"


@in_virtual_time
async def test_no_layer_takes_it_away_or_hides_an_opinion(house: House) -> None:
    async def cut(ctx: DeliveryContext) -> Outbound:
        outbound = await ctx.next()
        return Outbound(text=outbound.text.partition("\n")[0])

    async with house.open("Buy it.\nOr not.", layers=[("delivery", cut, -50)]) as gateway:
        assert (await gateway.ask("?")).reply == f"Buy it.\n\n{OPINION_LINE}"


@pytest.mark.parametrize("other", ["calculator", "clock", "hours"])
@in_virtual_time
async def test_other_figures_are_no_market_figures(house: House, other: str) -> None:
    fact = Fact(subject="it", field="result", value=Decimal(4), as_of=PRICE.as_of, source=other)
    async with house.open(call("price", {}), "It is 4.", tools=[price_tool(fact)]) as gateway:
        assert (await gateway.ask("2 + 2?")).reply == "It is 4."


@pytest.mark.parametrize(
    "text",
    [
        "I recommend buying it before Friday.",
        "You should probably sell half of it.",
        "I'd hold.",
        "For me it is a strong buy.",
        "Now is a good time to invest.",
        "Analysts have a Buy rating.",
        "- Sell the rest",
        "The stock looks undervalued.",
        "지금이 매수 적기입니다.",
        "매도하는 게 좋겠습니다.",
        "계속 보유를 추천합니다.",
        "지금 사세요.",
        "파는 것이 낫습니다.",
        "저평가된 종목입니다.",
        "분할 매수하세요.",
    ],
)
def test_wording_of_opinions(text: str) -> None:
    assert states_opinion(text)


@pytest.mark.parametrize(
    "text",
    [
        "Samsung Electronics is at ₩71,600.",
        "You hold 10 shares of AAPL.",
        "The threshold is at 100, and the household pays.",
        "A holding company has subsidiaries.",
        "The best-selling product was sold out.",
        "삼성전자는 71,600원입니다.",
        "보유 종목은 3개입니다.",
        "투자자 수가 늘었습니다.",
        "매수 주문이 체결되었습니다.",
        "어디 사세요?",
        "안녕하세요! 무엇을 도와드릴까요?",
    ],
)
def test_wording_of_what_is_none(text: str) -> None:
    assert not states_opinion(text)
