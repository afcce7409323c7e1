"""Live sources at the command line: what the doctor says of a right, a wrong and a dead one, and the dated report."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from tests.cli.chat_terminal import at_terminal
from tests.cli.gateway_process import serving
from tests.cli.terminal import clean_environment, finclaw
from tests.finance.sources.faults import FAULTS
from tests.finance.sources.vendors import Vendors, load_fixture
from tests.finance.sources.vendors import serving as serving_vendors

from finclaw.finance.market_data.source_info import SOURCES

ROOT = Path(__file__).parents[2]
USED = ("upbit", "bithumb", "coinbase")


@contextmanager
def vendors_in_thread(vendors: Vendors) -> Generator[str]:
    """The vendors behind a socket, beside a test that waits for processes; gives the base of their addresses."""
    loop, base = asyncio.new_event_loop(), list[str]()
    stop = asyncio.Event()

    async def serve() -> None:
        async with serving_vendors(vendors) as url:
            base.append(url)
            await stop.wait()

    thread = Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    while not base:
        time.sleep(0.01)
    try:
        yield base[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def write_settings(state: Path, base: str) -> None:
    """Three sources of coins: one that is right, one a hundred times too high, one where nobody listens."""
    dead = "http://127.0.0.1:9"
    others = [each for each in SOURCES if each not in USED]
    urls = {"upbit.api": f"{base}/upbit/api", "bithumb.api": f"{base}/bithumb/api", "coinbase.api": dead}
    private = [base.removeprefix("http://"), dead.removeprefix("http://")]
    made = {"market": "live", "market_data": {"disabled": others, "urls": urls, "private": private}}
    (state / "finclaw.yaml").write_text(json.dumps(made))


def coins_of_now() -> Vendors:
    vendors, now = Vendors(), int(time.time() * 1_000)
    for vendor in ("upbit", "bithumb"):
        body = load_fixture(f"{vendor}_ticker")
        vendors.changes[f"{vendor}_ticker"] = [each | {"timestamp": now, "trade_timestamp": now} for each in body]
    vendors.faults["bithumb"] = FAULTS["times 100"]
    return vendors


def test_the_doctor_asks_each_source_and_says_what_to_do(tmp_path: Path) -> None:
    with vendors_in_thread(coins_of_now()) as base:
        write_settings(tmp_path, base)
        ended = finclaw("doctor", "--state", tmp_path, FINCLAW_WEB__PORT="0")
        lines = [line for line in ended.out.splitlines() if "market data" in line]
    assert ended.code == 1
    right, wrong, down = (
        next(line for line in lines if f"{name}, price" in line) for name in ("Upbit", "Bithumb", "Coinbase")
    )
    assert right.startswith("ok")
    assert "price of BTC-KRW: 141,000,000 KRW as of" in right
    assert wrong.startswith("bad")
    assert "which was between 10,000,000 and 1,500,000,000 on 2026-11-16" in wrong
    assert wrong.endswith("market_data.disabled: [bithumb]")
    assert down.startswith("warn")
    assert "look at your network" in down
    assert not any("no source answers" in line for line in lines)


def test_the_report_is_written_only_where_somebody_answered(tmp_path: Path) -> None:
    def make(*args: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "scripts/live_report.py", "--state", str(tmp_path), "--out", str(tmp_path / "r.md")]
        return subprocess.run(
            [*command, *args], cwd=ROOT, capture_output=True, text=True, check=False, env=clean_environment()
        )

    write_settings(tmp_path, "http://127.0.0.1:9")
    silent = make()
    assert (silent.returncode, "nothing was written" in silent.stderr) == (1, True)
    assert not (tmp_path / "r.md").exists()
    with vendors_in_thread(coins_of_now()) as base:
        write_settings(tmp_path, base)
        assert make().returncode == 1, "one was wrong and one was down"
    report = (tmp_path / "r.md").read_text()
    assert "| `upbit` | official | price of BTC-KRW | **right** at another address | 141,000,000 KRW" in report
    assert "| `bithumb` | official | price of BTC-KRW | **wrong** at another address |" in report
    assert "| `kis` | official | – | **not asked** | switched off" in report


async def test_the_start_names_the_sources_that_are_asked(tmp_path: Path) -> None:
    write_settings(tmp_path, "http://127.0.0.1:9")
    with at_terminal("chat", "--state", str(tmp_path)) as terminal:
        await terminal.expect("LIVE market / 실제 시세: Upbit, Bithumb, Coinbase")
    with serving(tmp_path) as running:
        _, said = running.stop()
    assert "market  live: Upbit (official), Bithumb (official), Coinbase (official)" in said
