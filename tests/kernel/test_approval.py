"""What an approval is bound to: a hash of exactly what will run, and an id that cannot be guessed or misread."""

import json
import unicodedata
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finclaw.errors import InvalidArguments
from finclaw.ids import identity
from finclaw.transcript.approval_ids import action_hash, canonical_args, new_approval_id, read_approval_id

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
ARGS = st.dictionaries(st.text(), VALUES, max_size=5)


@pytest.mark.spec("DX-22")
@given(ARGS)
def test_the_hash_outlives_a_round_trip_and_another_order(args: dict[str, Any]) -> None:
    read = json.loads(canonical_args(args))
    backwards = dict(reversed(list(args.items())))
    assert action_hash("t", read) == action_hash("t", args) == action_hash("t", backwards)


@pytest.mark.spec("DX-22")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"n": 1}, {"n": 1.0}),
        ({"n": 1}, {"n": True}),
        ({"n": 0.0}, {"n": -0.0}),
        ({"n": 10**30}, {"n": 10**30 + 1}),
        ({"n": 10**30}, {"n": 1e30}),
        ({"n": "1"}, {"n": 1}),
        ({"n": None}, {}),
        ({"n": []}, {"n": {}}),
        ({"n": "삼성"}, {"n": unicodedata.normalize("NFD", "삼성")}),
        ({"n": "AAPL"}, {"n": "\u0410APL"}),
        ({"n": "a"}, {"n": "a\u200b"}),
        ({"n": "a"}, {"N": "a"}),
        ({"a": "b,c"}, {"a": "b", "c": ""}),
        ({"a": [1, [2]]}, {"a": [[1], 2]}),
    ],
)
def test_what_is_not_the_same_has_another_hash(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert action_hash("t", one) != action_hash("t", other)


def test_the_tool_is_part_of_it() -> None:
    assert action_hash("buy", {"a": 1}) != action_hash("sell", {"a": 1})


def _nested(depth: int) -> dict[str, Any]:
    args: dict[str, Any] = {}
    for _ in range(depth):
        args = {"a": args}
    return args


@pytest.mark.spec("DX-22")
@pytest.mark.parametrize(
    "args",
    [  # what is nested deeper than anybody reads is among them
        {"n": Decimal("1.10")},
        {"n": float("nan")},
        {"n": float("inf")},
        {"n": {1: "a"}},
        {"n": {True: "a"}},
        {"n": (1, 2)},
        {"n": "\ud800"},
        {"n": b"bytes"},
        {"n": {1, 2}},
        _nested(64),
        _nested(100_000),
        {"n": [_nested(62)]},
        {"n": 10**5_000},
    ],
    ids=[
        "decimal",
        "nan",
        "inf",
        "key",
        "true-key",
        "tuple",
        "half",
        "bytes",
        "set",
        "deep",
        "deeper",
        "mixed",
        "huge",
    ],
)
def test_what_would_come_back_as_something_else_cannot_be_asked_for(args: dict[str, Any]) -> None:
    with pytest.raises(InvalidArguments):
        action_hash("t", args)


def test_what_can_still_be_read_is_not_too_deep() -> None:
    assert json.loads(canonical_args(_nested(63))) == _nested(63)


def test_ids_are_whole_random_and_readable() -> None:
    ids = {new_approval_id() for _ in range(2_000)}
    assert len(ids) == 2_000
    assert all(len(each) == 29 and each.startswith("ap-") and not set(each[3:]) & set("ilou") for each in ids)
    assert all(read_approval_id(each) == each for each in ids)
    assert len({each[3:16] for each in ids}) == len({each[16:] for each in ids}) == 2_000


ID = "ap-" + "01" * 13


@pytest.mark.parametrize("typed", [ID, ID.upper(), "AP-" + "OI" * 13, "Ap-" + "ol" * 13, "ap-" + "oL" * 13])
def test_an_id_may_be_typed_as_it_looks(typed: str) -> None:
    assert read_approval_id(typed) == ID


@pytest.mark.spec("DX-22")
@pytest.mark.parametrize(
    "typed",
    [
        "",
        "ap-",
        ID[:-1],
        ID + "0",
        ID[3:],
        f"{ID}\n",
        f" {ID}",
        ID.replace("0", "\u0660"),
        ID.replace("0", "\uff10"),
        ID.replace("0", "\u041e"),
        ID.replace("-", "\u2010"),
        ID.replace("p", "\u0440"),
        ID[:10] + "\u200b" + ID[10:],
        ID[:10] + "\u3164" + ID[11:],
        ID[:10] + "-" + ID[10:],
        ID[:-1] + "u",
        ID[:-1] + "*",
        "ap-8" + ID[4:],
        f"{ID},{ID}",
        ID.replace("1", "\u0131"),
    ],
)
def test_nothing_else_is_an_id(typed: str) -> None:
    assert read_approval_id(typed) is None


@given(st.text(), st.text(), st.text(), st.text(), st.text(), st.text())
def test_two_doors_never_make_one_identity(a: str, b: str, c: str, d: str, e: str, f: str) -> None:
    assert (identity(a, b, c) == identity(d, e, f)) == ((a, b, c) == (d, e, f))


def test_an_identity_is_written_as_it_is_read() -> None:
    assert identity("telegram", "bot1", "12345") == "telegram:bot1:12345"
    assert identity("matrix", "@bot:example", "@mina:example") == "matrix:@bot%3Aexample:@mina:example"
