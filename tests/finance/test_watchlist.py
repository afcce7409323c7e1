"""Watchlists: durable, one for each person wherever they write, quoted in one go, screened, gone with the person."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.finance.sources.faults import FAULTS
from tests.finance.sources.vendors import Vendors
from tests.walks.house import Gateway, House, in_virtual_time
from tests.walks.live_gateway import opened

from finclaw.approvals.people import PersonSettings
from finclaw.finance.answers import WatchRequest, read_watch
from finclaw.finance.watchlist import MIGRATIONS, MOST_WATCHED, TooManyWatched, Watchlists
from finclaw.kernel.person import Person
from finclaw.kernel.record import SenderId
from finclaw.storage.kinds import StoreKind
from finclaw.storage.sqlite.extension import ExtensionDatabase
from finclaw.testing import FakeClock, call

TUESDAY = datetime(2026, 11, 17, 5, 0, tzinfo=UTC)
MINA = PersonSettings(name="Mina", known_as=("memory:local:mina", "memory:other:m-7"))


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path / "state", clock=FakeClock(TUESDAY))


async def reply_to(gateway: Gateway, line: str, **fields: object) -> str:
    outcome = await gateway.ask(line, **fields)
    assert outcome.kind == "command"
    return (outcome.reply or "").partition("\n\n(")[0]


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("", WatchRequest("list")),
        ("list", WatchRequest("list")),
        ("AAPL", WatchRequest("add", "AAPL")),
        ("add AAPL tesla", WatchRequest("add", "AAPL tesla")),
        ("추가 삼성전자", WatchRequest("add", "삼성전자")),
        ("삼성전자 삭제", WatchRequest("remove", "삼성전자")),
        ("Remove all", WatchRequest("remove", "all")),
        ("add", WatchRequest("add")),
    ],
)
def test_what_people_type_behind_watch(line: str, read: WatchRequest) -> None:
    assert read_watch(line.split()) == read


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
def test_a_list_is_kept_for_the_person_in_all_their_chats_until_they_are_forgotten(
    tmp_path: Path, kind: StoreKind
) -> None:
    house = House(tmp_path / "state", clock=FakeClock(TUESDAY), kind=kind)

    async def walk() -> None:
        async with house.open(people=[MINA]) as gateway:
            assert "empty" in await reply_to(gateway, "/watch", sender="mina")
            added = await reply_to(gateway, "/관심 AAPL 삼성전자", sender="mina")
            assert added.startswith("관심 종목에 추가: 애플 (AAPL), 삼성전자 (005930)\n지금 관심 종목은 2개입니다.")
            assert "이미 있음: 애플 (AAPL)" in await reply_to(gateway, "/watch add AAPL", sender="mina")
            await reply_to(gateway, "/watch add BTC", sender="eve", conversation="c")
        async with house.open(people=[MINA]) as gateway:
            listed = await reply_to(gateway, "/watch", sender="m-7", account="other", conversation="b")
            assert [line.partition("** ")[0] for line in listed.splitlines()[2:4]] == [
                "- **애플 (AAPL)",
                "- **삼성전자 (005930)",
            ]
            assert "2026-11-17 06:00 KST 기준" in listed
            assert "출처: 데모 시장" in listed
            removed = await reply_to(gateway, "/관심 삼성전자 삭제", sender="mina")
            assert removed.startswith("관심 종목에서 삭제: 삼성전자 (005930)")
            await gateway.app.upkeep.forget_person(SenderId.parse("memory:other:m-7"))
            assert "empty" in await reply_to(gateway, "/watch", sender="mina")  # nor is their language known
            assert "Bitcoin" in await reply_to(gateway, "/watch", sender="eve", conversation="c")

    house.clock.run(walk())


@in_virtual_time
async def test_the_tools_work_on_the_same_list(house: House) -> None:
    script = (
        call("watch__add", {"symbols": ["Tesla", "005930", "tsla"]}),
        "Added.",
        call("watch__list", {}),
        "Here.",
        call("watch__remove", {"symbols": ["tesla", "MSFT"]}),
        "Gone.",
    )
    async with house.open(*script) as gateway:
        await reply_to(gateway, "/watch AAPL")
        await gateway.ask("watch Tesla and Samsung Electronics")
        assert gateway.results[-1].content.splitlines() == [
            "added: Tesla (테슬라) [TSLA]",
            "added: Samsung Electronics (삼성전자) [005930]",
            "on the watchlist: 3 of at most 50",
        ]
        outcome = await gateway.ask("how is my watchlist doing?")
        assert {fact.subject for fact in outcome.facts if fact.field == "price"} == {"AAPL", "TSLA", "005930"}
        await gateway.ask("take Tesla off")
        assert gateway.results[-1].content.splitlines() == [
            "removed: TSLA",
            "was not there: MSFT",
            "on the watchlist: 2",
        ]


@in_virtual_time
async def test_in_a_group_only_the_caller_sees_it(house: House) -> None:
    async with house.open() as gateway:
        await reply_to(gateway, "/watch add AAPL", chat_type="group", conversation="g", mentions_us=True)
        assert gateway.channel.sent[-1].unit.outbound.ephemeral


async def test_a_full_list_takes_no_more_and_a_linked_identity_brings_its_own(tmp_path: Path) -> None:
    database = ExtensionDatabase(tmp_path, "watchlist", MIGRATIONS, threaded=False)
    kept, person = Watchlists(database, FakeClock(TUESDAY)), Person(id="a:b:1")
    names = tuple(f"9{number:05}" for number in range(MOST_WATCHED))
    await kept.add(person, names)
    with pytest.raises(TooManyWatched):
        await kept.add(person, ["one"])
    assert await kept.add(person, names[:3]) == (), "they are there already"
    linked = Person(id="c:d:2", former=(person.id,))
    assert await kept.symbols(linked) == names
    assert await kept.symbols(person) == ()
    await database.close()


async def test_the_whole_list_is_one_request_and_what_fails_is_named(tmp_path: Path) -> None:
    vendors = Vendors()
    async with opened(tmp_path, vendors, "never asked", disabled=("yahoo",)) as gateway:
        await reply_to(gateway, "/watch add 005930 000660")
        vendors.asked.clear()
        listed = await reply_to(gateway, "/관심")
        assert listed.count("- **") == 2
        assert vendors.count("naver") == 1
    vendors.faults["upbit"] = vendors.faults["bithumb"] = FAULTS["html"]
    async with opened(tmp_path, vendors, "never asked", disabled=("yahoo",)) as gateway:
        await reply_to(gateway, "/watch add BTC-KRW")
        listed = await reply_to(gateway, "/관심")
        assert "관심 종목 3개" in listed
        assert "비트코인 (BTC-KRW): 지금은 가져올 수 없습니다. Upbit(읽을 수 없는 응답)" in listed


# ── the screener ────────────────────────────────────────────────────────────────────────────────────────────


@in_virtual_time
async def test_a_screen_names_what_meets_every_condition_and_counts_the_rest(house: House) -> None:
    script = (
        call("market__screen", {"change_below": "-3", "price_above": "300"}),
        "Tesla.",
        call("market__screen", {"near_52_week_high": "99", "near_52_week_low": "0"}),
        "None.",
        call("market__screen", {}),
        "What for?",
    )
    async with house.open(*script) as gateway:
        await reply_to(gateway, "/watch add AAPL TSLA 삼성전자")
        outcome = await gateway.ask("which of mine fell more than 3 %?")
        lines = gateway.results[-1].content.splitlines()
        assert lines[:3] == ["looked_at: 3", "met: 1", "could_not_read: 0"]
        assert "symbol: TSLA" in lines
        assert "symbol: AAPL" not in lines, "it fell as far, and is cheaper"
        counts = {fact.field: int(fact.value) for fact in outcome.facts if fact.subject == "watchlist"}
        assert counts == {"looked_at": 3, "met": 1, "could_not_read": 0}
        await gateway.ask("any at its low of the year?")
        assert gateway.results[-1].content.startswith("looked_at: 3\nmet: 0")
        await gateway.ask("screen")
        assert "at least one condition" in gateway.results[-1].content


async def test_a_screen_says_what_could_not_be_read(tmp_path: Path) -> None:
    vendors = Vendors(faults={"coinbase": FAULTS["html"], "kraken": FAULTS["html"]})
    script = (call("market__screen", {"change_above": "-50", "symbols": ["005930", "BTC-USD"]}), "Here.")
    async with opened(tmp_path, vendors, *script) as gateway:
        await gateway.ask("screen these")
        (result,) = gateway.results
    assert result.content.splitlines()[:4] == [
        "looked_at: 2",
        "met: 1",
        "could_not_read: 1",
        "unread: BTC-USD: Coinbase answered what cannot be read; Kraken answered what cannot be read",
    ]
