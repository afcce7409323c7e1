"""What the pages show must run: every Python block of the README and the guides is executed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _examples() -> list[object]:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [
        pytest.param(code, id=f"{page.relative_to(ROOT)}-{place}")
        for page in pages
        for place, code in enumerate(BLOCK.findall(page.read_text()))
    ]


@pytest.mark.parametrize("code", _examples())
def test_example_runs(code: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip(), "an example shows something"


def test_no_example_hides_from_the_tests() -> None:
    """Behind the language may stand only what another test goes by: the guide's files, points and examples."""
    fences = re.compile(r"^```(?:py|python)\b(.*)$", re.MULTILINE)
    marked = re.compile(r"| (?:file|point|example)=\S+")
    for page in sorted((ROOT / "docs").rglob("*.md")):
        marks = fences.findall(page.read_text(encoding="utf-8"))
        allowed = marked if page.name == "extensions.md" else re.compile("")
        assert [mark for mark in marks if not allowed.fullmatch(mark)] == [], page.name


def test_every_decision_is_listed() -> None:
    index = (ROOT / "docs" / "decisions" / "README.md").read_text()
    pages = sorted(page.name for page in (ROOT / "docs" / "decisions").glob("0*.md"))
    assert pages == re.findall(r"\((0\d{3}-[a-z-]+\.md)\)", index)
