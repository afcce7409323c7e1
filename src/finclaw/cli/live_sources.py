"""Canaries of the live sources, asked from the command line beside a gateway or without one."""

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from finclaw.clock import SystemClock
from finclaw.config.schema import Settings
from finclaw.fetch.fetchers import open_fetchers
from finclaw.finance.calendar import TableCalendar
from finclaw.finance.instruments.added import KnownInstruments
from finclaw.finance.live.probe import ProbeResult
from finclaw.finance.sources.registry import MIGRATIONS, fetch_rules, open_probe
from finclaw.storage.sqlite.extension import EXTENSIONS, ExtensionDatabase


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
        probe = open_probe(settings.market_data, fetcher, database, SystemClock(), TableCalendar(), find)
        return await probe.ask_all(sources)
    finally:
        await database.close()
