"""User trial B8: lists that say what waits, ids that can be typed, and times as the person's clock shows them."""

import os
import time
from collections.abc import Generator
from contextlib import contextmanager

import pytest
from msgspec.structs import replace
from tests.walks.deciding import asked, state, wrote
from tests.walks.house import Gateway, House, in_virtual_time

from finclaw.transcript.approval_ids import new_approval_id, short_id

pytestmark = pytest.mark.spec("DX-22")


@contextmanager
def in_zone(name: str) -> Generator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = name
    time.tzset()
    try:
        yield
    finally:
        os.environ.pop("TZ") if before is None else os.environ.update(TZ=before)
        time.tzset()


async def typed(gateway: Gateway, text: str) -> str:
    outcome = await gateway.outcome(await gateway.channel.deliver(wrote(text, "ada", conversation="ada")))
    await gateway.app.idle()
    return outcome.reply or ""


ADA = wrote("buy", "ada", conversation="ada")


@pytest.mark.parametrize("line", ["/approvals", "/approve", "/deny"])
@in_virtual_time
async def test_a_list_says_what_waits_and_until_when(house: House, line: str) -> None:
    """Symbol, quantity and price; the time in the zone of the machine."""
    with in_zone("Asia/Seoul"):
        async with house.open() as gateway:
            approval = await asked(gateway, ADA, args={"symbol": "AAPL", "quantity": 10, "price": 190.5})
            assert "18:05:00 (KST)" in approval.card
            shown = await typed(gateway, line)
            assert f'{short_id(approval.id)}  broker__order: symbol = "AAPL"; quantity = 10; price = 190.5' in shown
            assert shown.endswith("→ 18:05:00 (KST)")


@in_virtual_time
async def test_a_list_hides_secrets_and_cuts_what_is_long(house: House) -> None:
    async with house.open() as gateway:
        await asked(gateway, ADA, args={"key": "sk-ant-api03-" + "A1b2C3d4" * 12, "note": "x" * 500})
        shown = await typed(gateway, "/approvals")
        assert "A1b2C3d4" not in shown
        assert len(shown) < 250


@pytest.mark.parametrize("length", [9, 11, 20, 29])
@in_virtual_time
async def test_the_beginning_of_an_id_decides(house: House, length: int) -> None:
    async with house.open("ok") as gateway:
        approval = await asked(gateway, ADA)
        await asked(gateway, ADA, call="2")
        answer = await typed(gateway, f"/approve {approval.id[:length].upper()}")
        assert answer.startswith(f"Approved ({short_id(approval.id)}): broker__order")
        assert await state(gateway, approval) != "pending"


@in_virtual_time
async def test_a_beginning_that_is_too_short_or_belongs_to_two_says_so(house: House) -> None:
    async with house.open() as gateway:
        first = await asked(gateway, ADA)
        for short in (first.id[:4], first.id[:8]):
            assert "at least 6 characters" in await typed(gateway, f"/approve {short}")
        assert "6자 이상" in await typed(gateway, f"/승인 {first.id[:8]}")
        twin = replace(first, id=first.id[:12] + new_approval_id()[12:], call_id="twin")
        await gateway.app.consents._store.ask(twin)  # pyright: ignore[reportPrivateUsage]
        answer = await typed(gateway, f"/approve {first.id[:11]}")
        assert "그렇게 시작하는 요청이 둘 이상입니다" in answer
        assert await state(gateway, first) == await state(gateway, twin) == "pending"
        shown = await typed(gateway, "/approvals")
        assert first.id[:13] in shown, "a list shows as much as is needed"
        assert twin.id[:13] in shown


@in_virtual_time
async def test_an_id_that_was_decided_is_known_by_its_beginning(house: House) -> None:
    async with house.open() as gateway:
        approval = await asked(gateway, ADA)
        await typed(gateway, f"/deny {short_id(approval.id)}")
        assert await typed(gateway, f"/approve {short_id(approval.id)}") == "This has been denied already."


@in_virtual_time
async def test_where_no_zone_was_chosen_korean_is_told_in_korean_time(house: House) -> None:
    with in_zone(""):
        async with house.open() as gateway:
            korean = await asked(gateway, wrote("사줘", "ada", conversation="ada"))
            assert "18:05:00 (한국 시간)까지" in korean.card
