"""The Telegram guide does what it says: its settings load, and who is heard is as it says."""

import re
from pathlib import Path
from textwrap import dedent

import pytest
from tests.cli.in_process import typed

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/guides/telegram.md").read_text(encoding="utf-8")
BLOCKS = [dedent(found) for found in re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)]


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TELEGRAM_TOKEN", "123456789:AAEexampleexampleexampleexampleexam")


@pytest.mark.parametrize("block", BLOCKS, ids=["polling", "webhook"])
def test_its_settings_load_and_say_who_is_heard(tmp_path: Path, block: str) -> None:
    (tmp_path / "finclaw.yaml").write_text(block, encoding="utf-8")
    assert typed("config", "check", "--state", tmp_path).code == 0
    listed = typed("channels", "list", "--state", tmp_path).out
    assert re.search(r"telegram +telegram +FinClaw +default +token +123456789", listed)


@pytest.mark.parametrize(("allow", "heard"), [("[]", "nobody yet"), ('["*"]', "everybody")])
def test_nobody_is_heard_by_default(tmp_path: Path, allow: str, heard: str) -> None:
    settings = re.sub(r"allow_senders: .*", f"allow_senders: {allow}", BLOCKS[0])
    (tmp_path / "finclaw.yaml").write_text(settings, encoding="utf-8")
    assert heard in typed("channels", "list", "--state", tmp_path).out


def test_an_id_without_quotes_is_complained_about(tmp_path: Path) -> None:
    (tmp_path / "finclaw.yaml").write_text(BLOCKS[0].replace('"', ""), encoding="utf-8")
    ended = typed("config", "check", "--state", tmp_path)
    assert ended.code != 0
    assert "quotes" in ended.out + ended.err


def test_it_is_linked() -> None:
    for page in ("README.md", "README.ko.md", "docs/guides/channels.md"):
        assert "telegram.md" in (ROOT / page).read_text(encoding="utf-8")
