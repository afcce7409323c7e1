"""The instrument whose price was told last is known to the next turn, also after a restart."""

from typing import Any

import pytest
from tests.walks.house import House, in_virtual_time

from finclaw.testing import call, reply, say


@pytest.mark.spec("M-54")
@in_virtual_time
async def test_the_next_turn_knows_what_was_asked_about_last(house: House) -> None:
    seen: list[str | None] = []

    async def look(ctx: Any) -> Any:
        last = ctx.context.provided["last_quote_request"]
        seen.append(last and last.symbol)
        return await ctx.next()

    asking = (reply(call("market__quote", {"symbol": "애플"})), reply(say("It is up.")), reply(say("Yes.")))
    async with house.open(*asking, layers=[("turn", look)]) as gateway:
        await gateway.ask("애플 얼마야?")
        await gateway.ask("and now?")
    async with house.open(reply(say("Yes.")), layers=[("turn", look)]) as gateway:
        await gateway.ask("still?")
    assert seen == [None, "AAPL", "AAPL"]
