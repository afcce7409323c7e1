"""The guide to market data names every source, every chain and every command as they are, and its examples run."""

import re
from datetime import UTC, datetime
from pathlib import Path

from tests.walks.house import House

from finclaw.composition.extensions import load_registrar
from finclaw.config.schema import Settings
from finclaw.finance.market_data.settings import DEFAULT_CHAINS
from finclaw.finance.market_data.source_info import SOURCES
from finclaw.testing import FakeClock

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "market-data.md").read_text(encoding="utf-8")


def test_the_guide_has_every_chain_in_its_order() -> None:
    rows = re.findall(r"^\| `([a-z]+\.[A-Z]+\.[a-z]+)` \| (.*) \|$", GUIDE, re.MULTILINE)
    assert {chain: tuple(re.findall(r"`(\w+)`", sources)) for chain, sources in rows} == dict(DEFAULT_CHAINS)


def test_the_guide_has_every_source_with_its_standing() -> None:
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| [^|]* \| (official|unofficial) \|", GUIDE, re.MULTILINE)
    told = {source: standing for names, standing in rows for source in re.findall(r"`(\w+)`", names)}
    assert told == {source.id: source.standing for source in SOURCES.values()}


EXAMPLE = re.compile(r"^```chat\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_examples_of_commands_answer_as_the_guide_shows(tmp_path: Path) -> None:
    (example,) = EXAMPLE.findall(GUIDE)
    turns = [turn.partition("\n")[::2] for turn in re.split(r"^> ", example, flags=re.MULTILINE)[1:]]
    house = House(tmp_path, clock=FakeClock(datetime(2026, 11, 17, 5, 0, tzinfo=UTC)))

    async def walk() -> None:
        async with house.open() as gateway:
            for line, shown in turns:
                await gateway.ask(line, sender="ada" if line.isascii() else "kim")
                assert gateway.said[-1].partition("\n\n(")[0] == shown.rstrip(), line

    house.clock.run(walk())
    assert len(turns) > 5


def test_the_guide_lists_every_command_of_finance_with_its_korean_name(tmp_path: Path) -> None:
    commands = [each for each in load_registrar(Settings(state=tmp_path)).commands if each.category == "finance"]
    rows = re.findall(r"^\| `/(\w+)[^|]*\| `/(\w+)", GUIDE, re.MULTILINE)
    assert set(rows) == {(each.name, each.names["ko"]) for each in commands}
