"""Caps on sizes and names. What breaks one today is listed in `size_exceptions.py`, and the lists only shrink."""

import pytest
from tests.house import size_exceptions, sizes

MOST_EXCEPTED = 100
"""Entries of one list, so that nobody takes it for a place to add to."""

RULES = {
    "CRUMBS": "a module under 40 lines whose only importer is a sibling is part of that sibling: merge the two",
    "DOUBLED_CLASSES": "a public class name is used once: name the thing after what it is a kind of",
    "INNER_IMPORTS": "an import inside a function is for an optional dependency or a start-up figure: "
    "move it to the top, or say beside it what fails (`# noqa: PLC0415  start-up: ...`)",
    "SHARED_TEST_MODULES": "helpers that two test modules share live in a helper module: "
    "move them out of the module whose name begins with `test_`",
}


@pytest.mark.parametrize("name", sizes.CAPS)
def test_cap(name: str) -> None:
    found, excepted = sizes.CAPS[name](), getattr(size_exceptions, name)
    new, settled = sorted(found - excepted), sorted(excepted - found)
    assert not new, f"{RULES[name]}:\n  " + "\n  ".join(new)
    assert not settled, "no longer needed, so take it out of tests/house/size_exceptions.py:\n  " + "\n  ".join(settled)
    assert len(excepted) <= MOST_EXCEPTED


def test_every_list_of_exceptions_has_a_rule() -> None:
    lists = {name for name in vars(size_exceptions) if name.isupper()}
    assert lists == set(sizes.CAPS) == set(RULES)
