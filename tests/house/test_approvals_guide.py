"""Every settings example of the approvals guide is a file that loads, and its card is one that we write."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args

import pytest
from msgspec.structs import replace
from tests.ports.approval_nouns import wish

from finclaw.approvals.card import card
from finclaw.approvals.people import People
from finclaw.approvals.settings import ApprovalSettings
from finclaw.builtins.approval_words import grants_text
from finclaw.config.load import load_settings
from finclaw.kernel.approval import Standing
from finclaw.kernel.event import ApprovalChange

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "approvals.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("text", EXAMPLES)
def test_the_example_loads(tmp_path: Path, text: str) -> None:
    (tmp_path / "finclaw.yaml").write_text(text, encoding="utf-8")
    settings = load_settings(state=tmp_path, environ={})
    assert settings.people or settings.approvals.own == "never"
    assert People(settings.people).who("role:owner") == {"web:owner:owner", "api:local:local"}


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 2


def test_what_stands_is_shown_as_we_write_it() -> None:
    (shown,) = re.findall(r"^```chat\n(.*?)\n```", PAGE, re.MULTILINE | re.DOTALL)
    granted_at = datetime(2026, 1, 2, tzinfo=UTC)
    grant = Standing(
        id="ap-7k2m9x4p0c8vtr5n1hq6wz3d2e",
        tool="garden__water",
        args={"plant": "tomato"},
        requester="telegram:bot1:12345",
        session=None,
        granted_by="telegram:bot1:12345",
        granted_at=granted_at,
        expires_at=granted_at + timedelta(days=ApprovalSettings().standing_days),
    )
    assert grants_text([grant], "en", "/") == shown


def test_every_change_is_in_the_table() -> None:
    table = PAGE.partition("| `change` | when |")[2].partition("\n\n")[0]
    firsts = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    assert sorted(re.findall(r"`(\w+)`", " ".join(firsts))) == sorted(get_args(ApprovalChange))


def test_the_card_is_as_we_write_it() -> None:
    (shown,) = re.findall(r"^```text\n(.*?)\n```", PAGE, re.MULTILINE | re.DOTALL)
    asked = wish(datetime(2026, 1, 2, 14, tzinfo=UTC), args={"symbol": "AAPL", "quantity": 1000})
    assert card(replace(asked, id="ap-7k2m9x4p0c8vtr5n1hq6wz3d2e")) == shown
