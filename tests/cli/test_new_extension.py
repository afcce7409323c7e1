"""`finclaw extensions new`: what it makes works as it is."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.terminal import clean_environment, finclaw, run_pytest


@pytest.mark.parametrize("name", ["remember", "price-alarm"])
def test_a_new_extension_passes_its_own_test_and_can_be_listed(tmp_path: Path, name: str) -> None:
    module = name.replace("-", "_")
    made = finclaw("extensions", "new", name, cwd=tmp_path)
    assert made.code == 0, made.err
    assert sorted(each.name for each in tmp_path.iterdir()) == [f"{module}.py", f"test_{module}.py"]
    assert f"{sys.executable} -m pytest test_{module}.py" in made.out
    assert "1 passed" in run_pytest(tmp_path)
    state = tmp_path / "state"
    state.mkdir()
    listed = made.out.partition("extensions: ")[2].strip()
    (state / "finclaw.yaml").write_text(f"agent:\n  extensions: {listed}\n")
    shown = finclaw("extensions", "--state", state)
    assert f"{module}__note" in shown.out
    assert f"turn {name}.recall" in shown.out


def test_it_can_be_made_elsewhere(tmp_path: Path) -> None:
    assert finclaw("extensions", "new", "one", "--dir", tmp_path / "a" / "b").code == 0
    assert (tmp_path / "a" / "b" / "one.py").is_file()


@pytest.mark.parametrize("there", ["one.py", "test_one.py"])
def test_what_is_there_is_kept(tmp_path: Path, there: str) -> None:
    (tmp_path / there).write_text("mine")
    ended = finclaw("extensions", "new", "one", cwd=tmp_path)
    assert ended.code == 2
    assert "is there already" in ended.line()
    assert [each.name for each in tmp_path.iterdir()] == [there]
    assert (tmp_path / there).read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Json", "take small letters"),
        ("../evil", "take small letters"),
        ("a b", "take small letters"),
        ("x" * 50, "take small letters"),
        ("json", "choose another name, such as my-json"),
        ("class", "choose another name"),
        ("", "take small letters"),
    ],
)
def test_a_name_that_would_not_work_is_refused(tmp_path: Path, name: str, says: str) -> None:
    ended = finclaw("extensions", "new", name, cwd=tmp_path)
    assert ended.code == 2
    assert says in ended.line()
    assert list(tmp_path.iterdir()) == []


def test_a_name_is_needed(tmp_path: Path) -> None:
    assert "needs a name; try: finclaw extensions new price-alarm" in finclaw("extensions", "new", cwd=tmp_path).line()
    assert "'old' is no choice" in finclaw("extensions", "old", "x", cwd=tmp_path).line()


def test_where_there_is_no_pytest_it_says_how_to_get_it(tmp_path: Path) -> None:
    """User trial M3: the environment of `make run` has none."""
    hidden = "import runpy, sys; sys.modules['pytest'] = None; sys.argv[0] = 'finclaw'; "
    command = [sys.executable, "-c", hidden + "runpy.run_module('finclaw', run_name='__main__')"]
    done = subprocess.run(
        [*command, "extensions", "new", "one"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        env=clean_environment(),
    )
    assert "needs pytest: scripts/venv test in a clone" in done.stdout
    assert "needs pytest" not in finclaw("extensions", "new", "two", cwd=tmp_path).out
