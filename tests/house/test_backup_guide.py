"""The commands of the backup guide run as they are written, and lead where it says."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guides" / "backup.md").read_text(encoding="utf-8")


def test_the_commands_run_as_they_are_written(tmp_path: Path) -> None:
    (commands,) = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    script = f'set -e\nfinclaw() {{ "{sys.executable}" -m finclaw "$@"; }}\n{commands}'
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FINCLAW_")}
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=environment | {"FINCLAW_HOME": str(tmp_path / "state")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "read back and compared" in done.stdout
    assert "the state before is kept in" in done.stdout
    assert "What is AAPL trading at?" in done.stdout.split("the state before is kept in")[1]
    findings = json.loads((tmp_path / "checked.json").read_text())["findings"]
    assert [each["level"] for each in findings if each["check"] == "database"] == ["ok"]


def test_the_readme_leads_there() -> None:
    assert "docs/guides/backup.md" in (ROOT / "README.md").read_text(encoding="utf-8")
