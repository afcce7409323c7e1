"""What a person watches is known to their next turn, and to nobody else's."""

from typing import Any

import pytest
from tests.walks.house import House, in_virtual_time

from finclaw.testing import reply, say


@pytest.mark.spec("M-52")
@in_virtual_time
async def test_a_turn_knows_what_its_person_watches(house: House) -> None:
    seen: list[tuple[str, ...]] = []

    async def look(ctx: Any) -> Any:
        seen.append(ctx.context.provided["watchlist"])
        return await ctx.next()

    async with house.open(*[reply(say("Yes."))] * 3, layers=[("turn", look)]) as gateway:
        await gateway.ask("hi")
        assert not (house.state / "extensions" / "watching.db").exists(), "nobody watches, and nothing was opened"
        await gateway.ask("/watch add AAPL 005930")
        await gateway.ask("hi")
        await gateway.ask("/watch remove AAPL")
        await gateway.ask("hi")
        note = str(gateway.provider.requests[-1].messages[-1])
    async with house.open(reply(say("Yes.")), layers=[("turn", look)]) as gateway:
        await gateway.ask("hi")
    assert seen == [(), ("AAPL", "005930"), ("005930",), ("005930",)]
    assert 'watchlist: ["005930"]' in note
