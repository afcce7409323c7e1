"""Tool search: few tools in sight, all of them within reach, and what was found stays found."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builtins.extended import described, extended, names
from tests.walks.house import House, crash, in_virtual_time
from tests.walks.tools import Desk

from finclaw.agent.settings import AgentSettings, ExtensionRef
from finclaw.builtins.ranking import rank, words
from finclaw.builtins.tool_search import NAME, find
from finclaw.errors import StoreFailed
from finclaw.kernel.chunk import ToolSpec
from finclaw.kernel.port import Tool, ToolScope
from finclaw.kernel.scope import StepContext, StepResult
from finclaw.testing import call, reply

FEW = {"limit": 20, "keep": 2, "always": ["market__*"]}

ABOUT = {
    "weather__forecast": "The weather of the coming days.",
    "dart__filings": "공시 목록을 기업 이름으로 조회합니다.",
    "calendar__dividends": "Ex-dates and amounts of dividends. 배당 일정",
    "mail__send": "Sends an e-mail.",
    "news__search": "Headlines about a company.",
}


def many(desk: Desk, count: int = 30) -> list[Tool]:
    filler = [desk.tool(f"filler__{number}") for number in range(count)]
    return [*filler, *(described(desk.tool(name), about) for name, about in ABOUT.items())]


def search(query: str, **more: Any) -> Any:
    return reply(call(NAME, {"query": query, **more}))


@pytest.mark.spec("EX-06", "MW-31")
@in_virtual_time
async def test_what_was_found_can_be_called_in_the_next_step_and_is_still_there_after_a_restart(house: House) -> None:
    desk = Desk()
    script = (search("dividend calendar", limit=1), reply(call("calendar__dividends", {"text": "AAPL"})), "in May")
    async with extended(house, "tool-search", *script, settings=FEW, tools=many(desk)) as gateway:
        await gateway.ask("when is the next dividend?")
        first, second, _ = (names(request.tools) for request in gateway.provider.requests)
        assert [each for each in first if not each.startswith("market__")] == [NAME]
        assert second == ["calendar__dividends", *first]
        assert desk.runs == [("calendar__dividends", "AAPL")]
        assert "calendar__dividends: Ex-dates" in gateway.results[0].content
    async with extended(house, "tool-search", "hello", "hello", settings=FEW, tools=many(desk)) as gateway:
        await gateway.ask("hi")
        assert "calendar__dividends" in names(gateway.provider.requests[-1].tools)
        await gateway.ask("hi", conversation="somebody else's")
        assert "calendar__dividends" not in names(gateway.provider.requests[-1].tools)


@pytest.mark.spec("EX-06")
@in_virtual_time
async def test_every_search_goes_over_the_full_catalog(house: House) -> None:
    """A search over what an earlier one has left visible finds nothing new for ever."""
    script = (search("weather"), search("headlines"), search("공시"), "done")
    settings = {**FEW, "keep": 10}
    async with extended(house, "tool-search", *script, settings=settings, tools=many(Desk())) as gateway:
        await gateway.ask("go")
        assert {"weather__forecast", "news__search", "dart__filings"} <= set(names(gateway.provider.requests[-1].tools))


@in_virtual_time
async def test_the_longest_unused_makes_room(house: House) -> None:
    script = (
        search("weather", limit=1),
        search("headlines", limit=1),
        reply(call("weather__forecast")),
        search("e-mail", limit=1),
        "done",
    )
    async with extended(house, "tool-search", *script, settings=FEW, tools=many(Desk())) as gateway:
        await gateway.ask("go")
        shown = names(gateway.provider.requests[-1].tools)
        assert ("weather__forecast" in shown, "news__search" in shown, "mail__send" in shown) == (True, False, True)


@pytest.mark.spec("DX-64")
@in_virtual_time
async def test_a_tool_out_of_sight_does_not_run(house: House) -> None:
    desk = Desk()
    script = (reply(call("mail__send", {"text": "all my secrets"})), "no")
    async with extended(house, "tool-search", *script, settings=FEW, tools=many(desk)) as gateway:
        await gateway.ask("go")
        assert desk.runs == []
        assert gateway.results[0].status == "error"
        assert NAME in gateway.results[0].content


@in_virtual_time
async def test_some_tools_are_always_there(house: House) -> None:
    settings = {**FEW, "always": ["mail__send", "no__such"]}
    async with extended(
        house, "tool-search", search("weather"), "done", settings=settings, tools=many(Desk())
    ) as gateway:
        await gateway.ask("go")
        assert all("mail__send" in names(request.tools) for request in gateway.provider.requests)


@in_virtual_time
async def test_what_the_house_is_for_needs_no_search_and_takes_no_place(house: House) -> None:
    script = (search("weather", limit=1), search("compare history", limit=10), "done")
    settings = {"keep": 1}
    async with extended(house, "tool-search", *script, settings=settings, tools=many(Desk(), 60)) as gateway:
        await gateway.ask("go")
        first, _, last = (set(names(request.tools)) for request in gateway.provider.requests)
        assert {"market__quote", "fx__convert", "alert__add", NAME} <= first
        assert len(first) < 25
        assert "weather__forecast" in last, "what is shown anyway must not push out what was found"


@in_virtual_time
async def test_a_disk_that_fails_costs_no_answer(house: House) -> None:
    troubles = house.troubles["recall"] = []

    async def forecast(text: str, scope: ToolScope) -> str:
        troubles.append(StoreFailed("the disk is full"))  # met when the use of this tool is to be noted
        return "sun"

    name = "weather__forecast"
    others = [each for each in many(Desk()) if each.spec.name != name]
    tools = [*others, described(Desk().tool(name, forecast), ABOUT[name])]
    script = (search("weather", limit=1), reply(call(name)), "sunny")
    async with extended(house, "tool-search", *script, settings=FEW, tools=tools) as gateway:
        assert (await gateway.ask("go")).reply == "sunny"
        assert troubles == [], "the disk did fail"


@in_virtual_time
async def test_with_few_tools_there_is_no_search(house: House) -> None:
    async with extended(house, "tool-search", "hello") as gateway:
        await gateway.ask("hi")
        shown = names(gateway.provider.requests[-1].tools)
        assert NAME not in shown
        assert "market__quote" in shown


@in_virtual_time
async def test_where_no_search_is_allowed_nothing_is_hidden(house: House) -> None:
    async def without_search(ctx: StepContext) -> StepResult:
        ctx.tool_catalog = tuple(spec for spec in ctx.tool_catalog if spec.name != NAME)
        return await ctx.next()

    layers: list[Any] = [("step", without_search, -10)]
    async with extended(house, "tool-search", "hello", settings=FEW, tools=many(Desk()), layers=layers) as gateway:
        await gateway.ask("hi")
        assert len(gateway.provider.requests[-1].tools) > 35


@in_virtual_time
async def test_what_another_layer_forbids_cannot_be_found(house: House) -> None:
    async def no_mail(ctx: StepContext) -> StepResult:
        ctx.tool_catalog = tuple(spec for spec in ctx.tool_catalog if not spec.name.startswith("mail"))
        return await ctx.next()

    layers: list[Any] = [("step", no_mail, -10)]
    script = (search("e-mail"), "done")
    async with extended(house, "tool-search", *script, settings=FEW, tools=many(Desk()), layers=layers) as gateway:
        await gateway.ask("go")
        assert gateway.results[0].is_error
        assert "in other words" in gateway.results[0].content


@in_virtual_time
async def test_two_searches_in_one_answer_are_both_kept(house: House) -> None:
    both = reply(
        call(NAME, {"query": "weather", "limit": 1}), call(NAME, {"query": "headlines about a company", "limit": 1})
    )
    async with extended(house, "tool-search", both, "done", settings=FEW, tools=many(Desk())) as gateway:
        await gateway.ask("go")
        assert {"weather__forecast", "news__search"} <= set(names(gateway.provider.requests[-1].tools))


@in_virtual_time
async def test_a_call_that_a_crash_cut_off_is_still_allowed_afterwards(house: House) -> None:
    desk = Desk()
    script = (search("weather", limit=1), reply(call("weather__forecast", {"text": "Seoul"})))
    agent = AgentSettings(extensions=(ExtensionRef("tool-search", FEW),))
    await crash(house, "tools:started", *script, n=2, agent=agent, tools=many(desk))
    desk.runs.clear()
    async with house.open("sunny", agent=agent, tools=many(desk)) as gateway:
        await gateway.app.idle()
        assert desk.runs == [("weather__forecast", "Seoul")]
        assert gateway.said == ["sunny"]


# ── the ranking ─────────────────────────────────────────────────────────────────────────────────────────────

CATALOG = [
    ToolSpec("market__quote", "The latest price of an instrument.", {"properties": {"symbol": {}}}),
    ToolSpec("market__history", "Prices of the past.", {"properties": {"symbol": {}, "period": {}}}),
    ToolSpec("getStockHolders", "주요 주주 현황을 조회합니다.", {"properties": {"corpCode": {}}}),
    ToolSpec("fx__convert", "Converts an amount from one currency to another. 환율", {"properties": {"amount": {}}}),
    ToolSpec("broken", "", {"properties": ["not", "a", "mapping"]}),
]


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("quote", "market__quote"),
        ("latest prices", "market__quote"),
        ("price history", "market__history"),
        ("period", "market__history"),
        ("stock holders", "getStockHolders"),
        ("주주현황이 궁금해", "getStockHolders"),
        ("corp code", "getStockHolders"),
        ("currencies: convert an amount", "fx__convert"),
        ("오늘 환율은?", "fx__convert"),
    ],
)
def test_the_best_fit_comes_first(query: str, best: str) -> None:
    assert names(find(query, CATALOG))[0] == best


@pytest.mark.parametrize("query", ["", "   ", "!!!", "zebra", "_" * 400])
def test_what_fits_nothing_finds_nothing(query: str) -> None:
    assert find(query, CATALOG) == []


def test_letters_in_pieces_are_the_letters_they_make() -> None:
    import unicodedata

    assert list(words(unicodedata.normalize("NFD", "주가"))) == ["주가"]


def test_a_rare_word_says_more_than_a_common_one() -> None:
    texts = [{"price": 3.0, "oil": 1.0}, {"price": 3.0, "tin": 1.0}, {"ring": 3.0, "gold": 1.0}, {"price": 4.0}]
    assert rank("gold price", texts)[0] == 2


@given(st.text(max_size=60), st.lists(st.tuples(st.text(max_size=20), st.text(max_size=60)), max_size=8))
def test_any_texts_can_be_searched_and_each_is_found_once(query: str, made: list[tuple[str, str]]) -> None:
    catalog = [ToolSpec(name, about, {}) for name, about in made]
    found = find(query, catalog)
    assert len(found) <= len(catalog)
    assert all(set(words(query)) & {*words(spec.name), *words(spec.description)} for spec in found)
