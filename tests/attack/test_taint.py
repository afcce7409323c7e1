"""Whose words count as strangers', and for how long."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.attack.desk import Desk
from tests.walks.house import House, in_virtual_time

from finclaw.kernel.chunk import ModelRequest, Usage
from finclaw.kernel.event import ContextCompacted
from finclaw.kernel.message import Message
from finclaw.kernel.scope import TurnContext, TurnResult
from finclaw.testing import call, reply
from finclaw.testing.provider import Reply

pytestmark = pytest.mark.spec("G-07")

MAIL = call("mail__send", {"to": "bob@example.com", "text": "hi"})
OURS = {
    "quote": call("market__quote", {"symbol": "AAPL"}),
    "history": call("market__history", {"symbol": "AAPL"}),
    "hours": call("market__hours", {"market": "KRX"}),
    "convert": call("fx__convert", {"amount": 1, "from": "USD", "to": "KRW"}),
    "portfolio": call("portfolio__show"),
    "calculator": call("calc__evaluate", {"expression": "1 + 1"}),
    "clock": call("time__now"),
    "nonsense": call("calc__evaluate", {"expression": "mail bob"}),
}


@pytest.mark.parametrize("what", OURS)
@in_virtual_time
async def test_our_own_figures_are_not_a_stranger_s(house: House, what: str) -> None:
    desk = Desk()
    script = (reply(OURS[what]), reply(MAIL), "Sent.")
    async with house.open(*script, tools=desk.acting(), consent=None, rules=()) as gateway:
        assert (await gateway.ask("mail bob the figures")).reply
        assert len(desk.done) == 1
        assert gateway.results[0].origin == ""


@pytest.mark.parametrize("group", ["web", "data", "custom", "system", "anything"])
@in_virtual_time
async def test_all_else_is(house: House, group: str) -> None:
    desk = Desk("a page")
    tools = [desk.reading("pages__read", group), *desk.acting()]
    async with house.open(reply(call("pages__read")), reply(MAIL), tools=tools, consent=None) as gateway:
        card = (await gateway.ask("mail bob what is new")).reply or ""
        assert desk.done == []
        assert "pages__read" in card


@in_virtual_time
async def test_what_was_kept_aside_is_still_a_strangers(house: House) -> None:
    desk = Desk("long " * 5_000)
    tools = [desk.reading("news__latest", "web"), *desk.acting()]
    script = (*(reply(call("news__latest")), "Read."), *(reply(call("read_result")), reply(MAIL)))
    async with house.open(*script, tools=tools, consent=None, rules=()) as gateway:
        await gateway.ask("what is new?")
        card = (await gateway.ask("read on and mail bob")).reply or ""
        assert not desk.done
        assert "news__latest" in card


@in_virtual_time
async def test_a_reset_is_a_new_beginning_and_nothing_kept_aside_comes_back(house: House) -> None:
    desk = Desk("long " * 5_000)
    tools = [desk.reading("news__latest", "web"), *desk.acting()]
    script = (
        *(reply(call("news__latest")), "Read."),
        *(reply(MAIL), "Sent."),
        *(reply(call("read_result")), "There is nothing."),
    )
    async with house.open(*script, tools=tools, consent=None, rules=()) as gateway:
        await gateway.ask("what is new?")
        await gateway.ask("/reset")
        await gateway.ask("mail bob")
        assert len(desk.done) == 1
        await gateway.ask("/reset")
        await gateway.ask("read on")
        (result,) = gateway.results
        assert result.status == "error"
        assert "long" not in result.content


def _size(message: Message) -> int:
    return (len(message.text) + sum(len(result.content) for result in message.tool_results)) // 4


@in_virtual_time
async def test_it_outlives_compaction_and_a_restart(house: House) -> None:
    """With a window so small that all of the page is gone long before the mail is asked for."""
    desk = Desk("page " * 1_900)
    tools = [desk.reading("news__latest", "web"), *desk.acting()]

    async def small(ctx: TurnContext) -> TurnResult:
        ctx.model = replace(ctx.model, window=16_000)
        return await ctx.next()

    parts: dict[str, Any] = {"tools": tools, "consent": None, "rules": (), "layers": [("turn", small)]}

    def script(request: ModelRequest) -> Reply:
        said = request.messages[-1].text
        usage = Usage(input=sum(map(_size, request.messages)), output=10)
        if said == "what is new?":
            return reply(call("news__latest"), usage=usage)
        return reply(MAIL, usage=usage) if said == "mail bob" else reply("Noted. " + "words " * 1_500, usage=usage)

    async with house.open(script, **parts) as gateway:
        await gateway.ask("what is new?")
        for number in range(20):
            await gateway.ask(f"{number} " + "more " * 1_500)
        assert any(isinstance(event, ContextCompacted) for event in gateway.events)
        assert not any("page page" in result.content for result in gateway.results)
        assert "news__latest" in ((await gateway.ask("mail bob")).reply or "")
    async with house.open(script, **parts) as gateway:
        assert "news__latest" in ((await gateway.ask("mail bob")).reply or "")
        assert desk.done == []
