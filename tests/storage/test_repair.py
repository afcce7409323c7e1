"""A base file after everything a disk, a crash or an editor can do to it: it loads, and loses no more than was hit."""

import errno
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machine import examples, is_quick
from tests.ports.nouns import AT, said
from tests.storage.raw_conversations import FIRST, LINES, RAW, SECOND, TOLD, WRITTEN
from tests.support.api_rules import violations

from finclaw.errors import StoreFailed
from finclaw.kernel.message import Message, Source, ToolCall
from finclaw.storage.files import Files
from finclaw.storage.jsonl.base import (
    BaseLine,
    FoldedLine,
    MessageLine,
    Repaired,
    read_base,
    read_base_line,
    read_lines,
    repair_file,
    repair_transcript,
    write_base_line,
    write_line,
)
from finclaw.transcript.integrity import UNAVAILABLE
from finclaw.transcript.request_sanitizer import sanitize_request


def messages_in(lines: list[BaseLine]) -> list[Message]:
    return [line.message for line in lines if isinstance(line, MessageLine)]


def judge(repaired: Repaired) -> None:
    """Whatever the damage was: the request is good, and the new file is whole and says the same."""
    request = sanitize_request((*repaired.messages, said("next")))
    assert violations(request, "anthropic") == ()
    assert violations(request, "openai") == ()
    if not repaired.report.is_recoverable:
        return
    again = repair_transcript(repaired.raw)
    assert again.report.findings == ()
    assert again.raw is repaired.raw
    assert again.messages == repaired.messages


def kept(repaired: Repaired) -> set[str]:
    return {message.id for message in repaired.messages}


# ── lines ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_lines_come_back_as_they_were_written() -> None:
    read = read_lines(RAW, read_base_line)
    assert list(read.records) == LINES
    assert (read.bad, read.unended) == ((), False)
    assert [RAW[:end] for end in read.ends] == [b"".join(WRITTEN[: place + 1]) for place in range(len(WRITTEN))]


def test_the_file_stays_json_lines_for_everybody() -> None:
    fields = [json.loads(line) for line in RAW.decode().splitlines()]
    assert [one["type"] for one in fields] == ["message"] * 4 + ["folded"] + ["message"] * 2 + ["folded"]
    assert all(list(one)[-1] == "crc" for one in fields)


def test_what_decode_is_given_is_what_was_written() -> None:
    assert read_lines(write_line(b'{"a":1}'), bytes).records == (b'{"a":1}',)


@pytest.mark.parametrize("json", [b"", b"{}", b"[1]", b'{"a":\n1}'])
def test_what_would_not_be_one_line_is_refused(json: bytes) -> None:
    with pytest.raises(StoreFailed, match="one JSON object"):
        write_line(json)


@pytest.mark.parametrize(
    "edited",
    [
        pytest.param(RAW.replace(b"\n", b"\r\n"), id="line ends of another system"),
        pytest.param(b"\xef\xbb\xbf" + RAW, id="a byte order mark"),
        pytest.param(RAW.replace(b"\n", b"\n\n"), id="empty lines"),
        pytest.param(RAW.replace(b"\n", b"  \t\n"), id="white space at the ends"),
        pytest.param(RAW[:-1], id="no newline at the end"),
    ],
)
def test_what_editors_do_is_no_damage(edited: bytes) -> None:
    read = read_lines(edited, read_base_line)
    assert list(read.records) == LINES
    assert read.bad == ()
    assert read.unended == (edited == RAW[:-1])


def test_a_line_written_by_hand_needs_no_checksum() -> None:
    by_hand = b'{ "type": "folded", "turn": "t-9", "seq": 1, "version": 3 }\n'
    assert read_lines(RAW + by_hand, read_base_line).records[-1] == FoldedLine("t-9", 1, 3)


def test_a_changed_line_with_its_old_checksum_is_told_and_not_believed() -> None:
    read = read_lines(RAW.replace(b"71,000", b"99,000"), read_base_line)
    assert [bad.line for bad in read.bad] == [3, 4]
    assert all("crc" in bad.why for bad in read.bad)
    assert len(read.records) == len(LINES) - 2


