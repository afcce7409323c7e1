"""A name that several instruments go by: asked once, and remembered of that person, over a restart too."""

from pathlib import Path

from tests.finance.sources.vendors import Vendors
from tests.walks.live_gateway import opened

from finclaw.testing import call, reply, say


async def test_a_persons_choice_is_remembered(tmp_path: Path) -> None:
    vendors = Vendors()
    script = (
        reply(call("market__quote", {"symbol": "네카오"})),
        reply(say("네이버와 카카오 중 어느 쪽인가요?")),
        reply(call("market__choose", {"name": "네카오", "symbol": "AAPL"})),
        reply(call("market__choose", {"name": "네카오", "symbol": "035420"})),
        reply(call("market__quote", {"symbol": "네카오 주가"})),
        reply(say("네")),
    )
    async with opened(tmp_path, vendors, *script) as gateway:
        await gateway.ask("네카오 주가")
        assert "Ask the user which one is meant" in gateway.results[0].content
        await gateway.ask("네이버")
        refused, remembered, quote = gateway.results[1:4]
        assert "no candidate" in refused.content
        assert "Remembered" in remembered.content
        assert "035420" in quote.content
        assert "which one is meant" not in quote.content
    later = (
        reply(call("market__quote", {"symbol": "네카오"})),
        reply(say("네")),
        reply(call("market__choose", {"name": "네카오"})),
        reply(call("market__quote", {"symbol": "네카오"})),
        reply(say("네")),
    )
    async with opened(tmp_path, vendors, *later) as gateway:
        await gateway.ask("네카오")
        assert "035420" in gateway.results[-1].content
        assert "which one is meant" not in gateway.results[-1].content
        await gateway.ask("네카오 기억 지워줘")
        assert "which one is meant" in gateway.results[-1].content


async def test_a_candidate_is_listed_so_that_it_can_be_asked_for(tmp_path: Path) -> None:
    # KT is a company in Seoul, and the ticker of its receipts in New York.
    script = (reply(call("market__quote", {"symbol": "KT"})), reply(say("어느 쪽인가요?")))
    async with opened(tmp_path, Vendors(), *script) as gateway:
        await gateway.ask("KT")
        (asked,) = gateway.results
        assert "[030200]" in asked.content
        assert "[NYSE:KT]" in asked.content


async def test_whoever_writes_korean_is_told_the_price_of_a_coin_in_won(tmp_path: Path) -> None:
    async with opened(tmp_path, Vendors()) as gateway:
        told = (await gateway.ask("비트코인 얼마야?")).reply or ""
        assert "**비트코인 (BTC-KRW)** 141,000,000원" in told
        assert "**Bitcoin (BTC-USD)** $100,210.55" in ((await gateway.ask("What is bitcoin at?")).reply or "")
        assert "(BTC-USD)" in ((await gateway.ask("/price BTC")).reply or "")
        assert "(BTC-KRW)" in ((await gateway.ask("/시세 BTC")).reply or "")
        assert "(BTC-KRW)" in ((await gateway.ask("/price BTC")).reply or "")
        assert "(BTC-KRW)" in ((await gateway.ask("/차트 비트코인 5D")).reply or "")
