"""The checks of live market data: the terms of each source in use, and its answers to questions with known answers."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from finclaw.cli.doctor import DoctorFinding, bad, ok, warn
from finclaw.clock import SystemClock
from finclaw.config.schema import Settings
from finclaw.fetch.fetchers import open_fetchers
from finclaw.finance.calendar import TableCalendar
from finclaw.finance.instruments.added import KnownInstruments
from finclaw.finance.live import LiveProbe, ProbeResult
from finclaw.finance.live_market import MIGRATIONS, fetch_rules, open_access
from finclaw.finance.market_data.source_info import SOURCES
from finclaw.storage.sqlite.extension import EXTENSIONS, ExtensionDatabase

_CHECK = "market data"


def checks(settings: Settings) -> Iterator[DoctorFinding]:
    used = settings.market_data.used()
    results = ask_canaries(settings, used)
    for source in used:
        info = SOURCES[source]
        yield ok(_CHECK, f"{info.name} ({info.standing}): {info.terms}")
        yield from (_judge(each) for each in results if each.source == source)
    yield from judge_all(results)


def _judge(result: ProbeResult) -> DoctorFinding:
    name = SOURCES[result.source].name
    if result.verdict == "right":
        return ok(_CHECK, f"{name}, {result.question}: {result.figures} ({result.milliseconds} ms)")
    if result.verdict == "not asked":
        return ok(_CHECK, f"{name} was not asked: {result.figures}")
    says = f"{name}, {result.question}: {result.figures}"
    return (warn if result.verdict in ("down", "limited") else bad)(_CHECK, says, result.advice)


def judge_all(results: Sequence[ProbeResult]) -> Iterator[DoctorFinding]:
    """One that is down has a next one in its chain. All of them are a network that is not there."""
    asked = [each for each in results if each.verdict != "not asked"]
    if asked and all(each.verdict == "down" for each in asked):
        yield bad(_CHECK, "no source answers", "look at this machine's network, or use the demo market: market: demo")


def ask_canaries(settings: Settings, sources: Sequence[str]) -> tuple[ProbeResult, ...]:
    """What these sources answer now. Requests are counted where the gateway counts its own, if it ever ran here."""
    with ExitStack() as stack:
        directory = settings.state / EXTENSIONS
        if not (directory / "finance.db").exists():
            directory = Path(stack.enter_context(TemporaryDirectory()))
        return asyncio.run(_ask(settings, sources, directory))


async def _ask(settings: Settings, sources: Sequence[str], directory: Path) -> tuple[ProbeResult, ...]:
    database = ExtensionDatabase(directory, "finance", MIGRATIONS)
    fetcher = open_fetchers()(fetch_rules(settings.market_data))
    find = KnownInstruments(settings.state).get
    try:
        access = open_access(settings.market_data, fetcher, database, SystemClock(), TableCalendar())
        return await LiveProbe(access, find).ask_all(sources)
    finally:
        await database.close()
