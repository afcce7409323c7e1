"""The budget in a settings file."""

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import pytest

from finclaw.agent.budget.settings import BudgetSettings
from finclaw.config.load import load_settings
from finclaw.errors import ConfigError


def load(where: Path, text: str, environ: Mapping[str, str] | None = None) -> BudgetSettings:
    (where / "finclaw.yaml").write_text(text)
    return load_settings(state=where, config=None, environ=environ or {}, overrides={}).budget


def test_limits_are_exact_dollars(tmp_path: Path) -> None:
    given = load(tmp_path, "budget:\n  turn_usd: 0.1\n  user_day_usd: 2\n  month_usd: '99.99'\n")
    assert given == BudgetSettings(turn_usd=Decimal("0.1"), user_day_usd=Decimal(2), month_usd=Decimal("99.99"))


def test_three_dollars_a_day_unless_somebody_says_otherwise(tmp_path: Path) -> None:
    """The default is told from the same amount in a file: only who chose a limit is held up for its sake."""
    assert (load(tmp_path, "").agent_day_usd, load(tmp_path, "").is_chosen) == (3, False)
    assert load(tmp_path, "budget: {agent_day_usd: 3}").is_chosen
    assert not load(tmp_path, "budget: {agent_day_usd: null}").is_set
    assert load(tmp_path, "budget: {agent_day_usd: 0}").is_chosen


@pytest.mark.parametrize(("text", "limit"), [("5", 5), ("0", 0), ("null", None)])
def test_a_limit_from_a_variable(tmp_path: Path, text: str, limit: int | None) -> None:
    for file in ("", "budget: {agent_day_usd: 7}"):
        assert load(tmp_path, file, {"FINCLAW_BUDGET__AGENT_DAY_USD": text}).agent_day_usd == limit


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("month_usd: -1", "line 2: budget.month_usd is -1; give US dollars, 0 or more"),
        ("month_usd: lots", "line 2: budget.month_usd must be a number or nothing"),
        ("day_usd: 1", "line 2: unknown key budget.day_usd; did you mean budget."),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, line: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, f"budget:\n  {line}\n")
    assert says in str(caught.value)