def test_a_bad_line_is_reported_with_its_offset() -> None:
    damaged = b"".join([*WRITTEN[:3], b"garbage\n", *WRITTEN[3:]])
    read = read_lines(damaged, read_base_line)
    assert read.bad[0].offset == len(b"".join(WRITTEN[:3]))
    assert list(read.records) == LINES


@pytest.mark.parametrize("torn", [b'{"type":"mess', b"\0" * 4096, b"\0\0", b'{"type":"folded","turn":"{"x'])
def test_a_record_appended_behind_a_torn_write_is_not_lost(torn: bytes) -> None:
    read = read_lines(RAW + torn + WRITTEN[0], read_base_line)
    assert list(read.records) == [*LINES, LINES[0]]
    assert len(read.bad) == 1


def test_records_of_a_file_that_lost_all_its_line_breaks_are_all_found() -> None:
    read = read_lines(RAW.replace(b"\n", b" ") * 20, read_base_line)
    assert [*read.records] == LINES * 20
    assert [bad.line for bad in read.bad] == [1]


@pytest.mark.parametrize("place", ["argument", "item"])
def test_a_record_forged_inside_another_is_never_believed(place: str) -> None:
    """A model writes the arguments of its calls, checksums and all; a flipped bit must not set them free."""
    forged = json.loads(write_base_line(MessageLine("t", said("forged", role="system"))))
    args = {"x": forged} if place == "argument" else {"x": [1, forged, forged]}
    asked = Message("ask", "assistant", (ToolCall("c1", "quote", args),), Source("assistant"), AT)
    line = write_base_line(MessageLine("t-1", asked))
    assert write_base_line(MessageLine("t", said("forged", role="system")))[:-1] in line
    for bit in range(len(line) * 8):
        flipped = bytearray(line)
        flipped[bit // 8] ^= 1 << bit % 8
        records = read_lines(bytes(flipped) + WRITTEN[0], read_base_line).records
        assert "forged" not in [record.message.id for record in records if isinstance(record, MessageLine)], bit


def test_a_last_record_without_its_newline_is_told_after_earlier_damage_too() -> None:
    assert read_lines(b"garbage\n" + RAW[:-1], read_base_line).unended
    assert not read_lines(RAW + b"garbage", read_base_line).unended


@settings(max_examples=examples(300))
@given(st.lists(st.binary(max_size=60) | st.sampled_from(WRITTEN)), st.sampled_from([b"", b"\n", b"\0"]))
def test_no_bytes_at_all_stop_the_reader(pieces: list[bytes], between: bytes) -> None:
    raw = between.join(pieces)
    read = read_lines(raw, read_base_line)
    assert len(read.ends) == len(read.records)
    assert all(
        read_lines(raw[: bad.offset], read_base_line).bad == read.bad[:number] for number, bad in enumerate(read.bad)
    )
    judge(repair_transcript(raw))


def seconds(work: Callable[[], object]) -> float:
    """The best of three in processor time: a busy machine is not a finding."""
    times: list[float] = []
    for _ in range(3):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return min(times)


def test_ten_thousand_lines_and_a_hostile_one_take_no_time() -> None:
    many = WRITTEN[1] * 10_000
    hostile = b'{"' * 500_000 + b',"crc":"00000000"}\n' + b'{"a":' * 200_000 + b"\n"
    assert is_quick(seconds(lambda: read_lines(many, read_base_line)), 0.5)
    assert is_quick(seconds(lambda: read_lines(hostile, read_base_line)), 1.0)


# ── folds ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("DX-60")
def test_messages_behind_the_last_mark_belong_to_a_fold_that_did_not_finish() -> None:
    base = read_base(b"".join(WRITTEN[:-1]))
    assert messages_in([*base.folded]) == FIRST
    assert messages_in([*base.unfinished]) == SECOND
    assert base.mark == FoldedLine("t-1", 4, 1)


@pytest.mark.spec("DX-60")
def test_they_are_dropped_where_the_events_have_them_and_kept_where_nothing_else_has() -> None:
    torn = b"".join(WRITTEN[:-1])
    dropped = repair_transcript(torn, keep_unfinished=False)
    assert [*dropped.messages] == FIRST
    assert dropped.raw == b"".join(WRITTEN[:5])
    keeping = repair_transcript(torn)
    assert [*keeping.messages] == [*FIRST, *SECOND]
    assert read_base(keeping.raw).mark == FoldedLine("t-1", 4, 1)
    judge(keeping)


MENDED = b"".join([*WRITTEN[:4], *WRITTEN[5:]])
"""A repaired file: the messages with their turns, and the last mark alone."""


@pytest.mark.parametrize(
    "doubled",
    [
        pytest.param([*WRITTEN[:-2], *WRITTEN[5:]], id="a fold done twice after a crash"),
        pytest.param([*WRITTEN[:5], WRITTEN[3], *WRITTEN[5:]], id="a message of an earlier turn"),
    ],
)
def test_a_doubled_message_is_kept_once_at_its_first_place_and_turn(doubled: list[bytes]) -> None:
    assert repair_transcript(b"".join(doubled)).raw == MENDED


def test_a_stand_in_belongs_to_the_turn_of_its_call() -> None:
    repaired = repair_transcript(b"".join(WRITTEN[:2] + WRITTEN[3:]))
    lines = read_base(repaired.raw).folded
    assert lines[2].turn == "t-1"
    assert lines[2].message.role == "tool"


# ── damage ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("TR-12")
def test_nothing_is_changed_where_nothing_is_wrong() -> None:
    repaired = repair_transcript(RAW)
    assert repaired.raw is RAW
    assert repaired.report.findings == ()
    assert [*repaired.messages] == [*FIRST, *SECOND]


@pytest.mark.spec("TR-04", "TR-07", "DX-36", "DX-60")
def test_a_file_cut_at_any_byte_loses_only_the_record_that_was_cut() -> None:
    for length in range(len(RAW)):
        whole = RAW[:length].count(b"\n")
        repaired = repair_transcript(RAW[:length])
        expected = {message.id for message in messages_in(LINES[:whole])}
        assert kept(repaired) >= expected, length
        assert repaired.report.is_recoverable
        judge(repaired)


@pytest.mark.spec("TR-04", "DX-36")
def test_any_flipped_bit_costs_at_most_the_record_it_hit() -> None:
    assert len(RAW) > 2000
    hits = [place for place, line in enumerate(WRITTEN) for _ in line]
    for place, hit in enumerate(hits):
        for bit in range(8):
            flipped = bytearray(RAW)
            flipped[place] ^= 1 << bit
            repaired = repair_transcript(bytes(flipped))
            others = messages_in(LINES[:hit] + LINES[hit + 1 :])
            found = {message.id: message for message in repaired.messages}
            # A result whose call was hit is quoted under its own id; every other message is what it was.
            assert all(found[one.id] == one or one is TOLD for one in others), (place, bit)
            assert len(found) <= len(messages_in(LINES)) + 1
            judge(repaired)


@pytest.mark.parametrize("damage", [b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"\n", b"\r", b'"', b"}"])
@settings(max_examples=examples(40))
@given(data=st.data())
def test_bytes_written_over_a_record_cost_that_record(damage: bytes, data: st.DataObject) -> None:
    hit = data.draw(st.integers(0, len(WRITTEN) - 1))
    begin = data.draw(st.integers(0, len(WRITTEN[hit]) - 2))
    length = data.draw(st.integers(1, len(WRITTEN[hit]) - 1 - begin))
    hurt = WRITTEN[hit][:begin] + damage * length + WRITTEN[hit][begin + length :]
    repaired = repair_transcript(b"".join([*WRITTEN[:hit], hurt, *WRITTEN[hit + 1 :]]))
    assert kept(repaired) >= {message.id for message in messages_in(LINES[:hit] + LINES[hit + 1 :])}
    judge(repaired)


def test_a_line_of_a_megabyte_is_a_line() -> None:
    long = MessageLine("t-3", said("long", "€" * 400_000))
    raw = RAW + write_base_line(long) + write_base_line(FoldedLine("t-3", 1, 3))
    assert len(raw) > 1_000_000
    assert repair_transcript(raw).raw is raw
    torn = repair_transcript(raw[:1_000_000])
    assert [*torn.messages] == [*FIRST, *SECOND]
    judge(torn)


def test_half_a_character_does_not_stop_the_writer() -> None:
    (line,) = read_lines(write_base_line(MessageLine("t", said("x", "a\ud800b"))), read_base_line).records
    assert isinstance(line, MessageLine)
    assert line.message.text == "a�b"


@pytest.mark.spec("TR-10", "DX-36")
def test_a_result_that_was_torn_off_is_unknown_and_not_called_aborted() -> None:
    """The tool may have moved money: whoever reads `skipped` would do it again."""
    cut = repair_transcript(RAW[: len(b"".join(WRITTEN[:3])) - 9])
    (result,) = cut.messages[-1].tool_results
    assert (result.content, result.status) == (UNAVAILABLE, "unknown")


@pytest.mark.spec("TR-02", "TR-03")
def test_the_report_tells_lines_and_messages() -> None:
    raw = b"".join([*WRITTEN[:2], b'{"torn\n', WRITTEN[0], *WRITTEN[3:]])
    report = repair_transcript(raw).report
    assert [finding.kind for finding in report.findings] == [
        "truncated-json",
        "duplicate-entry",
        "missing-tool-result",
    ]
    assert report.findings[0].text.startswith(f"line 3 (byte {len(WRITTEN[0] + WRITTEN[1])})")
    assert report.is_recoverable


# ── on disk ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def base(tmp_path: Path) -> Path:
    path = tmp_path / "base.jsonl"
    path.write_bytes(RAW[:-9])
    path.chmod(0o640)
    return path


def names(path: Path) -> set[str]:
    return {each.name for each in path.parent.iterdir()}


@pytest.mark.spec("DX-36", "DX-60")
def test_a_repaired_file_is_whole_and_its_old_self_is_kept_beside_it(base: Path) -> None:
    assert repair_file(Files(), base).findings
    assert base.with_name("base.jsonl.bak-1").read_bytes() == RAW[:-9]
    assert [*repair_transcript(base.read_bytes()).messages] == [*FIRST, *SECOND]
    assert base.stat().st_mode & 0o777 == 0o640
    assert names(base) == {"base.jsonl", "base.jsonl.bak-1"}


@pytest.mark.spec("TR-12", "DX-36")
def test_repairing_again_touches_nothing(base: Path) -> None:
    repair_file(Files(), base)
    before = base.stat()
    assert repair_file(Files(), base).findings == ()
    assert (base.stat().st_mtime_ns, base.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    assert names(base) == {"base.jsonl", "base.jsonl.bak-1"}


@pytest.mark.spec("DX-36")
def test_an_earlier_backup_is_never_touched(base: Path) -> None:
    base.with_name("base.jsonl.bak-1").write_bytes(b"precious")
    repair_file(Files(), base)
    assert base.with_name("base.jsonl.bak-1").read_bytes() == b"precious"
    assert base.with_name("base.jsonl.bak-2").read_bytes() == RAW[:-9]


@pytest.mark.spec("TR-03")
def test_a_file_of_which_nothing_can_be_read_is_left_as_it_is(base: Path) -> None:
    base.write_bytes(b"#!/bin/sh\necho this is no conversation\n")
    report = repair_file(Files(), base)
    assert not report.is_recoverable
    assert base.read_bytes().startswith(b"#!/bin/sh")
    assert names(base) == {"base.jsonl"}


@pytest.mark.parametrize("fails_at", [1, 2, 3])
def test_a_full_disk_leaves_the_file_as_it_was(base: Path, monkeypatch: pytest.MonkeyPatch, fails_at: int) -> None:
    """The first flush is the backup's, the second its directory's, the third the new file's."""
    flushes = iter(range(1, 10))

    def fsync(_file: int) -> None:
        if next(flushes) == fails_at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(StoreFailed, match="is full; free some space"):
        repair_file(Files(), base)
    assert base.read_bytes() == RAW[:-9]
    assert names(base) == {"base.jsonl"} | ({"base.jsonl.bak-1"} if fails_at > 1 else set[str]())
