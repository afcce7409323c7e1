"""The keeper of docs/requirements.md notices what it is there to notice."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def load_spec() -> ModuleType:
    """scripts/ is no package; the script is loaded from its path."""
    found = importlib.util.spec_from_file_location("finclaw_spec", ROOT / "scripts" / "spec.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


spec = load_spec()

PROVES_P01 = """
import pytest

@pytest.mark.spec("P-01")
async def test_road(): ...
"""


class House:
    """A made-up repository: a complete page with every row open, except where a test says otherwise."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.finished = "none"
        self.rows: dict[str, str] = {id: f"| {id} | it works | 2 | – |" for id in spec.expected_ids()}
        (root / "docs" / "decisions").mkdir(parents=True)
        (root / "tests").mkdir()

    def row(self, id: str, how: str, part: int = 1) -> None:
        self.rows[id] = f"| {id} | it works | {part} | {how} |"

    def test_file(self, text: str, name: str = "test_road.py") -> None:
        (self.root / "tests" / name).write_text(text, encoding="utf-8")

    def write(self) -> None:
        table = "\n".join(["| id | what we promise | part | how |", "| --- | --- | --- | --- |", *self.rows.values()])
        page = f"# Requirements\n\nFinished parts: {self.finished}\n\n{table}\n"
        (self.root / "docs" / "requirements.md").write_text(page, encoding="utf-8")


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def run(house: House, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str], str]:
    """The exit code, the lines before the summary, and the summary."""
    house.write()
    code: int = spec.main(list(arguments), house.root)
    *lines, summary = capsys.readouterr().out.splitlines()
    return code, lines, summary


def test_our_own_page_and_tests_agree() -> None:
    assert spec.main([]) == 0


def test_all_626_ids_are_expected_once() -> None:
    ids: list[str] = spec.expected_ids()
    assert len(ids) == len(set(ids)) == 538 + 88


def test_a_good_page_passes_and_is_summed_up(house: House, capsys: pytest.CaptureFixture[str]) -> None:
    house.finished = "1"
    house.row("P-01", "test")
    house.row("P-02", "decision 0001")
    house.row("P-03", "not taken: nobody needs it")
    house.test_file(PROVES_P01)
    (house.root / "docs" / "decisions" / "0001-eight-stages.md").touch()
    code, problems, summary = run(house, capsys)
    assert (code, problems) == (0, [])
    assert summary == (
        "626 requirements: 1 test, 1 decision, 1 not taken, 623 not yet; 1 proven, 0 open with marks; "
        "finished: part 1: 1 test, 1 decision, 1 not taken"
    )


def test_a_row_may_be_open_while_its_part_is(house: House, capsys: pytest.CaptureFixture[str]) -> None:
    house.row("P-01", "test")
    assert run(house, capsys)[:2] == (0, [])


def test_a_mark_on_an_open_row_is_no_proof(house: House, capsys: pytest.CaptureFixture[str]) -> None:
    house.row("P-01", "–")
    house.test_file(PROVES_P01)
    code, lines, summary = run(house, capsys, "--list", "1")
    assert (code, lines) == (0, ["P-01    –      (no proof yet) tests/test_road.py::test_road"])
    assert "0 proven, 1 open with marks" in summary
    house.finished = "1"
    assert run(house, capsys)[0] == 1, "its part is said to be finished"


def test_parts_go_up_to_nineteen(house: House, capsys: pytest.CaptureFixture[str]) -> None:
    house.row("P-01", "–", part=19)
    house.row("P-02", "test", part=10)
    assert run(house, capsys)[:2] == (0, [])


