"""The guide to market data names every source and every chain as they are."""

import re
from pathlib import Path

from finclaw.finance.market_data.settings import DEFAULT_CHAINS
from finclaw.finance.market_data.source_info import SOURCES

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "market-data.md").read_text(encoding="utf-8")


def test_the_guide_has_every_chain_in_its_order() -> None:
    rows = re.findall(r"^\| `([a-z]+\.[A-Z]+\.[a-z]+)` \| (.*) \|$", GUIDE, re.MULTILINE)
    assert {chain: tuple(re.findall(r"`(\w+)`", sources)) for chain, sources in rows} == dict(DEFAULT_CHAINS)


def test_the_guide_has_every_source_with_its_standing() -> None:
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| [^|]* \| (official|unofficial) \|", GUIDE, re.MULTILINE)
    told = {source: standing for names, standing in rows for source in re.findall(r"`(\w+)`", names)}
    assert told == {source.id: source.standing for source in SOURCES.values()}
