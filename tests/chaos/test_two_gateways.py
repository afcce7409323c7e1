"""One state directory, one gateway: a second is refused, a dead one followed at once, a stopped one leaves order."""

import sys
import time
from pathlib import Path

import pytest
from tests.chaos.gateway import Gateway
from tests.chaos.harness import Run

pytestmark = pytest.mark.chaos


async def serve(state: Path) -> Gateway:
    command = ("-m", "finclaw", "serve", "--port", "0", "--state", state)
    return await Gateway.spawn(command, state.with_name("serve.log"))


async def ready(gateway: Gateway) -> float:
    return await gateway.ready(b"FinClaw listens on")


async def seconds_of_a_start(state: Path) -> float:
    gateway = await serve(state)
    try:
        return await ready(gateway)
    finally:
        await gateway.kill()


async def test_the_second_is_refused_and_the_first_goes_on(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    async with Run(tmp_path) as run:
        first = await run.start()
        async with run.load(40):
            ordinary = await seconds_of_a_start(tmp_path_factory.mktemp("elsewhere") / "state")
            asked = time.monotonic()
            second = await serve(run.state)
            try:
                code = await second.ended()
            finally:
                await second.kill()
            took = time.monotonic() - asked
        await run.all_told(first)
        await first.stop()

        found = run.audit()
        assert found.clean, str(found)
        assert found.doubts == 0
        assert code != 0
        assert took < 2 + 3 * ordinary  # a machine that is busy with other things needs its time for Python alone
        assert second.said == (
            f"finclaw: another gateway or chat (process {first.pid}) already uses {str(run.state)!r}; "
            "stop it, or use another state directory with --state DIR\n"
        )
        sys.stdout.write(f"the second gateway was gone after {took:.2f} s\n")


async def test_after_a_kill_a_new_one_starts_at_once(tmp_path: Path) -> None:
    state = tmp_path / "state"
    holder = await serve(state)
    try:
        ordinary = await ready(holder)
        await holder.kill()
        holder = await serve(state)
        after_kill = await ready(holder)
        await holder.stop()
    finally:
        await holder.kill()
    sys.stdout.write(f"ready after {ordinary:.2f} s, after a kill {after_kill:.2f} s\n")
    assert after_kill < 2 + 3 * ordinary


async def test_stopped_under_load_it_drains(tmp_path: Path) -> None:
    async with Run(tmp_path) as run:
        run.platform.fault = run.hesitates
        for _ in range(2):
            gateway = await run.start()
            goal = run.told + 30
            async with run.load(60):
                await run.until(lambda: run.told >= goal, gateway)  # noqa: B023
                took = await gateway.stop()
            sys.stdout.write(f"stopped after {took:.2f} s\n")
        found = await run.drain()
        assert found.clean, str(found)
        assert (found.answered, found.doubts) == (found.messages, 0)


async def test_stopped_in_a_long_turn_it_parks(tmp_path: Path) -> None:
    """What takes long is put back as if it had not been tried, and answered by the next gateway."""
    async with Run(tmp_path, max_attempts=1) as run:
        gateway = await run.start(slow=60)
        run.write("slow", "slow")
        async with run.load(40):
            await run.until(lambda: run.told > 10, gateway)
            took = await gateway.stop()
        sys.stdout.write(f"parked after {took:.2f} s\n")
        found = await run.drain()
        assert found.clean, str(found)
        assert (found.answered, found.doubts) == (found.messages, 0)