def test_each_fault_is_one_line_that_names_the_id(house: House, capsys: pytest.CaptureFixture[str]) -> None:
    house.finished = "1, 2"
    house.rows = {id: row.replace("–", "not taken: here") for id, row in house.rows.items()}
    house.row("P-01", "test")
    house.row("P-02", "–")
    house.row("P-03", "decision 0042")
    house.rows["again"] = house.rows["P-04"]
    house.rows["unknown"] = "| ZZ-01 | it works | 2 | not taken: here |"
    del house.rows["DX-21d"]
    house.test_file(PROVES_P01.replace("P-01", "P-99"))
    code, problems, _ = run(house, capsys)
    assert code == 1
    assert problems == [
        "P-04: 2 rows: keep one",
        "DX-21d: no row in docs/requirements.md: put it back",
        "ZZ-01: no such requirement: correct the id in docs/requirements.md",
        "P-99: no such requirement: correct the mark in tests/test_road.py::test_road",
        'P-01: part 1 is finished, but no test carries spec("P-01"): write one',
        "P-02: part 1 is finished: write `test`, `decision NNNN` or `not taken: …`",
        "P-03: docs/decisions/0042-….md does not exist: write it or correct the row",
    ]


@pytest.mark.parametrize(
    "row",
    [
        "| P-01 | it works | 1 |",
        "| P-01 | it works | 20 | test |",
        "| P-01 | it works | 1 | soon |",
        "| P-01 | it works | 1 | not taken |",
        "| P-01 | it works | 1 | decision 7 |",
        "| P-01 |  | 1 | test |",
        "| p1 | it works | 1 | test |",
    ],
)
def test_a_malformed_row_is_refused_with_its_line(row: str, house: House, capsys: pytest.CaptureFixture[str]) -> None:
    house.rows["P-01"] = row
    code, problems, _ = run(house, capsys)
    assert code == 1
    assert problems[0].startswith("docs/requirements.md:7: malformed row")


@pytest.mark.parametrize("finished", ["", "1 and 2", "none\n\nFinished parts: 1"])
def test_the_finished_line_is_there_once(finished: str, house: House, capsys: pytest.CaptureFixture[str]) -> None:
    house.finished = finished
    code, problems, _ = run(house, capsys)
    assert code == 1
    assert "needs one line `Finished parts: none`" in problems[0]


def test_marks_are_found_wherever_pytest_takes_them(house: House) -> None:
    house.test_file(
        """
import pytest
from pytest import mark
pytestmark = [pytest.mark.spec("P-01"), pytest.mark.chaos]

@pytest.mark.spec("P-02", "P-03")
@mark.spec("P-04")
def test_function(): ...

@pytest.mark.spec("P-05")
class TestClass:
    pytestmark = pytest.mark.spec("P-06")

    @pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.spec("P-07"))])
    def test_method(self, x): ...

TEXT = 'pytest.mark.spec("P-08")'  # pytest.mark.spec("P-09")
"""
    )
    markers, problems = spec.find_markers(house.root / "tests")
    file = "tests/test_road.py"
    assert problems == []
    assert markers == {
        "P-01": [file],
        "P-02": [f"{file}::test_function"],
        "P-03": [f"{file}::test_function"],
        "P-04": [f"{file}::test_function"],
        "P-05": [f"{file}::TestClass"],
        "P-06": [f"{file}::TestClass"],
        "P-07": [f"{file}::TestClass::test_method"],
    }


@pytest.mark.parametrize(
    ("mark", "name", "says"),
    [
        ("spec()", "test_x", "empty mark"),
        ("spec(ID)", "test_x", "plain string"),
        ('spec("P-01")', "helper", "helper is no test"),
    ],
)
def test_a_mark_that_proves_nothing_is_refused(mark: str, name: str, says: str, house: House) -> None:
    house.test_file(f"import pytest\n@pytest.mark.{mark}\ndef {name}(): ...\n")
    _, problems = spec.find_markers(house.root / "tests")
    assert len(problems) == 1
    assert says in problems[0]


def test_list_shows_a_part_with_its_tests(house: House, capsys: pytest.CaptureFixture[str]) -> None:
    house.row("P-01", "test")
    house.row("P-02", "test")
    house.test_file(PROVES_P01)
    code, lines, _ = run(house, capsys, "--list", "1")
    assert code == 0
    assert lines == ["P-01    test   tests/test_road.py::test_road", "P-02    test   (no test yet)"]
