"""Holds docs/requirements.md and the tests against each other: `python scripts/spec.py [--list PART]`.

A row of the page promises something; a test that carries `@pytest.mark.spec("P-01")` proves it, unless the row is
open: then it stands for what is there so far, and is no proof. The tests are read, not run, so this takes no time and
needs nothing installed.
"""

import argparse
import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

HOME = Path(__file__).resolve().parent.parent
PAGE = Path("docs/requirements.md")

# How many ids each prefix has, so that a row that gets lost is missed.
COUNTS = """P 60, M 81, C 20, Q 19, K 10, F 9, T 22, Y 16, G 9, RG 12, L 10, TR 12, W 6, CP 21, SP 9, SK 4, E 24,
H 7, LD 3, R 19, S 8, A 8, X 11, N 6, B 4, PC 4, CO 3, LN 5, RT 7, MW 31, CS 14, MT 9, EX 10, RO 7, D 8, BS 6,
DB 3, CC 1, ML 4, DI 3, TC 4, V 9, DX 77"""
LETTERED = "DX-16b DX-21b DX-21c DX-21d DX-21e DX-21f DX-23b DX-27b DX-51b DX-51c DX-61b"

ROW = re.compile(r"\| ([A-Z]+-\d\d[a-z]?) \| ([^|]+) \| (1\d|[1-9]) \| (test|decision \d{4}|not taken: [^|]+|–) \|")
FINISHED = re.compile(r"^Finished parts: (none|\d+(?:, \d+)*)$", re.MULTILINE)
HEAD = ("| id |", "| --- |")

Markers = dict[str, list[str]]  # requirement id -> the tests that carry it


class Row(NamedTuple):
    id: str
    promise: str
    part: int
    how: str


def expected_ids() -> list[str]:
    counts = (entry.split() for entry in COUNTS.split(","))
    return [f"{prefix}-{n:02}" for prefix, count in counts for n in range(1, int(count) + 1)] + LETTERED.split()


def read_page(text: str) -> tuple[list[Row], set[int], list[str]]:
    """The rows, the finished parts, and what is wrong with the page itself."""
    rows: list[Row] = []
    problems: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if match := ROW.fullmatch(line.strip()):
            rows.append(Row(match[1], match[2], int(match[3]), match[4]))
        elif line.lstrip().startswith("|") and not line.startswith(HEAD):
            problems.append(
                f"{PAGE}:{number}: malformed row: write `| P-01 | promise | part 1-19 | how |`, where how is "
                "`test`, `decision NNNN`, `not taken: reason` or `–`"
            )
    lines = FINISHED.findall(text)
    if len(lines) != 1:
        problems.append(f"{PAGE}: needs one line `Finished parts: none` or `Finished parts: 1, 2`, has {len(lines)}")
    finished = {int(part) for part in re.findall(r"\d+", "".join(lines[:1]))}
    return rows, finished, problems


def specs(node: ast.AST) -> Iterator[ast.Call]:
    """Every `pytest.mark.spec(...)` inside an expression: bare, in a list, or in `pytest.param(marks=...)`."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and ast.unparse(call.func) in ("pytest.mark.spec", "mark.spec"):
            yield call


def marks_in(body: list[ast.stmt], place: str) -> Iterator[tuple[str, ast.Call]]:
    """(place, mark) for each test, class and `pytestmark` below; `place` is how pytest would name it."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{place}::{node.name}"
            for decorator in node.decorator_list:
                yield from ((name, call) for call in specs(decorator))
            if isinstance(node, ast.ClassDef):
                yield from marks_in(node.body, name)
        elif isinstance(node, ast.Assign) and "pytestmark" in map(ast.unparse, node.targets):
            yield from ((place, call) for call in specs(node.value))


