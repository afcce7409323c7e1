"""A reply on its way out: its ring, the gate, formatting for its channel, splitting, and only then the channel."""

import pytest
from msgspec.structs import replace
from tests.walks.house import House, in_virtual_time

from finclaw.composition.gateway import build
from finclaw.config.schema import Settings
from finclaw.delivery.format import RESENT_MARK, has_room_for
from finclaw.kernel.envelope import Outbound
from finclaw.kernel.scope import DeliveryContext
from finclaw.numerals.write import format_financial_number
from finclaw.pipeline.settings import PipelineSettings
from finclaw.testing import MemoryChannel, ScriptedProvider
from finclaw.testing.channel import PROFILES

ANSWER = "## Prices\n\n**삼성전자(005930)**는 _올랐_습니다: 1234567원 & more.\n\n- one\n- two\n"
LINE = "*This is no investment advice.*"


@pytest.mark.spec("P-45", "F-03")
@in_virtual_time
async def test_a_reply_passes_everything_before_the_channel_sees_it(house: House) -> None:
    """Numbers of code are written first, the last line is counted and below all parts, and no token is left."""

    async def add_lines(ctx: DeliveryContext) -> Outbound:
        outbound = await ctx.next()
        price = format_financial_number(71_200, "ko", "KRW")
        text = f"{outbound.text}\n\n" + "many words " * 40 + f"\n\n**{price}**\n\n```\nopen = 1\n```\n\n{LINE}"
        return replace(outbound, text=text)

    capabilities = replace(PROFILES["telegram"], max_length=300, edits=False)
    script = f"{ANSWER}\n<<NEED_INPUT>>"
    async with house.open(script, layers=[("delivery", add_lines)], capabilities=capabilities) as gateway:  # pyright: ignore[reportArgumentType]
        await gateway.ask("1234567원?")
        sent = [each.unit.outbound for each in gateway.channel.sent]
    assert len(sent) > 1
    shown = "\n\n".join(each.formatted for each in sent)
    assert sent[0].formatted.startswith(
        "<b>Prices</b>\n\n<b>삼성전자(005930)</b>는 _올랐_습니다: 1234567원 &amp; more."
    )
    assert "<b>₩71,200</b>" in shown
    assert "NEED_INPUT" not in shown
    assert sent[-1].formatted.endswith("</pre>\n\n<i>This is no investment advice.</i>")
    assert shown.count("investment advice") == 1
    assert all(has_room_for(capabilities, RESENT_MARK + each.fallback) for each in sent)


@pytest.mark.spec("F-09", "F-08")
def test_the_same_reply_is_formatted_for_each_channel_it_is_sent_to(house: House) -> None:
    channels = [
        MemoryChannel(house.clock, name=name, capabilities=replace(PROFILES[name], edits=False)) for name in PROFILES
    ]

    async def main() -> None:
        async with build(
            Settings(state=house.state),
            channels=channels,
            provider=ScriptedProvider(lambda _: "**AAPL** < 200\n\n- up", clock=house.clock),
            clock=house.clock,
            threaded=False,
        ) as app:
            for channel in channels:
                await channel.write("above 200?")
            await app.idle()

    house.clock.run(main())
    assert {channel.name: channel.sent[0].formatted for channel in channels} == {
        "telegram": "<b>AAPL</b> &lt; 200\n\n• up",
        "discord": "**AAPL** \\< 200\n\n- up",
        "slack": "*AAPL* &lt; 200\n\n• up",
        "matrix": "<p><strong>AAPL</strong> &lt; 200</p><ul><li>up</li></ul>",
        "web": "**AAPL** \\< 200\n\n- up",
        "plain": "AAPL < 200\n\n• up",
    }


@pytest.mark.spec("P-08")
@in_virtual_time
async def test_no_message_is_longer_than_the_operator_wants(house: House) -> None:
    settings = PipelineSettings(max_response_length=300)
    for question, said in (("tell me all", "(continued)\n"), ("다 알려줘", "(이어짐)\n")):
        words = "Words in **bold** & others. " if question.isascii() else "**굵은** 글자와 다른 글자입니다. "
        capabilities = replace(PROFILES["telegram"], edits=False)
        async with house.open(words * 60, capabilities=capabilities, pipeline=settings) as gateway:
            await gateway.ask(question)
            parts = [each.unit.outbound for each in gateway.channel.sent]
        assert len(parts) > 3
        assert all(len(part.fallback) <= 300 for part in parts)
        assert not parts[0].fallback.startswith("(")
        assert all(part.fallback.startswith(said) and part.formatted.startswith(said) for part in parts[1:])
        assert sum(part.formatted.count("<b>") for part in parts) >= 60


@in_virtual_time
async def test_code_that_no_message_can_hold_is_a_file_that_was_kept_before(house: House) -> None:
    code = "\n".join(f"price_{n} = {n}" for n in range(400))
    answer = f"Here:\n\n```python\n{code}\n```\n\nThat is all."
    async with house.open(answer, answer, capabilities=PROFILES["telegram"]) as gateway:
        outcome = await gateway.ask("write it")
        (sent,) = gateway.channel.sent
        (file,) = sent.unit.outbound.attachments
        assert sent.formatted == "Here:\n\n📎 code-1.py (attached, 400 lines)\n\nThat is all."
        assert (file.name, file.mime, file.size) == ("code-1.py", "text/plain", len(code))
        assert (house.state / "blobs" / file.blob).read_bytes() == code.encode()
        assert outcome.reply == answer, "the model's own words are kept"
    async with house.open(answer, capabilities=replace(PROFILES["telegram"], media={})) as gateway:
        await gateway.ask("write it again")
        assert len(gateway.channel.sent) > 1
        assert all(each.formatted.count("<pre>") == each.formatted.count("</pre>") for each in gateway.channel.sent)
