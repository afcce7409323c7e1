"""The pure model of a power cut: what is certain, what may be there, and what can never be."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.platter import SECTOR, CutMode, Op, Platter

F = "/d/file"
CREATED = (Op("open", F, created=True), Op("sync_dir", "/d"))
MODES: tuple[CutMode, ...] = ("drop", "prefix", "torn")


def write(data: bytes, offset: int = 0) -> Op:
    return Op("write", F, offset, data)


def truncate(size: int) -> Op:
    return Op("truncate", F, size)


SYNC = Op("sync", F)


@pytest.mark.parametrize("mode", MODES)
def test_what_was_synced_is_there(mode: CutMode):
    platter = Platter([*CREATED, write(b"hello"), SYNC])
    assert all(platter.cut(mode, Random(seed)) == {F: b"hello"} for seed in range(20))


def test_drop_takes_everything_unsynced():
    platter = Platter([*CREATED, write(b"hello"), SYNC, write(b"J"), truncate(2)])
    assert platter.cut("drop", Random(0)) == {F: b"hello"}


def test_prefix_keeps_the_order():
    platter = Platter([*CREATED, write(b"a"), write(b"b", 1), truncate(1), write(b"c", 1)])
    images = {platter.cut("prefix", Random(seed))[F] for seed in range(200)}
    assert images == {b"", b"a", b"ab", b"ac"}


def test_torn_keeps_any_sectors_of_any_write():
    platter = Platter([*CREATED, write(b"x" * SECTOR * 2), SYNC, write(b"y" * SECTOR * 2)])
    images = {platter.cut("torn", Random(seed))[F] for seed in range(200)}
    assert images == {(a + b).encode() for a in ("x" * SECTOR, "y" * SECTOR) for b in ("x" * SECTOR, "y" * SECTOR)}


def test_a_sector_is_never_torn():
    platter = Platter([*CREATED, write(b"y" * 100, 500)])
    images = {platter.cut("torn", Random(seed))[F] for seed in range(200)}
    hole = bytes(500)
    assert images == {b"", hole + b"y" * 12, hole + b"y" * 100, bytes(512) + b"y" * 88}


def test_what_a_failed_sync_left_stays_in_doubt_for_ever():
    platter = Platter([*CREATED, write(b"old"), SYNC, write(b"new"), Op("sync_failed", F), SYNC])
    assert platter.cut("drop", Random(0)) == {F: b"old"}
    assert {platter.cut("torn", Random(seed))[F] for seed in range(50)} == {b"old", b"new"}


def test_what_is_written_over_a_doubt_and_synced_is_certain():
    platter = Platter([*CREATED, write(b"doubt"), Op("sync_failed", F), write(b"sure"), SYNC])
    assert {platter.cut("torn", Random(seed))[F] for seed in range(50)} == {b"sure", b"suret"}


def test_a_new_name_needs_its_directory():
    platter = Platter([Op("open", F, created=True), write(b"hello"), SYNC])
    assert platter.cut("drop", Random(0)) == {}
    images = {platter.cut("torn", Random(seed)).get(F) for seed in range(50)}
    assert images == {None, b"hello"}


def test_a_deleted_name_may_come_back_until_its_directory_is_synced():
    ops = [*CREATED, write(b"hello"), SYNC, Op("delete", F)]
    assert Platter(ops).cut("drop", Random(0)) == {F: b"hello"}
    assert {bool(Platter(ops).cut("torn", Random(seed))) for seed in range(50)} == {True, False}
    assert Platter([*ops, Op("sync_dir", "/d")]).cut("drop", Random(0)) == {}


def test_a_file_made_anew_under_an_old_name_is_another_file():
    ops = [*CREATED, write(b"old"), SYNC, Op("delete", F), Op("open", F, created=True), write(b"new"), SYNC]
    assert Platter(ops).cut("drop", Random(0)) == {F: b"old"}
    assert {Platter(ops).cut("torn", Random(seed)).get(F) for seed in range(100)} == {None, b"old", b"new"}


def test_a_file_from_before_is_certain():
    assert Platter([Op("open", F, data=b"was here"), write(b"X")]).cut("drop", Random(0)) == {F: b"was here"}


def test_writing_to_a_file_without_a_name_changes_nothing():
    assert Platter([*CREATED, Op("delete", F), Op("sync_dir", "/d"), write(b"x"), SYNC]).cut("torn", Random(0)) == {}


writes = st.lists(
    st.one_of(
        st.builds(write, st.binary(max_size=1200), st.integers(0, 1200)),
        st.builds(truncate, st.integers(0, 1500)),
        st.just(SYNC),
    ),
    max_size=12,
)


@given(writes, st.sampled_from(MODES), st.integers())
def test_after_a_sync_there_is_one_truth(ops: list[Op], mode: CutMode, seed: int):
    certain = Platter([*CREATED, *ops, SYNC]).cut("drop", Random(0))
    assert Platter([*CREATED, *ops, SYNC]).cut(mode, Random(seed)) == certain


@given(writes, st.integers())
def test_a_prefix_is_an_image_the_file_once_had(ops: list[Op], seed: int):
    all_ops = [*CREATED, *ops]
    once = [Platter([*all_ops[:n], SYNC]).cut("drop", Random(0)) for n in range(2, len(all_ops) + 1)]
    assert Platter(all_ops).cut("prefix", Random(seed)) in once