def find_markers(tests: Path) -> tuple[Markers, list[str]]:
    """Which tests carry which id, and marks that cannot be read."""
    markers: Markers = defaultdict(list)
    problems: list[str] = []
    for path in sorted(tests.rglob("*.py")):
        name, text = path.relative_to(tests.parent).as_posix(), path.read_text("utf-8")
        if "mark.spec" not in text:
            continue
        for place, call in marks_in(ast.parse(text, name).body, name):
            last = place.rpartition("::")[2]
            if not call.args or call.keywords:
                problems.append(f'{name}:{call.lineno}: empty mark: write the ids, like spec("P-01", "P-02")')
            if last[0].islower() and not last.startswith("test"):
                problems.append(f"{name}:{call.lineno}: {last} is no test: move the mark to the test that proves it")
            for argument in call.args:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    markers[argument.value].append(place)
                else:
                    problems.append(f"{name}:{call.lineno}: write the id as a plain string, so that it can be found")
    return dict(markers), problems


def check(rows: list[Row], finished: set[int], markers: Markers, decisions: Path) -> list[str]:
    """What page, tests and decisions disagree about."""
    expected, seen = expected_ids(), Counter(row.id for row in rows)
    problems = [f"{id}: {count} rows: keep one" for id, count in seen.items() if count > 1]
    problems += [f"{id}: no row in {PAGE}: put it back" for id in expected if id not in seen]
    problems += [f"{id}: no such requirement: correct the id in {PAGE}" for id in seen if id not in expected]
    for id, places in markers.items():
        if id not in expected:
            problems.append(f"{id}: no such requirement: correct the mark in {places[0]}")
    for row in rows:
        done = row.part in finished
        if done and row.how == "test" and row.id not in markers:
            problems.append(f'{row.id}: part {row.part} is finished, but no test carries spec("{row.id}"): write one')
        if done and row.how == "–":
            problems.append(f"{row.id}: part {row.part} is finished: write `test`, `decision NNNN` or `not taken: …`")
        if row.how.startswith("decision") and not any(decisions.glob(f"{row.how[-4:]}-*.md")):
            problems.append(f"{row.id}: docs/decisions/{row.how[-4:]}-….md does not exist: write it or correct the row")
    return problems


def count_hows(rows: list[Row]) -> str:
    counts = Counter("not yet" if row.how == "–" else re.sub(r"( \d{4}|:.*)$", "", row.how) for row in rows)
    return ", ".join(f"{counts[how]} {how}" for how in ("test", "decision", "not taken", "not yet") if counts[how])


def summary(rows: list[Row], finished: set[int], markers: Markers) -> str:
    proven = sum(row.how == "test" and row.id in markers for row in rows)
    early = sum(row.how == "–" and row.id in markers for row in rows)
    parts = [f"part {part}: {count_hows([row for row in rows if row.part == part])}" for part in sorted(finished)]
    counted = f"{count_hows(rows)}; {proven} proven, {early} open with marks"
    return f"{len(rows)} requirements: {counted}; finished: {'; '.join(parts) or 'none'}"


def tests_of(row: Row, markers: Markers) -> list[str]:
    """The tests that carry the row's id, and a word where they prove nothing yet."""
    places = markers.get(row.id, [])
    if row.how == "–" and places:
        return ["(no proof yet)", *places]
    return ["(no test yet)"] if row.how == "test" and not places else places


def main(arguments: list[str] | None = None, home: Path = HOME) -> int:
    parser = argparse.ArgumentParser(description="Hold docs/requirements.md and the tests against each other.")
    parser.add_argument("--list", type=int, metavar="PART", help="show the ids of a part and the tests that prove them")
    part: int | None = parser.parse_args(arguments).list
    rows, finished, bad_rows = read_page((home / PAGE).read_text("utf-8"))
    markers, bad_marks = find_markers(home / "tests")
    for row in rows:
        if row.part == part:
            print(f"{row.id:8}{row.how:6}", *tests_of(row, markers))
    problems = bad_rows + bad_marks + check(rows, finished, markers, home / "docs/decisions")
    print(*problems, summary(rows, finished, markers), sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
