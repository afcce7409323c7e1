"""A message that kills the process is tried three times and then set aside; nobody waits behind it for ever."""

import asyncio
import json
import sys
from pathlib import Path

import pytest
from tests.chaos.audit import read_books
from tests.chaos.harness import Run

from finclaw.delivery.notice import notice
from finclaw.kernel.envelope import Inbound
from finclaw.storage.kinds import StoreKind

pytestmark = pytest.mark.chaos


async def dead_letters(state: Path) -> int:
    command = (sys.executable, "-m", "finclaw", "status", "--json", "--state", str(state))
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    assert process.returncode == 0
    return json.loads(out)["counts"]["dead_letters"]


async def test_a_message_that_kills_three_times(tmp_path: Path) -> None:
    async with Run(tmp_path) as run:
        bad = run.platform.write("c", "poison")
        run.write("c")
        for _ in range(3):
            await run.dies(await run.start(), "its poison")
        gateway = await run.start()
        await run.all_told(gateway)
        await gateway.stop()

        told, answer = run.platform.replies_in("c")
        assert (told.reply_to, told.text) == (bad, notice("poison", Inbound(text="poison")).text)
        assert answer.text.startswith("<1 ")
        assert await dead_letters(run.state) == 1
        first, second = read_books(run.database).entries
        assert (first.row.outcome, first.delivery) == ("failed", "delivered")
        assert (second.row.outcome, second.attempts) == ("answered", 1)


async def test_poison_comes_back_as_a_repeat_and_is_recognised(tmp_path: Path) -> None:
    async with Run(tmp_path) as run:
        bad = run.platform.write("c", "poison")
        for _ in range(3):
            await run.dies(await run.start(), "its poison")
        run.platform.repeat(bad, times=3)
        run.write("c")
        gateway = await run.start()
        await run.all_told(gateway)
        await gateway.stop()
        assert len(run.platform.replies_in("c")) == 2
        assert len(read_books(run.database).entries) == 2


async def test_whoever_was_answered_beside_it_is_answered_in_the_end(tmp_path: Path) -> None:
    """Three deaths are held against the message that caused them, not against one that ran at the same time."""
    async with Run(tmp_path) as run:
        gateway = await run.start(slow=1.0)
        run.write("innocent", "slow")
        await run.until(lambda: not run.platform.unacknowledged, gateway)
        run.platform.write("c", "poison")
        await run.dies(gateway, "poison")
        for _ in range(2):
            await run.dies(await run.start(slow=1.0), "poison")
        await run.drain()
        innocent, poison = read_books(run.database).entries
        assert (innocent.row.outcome, poison.row.outcome) == ("answered", "failed")


async def test_whoever_was_on_its_last_try_beside_a_new_one_is_not_blamed_for_it(tmp_path: Path) -> None:
    """Two deaths were the power's, and the third was its neighbour's: it is tried alone, and answered."""
    async with Run(tmp_path) as run:
        run.write("innocent", "slow")
        for tries in (1, 2):
            gateway = await run.start(slow=90.0)
            await asked(run, tries)
            await gateway.kill()
        gateway = await run.start(slow=90.0)
        await asked(run, 3)
        run.platform.write("c", "poison")
        await run.dies(gateway, "its neighbour's poison")
        for _ in range(2):
            await run.dies(await run.start(slow=0.2), "its own poison")
        await run.drain()
        innocent, poison = read_books(run.database).entries
        assert (innocent.row.outcome, poison.row.outcome) == ("answered", "failed")
        assert (innocent.attempts, poison.attempts) == (4, 4)


async def asked(run: Run, times: int) -> None:
    """Until the model has been asked so often, over all lives."""
    async with asyncio.timeout(60):
        while len(run.worked()) < times:  # noqa: ASYNC110  another process writes it down
            await asyncio.sleep(0.02)


# ── before the turn ─────────────────────────────────────────────────────────────────────────────────────────


NEVER = "pipeline:started:1000000"
"""Where it does not come to. A gateway that is to die somewhere is not waited for until it is ready."""


async def deaths_until_all_are_told(run: Run) -> int:
    for deaths in range(12):
        gateway = await run.start(crash=NEVER, slow=0.1)
        died = asyncio.ensure_future(gateway.ended())
        told = asyncio.ensure_future(run.all_told(gateway))
        await asyncio.wait([died, told], return_when=asyncio.FIRST_COMPLETED)
        if not died.done():
            await told
            await gateway.stop()
            await died
            return deaths
        told.cancel()
        await asyncio.gather(told, return_exceptions=True)
        await gateway.kill()
    raise AssertionError("it kills the gateway for ever")


@pytest.mark.parametrize(
    ("storage", "crowd"),
    [
        ("sqlite", 30),
        ("jsonl", 0),
        pytest.param("sqlite", 0, marks=pytest.mark.soak),
        pytest.param("jsonl", 30, marks=pytest.mark.soak),
    ],
)
async def test_a_message_that_kills_before_its_turn(tmp_path: Path, storage: StoreKind, crowd: int) -> None:
    """It is found out in a crowd, too, and nobody in the crowd is blamed for it."""
    async with Run(tmp_path, storage=storage) as run:
        for number in range(crowd):
            run.write(f"c{number % 10}", "slow")
        bad = run.platform.write("c3", "early poison")
        run.write("c3")
        deaths = await deaths_until_all_are_told(run)
        assert 3 <= deaths <= 6
        outcomes = {entry.row.message_id: entry.row.outcome for entry in read_books(run.database).entries}
        assert outcomes.pop(bad) == "failed"
        assert set(outcomes.values()) == {"answered"}
        assert len(outcomes) == crowd + 1


# ── in the delivery ring ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("storage", ["sqlite", "jsonl"])
async def test_a_message_whose_delivery_layer_kills_on_any_text(tmp_path: Path, storage: StoreKind) -> None:
    """The notice that ends it goes past the delivery ring: a layer that dies of it too must not loop for ever."""
    async with Run(tmp_path, storage=storage) as run:
        bad = run.platform.write("c", "late poison n=0")
        run.write("c")
        run.write("another")
        deaths = await deaths_until_all_are_told(run)
        assert 3 <= deaths <= 6
        entries = {entry.row.message_id: entry for entry in read_books(run.database).entries}
        assert (entries[bad].row.outcome, entries[bad].delivery) == ("failed", "delivered")
        assert {entry.row.outcome for id, entry in entries.items() if id != bad} == {"answered"}
        assert run.platform.replies_in("c")[0].text == notice("poison", Inbound(text="poison")).text


async def test_a_delivery_layer_that_kills_on_every_text_of_everybody(tmp_path: Path) -> None:
    """Nothing can be answered then, but each message ends, each sender is told, and the gateway stays up."""
    async with Run(tmp_path, layer_kills=True) as run:
        for conversation in ("a", "b"):
            run.write(conversation)
        await deaths_until_all_are_told(run)
        assert [entry.row.outcome for entry in read_books(run.database).entries] == ["failed", "failed"]
        assert [len(run.platform.replies_in(conversation)) for conversation in ("a", "b")] == [1, 1]
