"""The budget in a settings file."""

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import pytest

from finclaw.agent.settings import BudgetSettings
from finclaw.config.load import load_settings
from finclaw.errors import ConfigError


def load(where: Path, text: str, environ: Mapping[str, str] | None = None) -> BudgetSettings:
    (where / "finclaw.yaml").write_text(text)
    return load_settings(state=where, config=None, environ=environ or {}, overrides={}).budget


def test_limits_are_exact_dollars(tmp_path: Path) -> None:
    given = load(tmp_path, "budget:\n  turn_usd: 0.1\n  user_day_usd: 2\n  month_usd: '99.99'\n")
    assert given == BudgetSettings(turn_usd=Decimal("0.1"), user_day_usd=Decimal(2), month_usd=Decimal("99.99"))
    assert not load(tmp_path, "").is_set


def test_a_limit_from_a_variable(tmp_path: Path) -> None:
    assert load(tmp_path, "", {"FINCLAW_BUDGET__AGENT_DAY_USD": "5"}).agent_day_usd == 5


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
