"""The contact history of a person: read from what is kept of their messages, and gone with it."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from tests.walks.house import Gateway, House, in_virtual_time

from finclaw.kernel.envelope import Capabilities
from finclaw.kernel.fact import Fact
from finclaw.kernel.person import ContactHistory
from finclaw.kernel.port import ToolOutput
from finclaw.kernel.record import SenderId
from finclaw.storage.kinds import StoreKind
from finclaw.testing import call, reply
from finclaw.tools.define import tool

AT = datetime(2025, 1, 6, tzinfo=UTC)


@tool("look", "Looks.", group="finance")
async def look(symbol: str) -> ToolOutput:
    return ToolOutput("70", facts=(Fact(subject=symbol, field="price", value=Decimal(70), as_of=AT, source="desk"),))


@pytest.mark.spec("M-24")
@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
@in_virtual_time
async def test_it_tells_how_often_when_about_what_and_how_well(house: House, kind: StoreKind) -> None:
    house.kind = kind
    script = [reply(call("look", {"symbol": "AAPL"})), "70", reply(call("look", {"symbol": "AAPL"})), "70", "hello"]
    async with house.open(*script, tools=[look], capabilities=Capabilities()) as gateway:
        first = house.clock.now()
        for text in ("AAPL?", "AAPL again?"):
            await gateway.ask(text)
            house.clock.jump(timedelta(hours=1))
        last = house.clock.now()
        await gateway.ask("thanks")
        sent = [each.platform_id for each in gateway.channel.sent]
        for number, (target, emoji) in enumerate(
            [(sent[0], "👎"), (sent[0], "👍"), (sent[1], "👎"), ("not ours", "👍")]
        ):
            await gateway.ask(emoji, kind="reaction", target=target, message_id=f"r{number}")
        found = await gateway.app.persons.find("memory:local:ada")
        assert found is not None
        assert found.contact is not None
        assert (found.contact.messages, found.contact.first_at, found.contact.last_at) == (3, first, last)
        assert (found.contact.topics, found.contact.satisfaction) == (("AAPL",), 0.5)
        await gateway.app.upkeep.forget_person(SenderId.parse("memory:local:ada"))
        again = await gateway.app.persons.find("memory:local:ada")
        assert again is None or again.contact is None or again.contact.messages == 0


@pytest.mark.spec("M-24")
@in_virtual_time
async def test_a_reaction_counts_for_our_message_in_its_own_conversation(house: House) -> None:
    """Platforms number the messages of each conversation anew: another chat has a message of the same name."""
    async with house.open("here", "there") as gateway:
        await gateway.ask("a", conversation="one", sender="grace")
        await gateway.ask("b", conversation="two", message_id="b")
        ours = gateway.channel.sent[0].platform_id
        await gateway.ask("👎", kind="reaction", conversation="two", target=ours, message_id="r1")
        assert (await contact(gateway)).satisfaction is None, "nobody has reacted to what we said"
        await gateway.ask("👍", kind="reaction", conversation="two", target=gateway.channel.sent[1].platform_id)
        assert (await contact(gateway)).satisfaction == 1
        await gateway.ask("", kind="reaction", conversation="two", target=gateway.channel.sent[1].platform_id)
        assert (await contact(gateway)).satisfaction is None, "it was taken back"


async def contact(gateway: Gateway) -> ContactHistory:
    found = await gateway.app.persons.find("memory:local:ada")
    assert found is not None
    assert found.contact is not None
    return found.contact
