"""What the pages show must run: every Python block of the README and the guides is executed."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NUMBERS = {6: "six", 7: "seven", 8: "eight", 9: "nine", 10: "ten", 11: "eleven", 12: "twelve"}
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _examples() -> list[object]:
    pages = [ROOT / "README.md", ROOT / "README.ko.md", *sorted((ROOT / "docs").rglob("*.md"))]
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
    index = (ROOT / "docs" / "decisions" / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[\d{4}\]\((0\d{3}-[a-z-]+\.md)\) \| (.*) \|$", index, re.MULTILINE)
    pages = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
    assert listed == [(page.name, page.read_text(encoding="utf-8").split("\n")[0][7:]) for page in pages]


def test_the_decision_on_dependencies_counts_them() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = (ROOT / "docs" / "decisions" / "0004-few-dependencies.md").read_text(encoding="utf-8")
    names = [re.split(r"[^\w-]", line)[0] for line in project["dependencies"]]
    assert f"has {NUMBERS[len(names)]} direct dependencies" in page
    assert [name for name in names if f"**{name}**" not in page] == []
    extras = set(project["optional-dependencies"]) - {"test", "check"}
    assert [name for name in extras if f"`{name}`" not in page] == []


LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")
PAGES = ["README.md", "README.ko.md", "CONTRIBUTING.md", "tests/README.md"]


@pytest.mark.parametrize(
    "page", [*PAGES, *(str(each.relative_to(ROOT)) for each in sorted((ROOT / "docs").rglob("*.md")))]
)
def test_every_link_leads_somewhere(page: str) -> None:
    links = LINK.findall((ROOT / page).read_text(encoding="utf-8"))
    places = [link for link in links if "://" not in link and not link.startswith("mailto:")]
    assert [link for link in places if not ((ROOT / page).parent / link).exists()] == []


def test_the_korean_readme_has_all_of_the_english_one() -> None:
    """The same headings, commands and links, in the same order."""
    english, korean = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "README.ko.md"))
    assert len(re.findall(r"^#+ ", korean, re.MULTILINE)) == len(re.findall(r"^#+ ", english, re.MULTILINE))
    assert BLOCK.findall(korean) == BLOCK.findall(english)
    assert sorted(LINK.findall(korean)[1:]) == sorted(LINK.findall(english)[1:])


def test_the_page_on_tests_names_every_directory() -> None:
    page = (ROOT / "tests" / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+)/", page)) - {"src", "docs"}
    held = {path.parent.relative_to(ROOT / "tests").parts[0] for path in (ROOT / "tests").glob("*/*.py")}
    assert held - named == set()
    assert named - held == set(), "it names directories that are not there"
