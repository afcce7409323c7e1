"""Finance is an extension as any other: what it adds comes by the api, and the core knows nothing of it."""

from pathlib import Path

import pytest

import finclaw
from finclaw.composition.extensions import load_registrar
from finclaw.config.schema import Settings
from finclaw.kernel.context import MARKET_FIELDS

SOURCE = Path(finclaw.__file__).parent
CORE = ("kernel", "pipeline", "agent", "extensions", "delivery", "sessions", "tools", "transcript")
COMMANDS = {"price", "fx", "market", "news", "chart", "watch"}


@pytest.mark.spec("P-50")
def test_commands_and_context_fields_of_finance_are_registered_by_extensions(tmp_path: Path) -> None:
    loaded = load_registrar(Settings(state=tmp_path)).loaded
    fields = {field.field: each.name for each in loaded for field in each.fields}
    assert {fields[name] for name in MARKET_FIELDS} == {"market-context"}
    commands = {command.name: each.name for each in loaded for command in each.commands}
    assert set(commands) >= COMMANDS
    knowing = [
        str(path.relative_to(SOURCE))
        for package in CORE
        for path in (SOURCE / package).rglob("*.py")
        if "finclaw.finance" in path.read_text(encoding="utf-8")
    ]
    assert knowing == []
