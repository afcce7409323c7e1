"""Reading and adding a skill's folder: what is hostile, hidden or too much is refused, and nothing leads out."""

import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finclaw.builtins.skills.folder import RECORD, Contents, read_folder, record_of
from finclaw.builtins.skills.skill import BadSkill, read_skill
from finclaw.builtins.skills.skill_directory import add, remove

NOW = datetime(2026, 11, 15, tzinfo=UTC)
GOOD = "---\nname: tax\ndescription: Taxes on dividends\n---\nAsk where they live.\n"
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"


def folder(path: Path, text: str = GOOD) -> Path:
    path.mkdir(parents=True)
    (path / "SKILL.md").write_text(text, encoding="utf-8")
    return path


def headed(*lines: str) -> str:
    return "\n".join(["---", *lines, "---", "Do it.\n"])


def test_a_skill_is_read() -> None:
    text = headed(
        "name: tax",
        "description: >-\n  Taxes on\n  dividends 배당세",
        "when: [dividend, 배당]",
        "tools: [market__quote]",
        "channels: [web]",
        "commands:\n  - {name: 세금, description: 세금 계산}\n  - {name: tax}",
        "license: MIT",
        "metadata: {author: ada, version: 1.0}",
    )
    skill = read_skill("tax", text)
    assert (skill.description, skill.text, skill.tools, skill.channels) == (
        "Taxes on dividends 배당세",
        "Do it.",
        ("market__quote",),
        ("web",),
    )
    assert [each.name for each in skill.commands] == ["세금", "tax"]
    assert skill.fits("배당금은?")
    assert not skill.fits("hello")


def test_line_ends_and_a_byte_order_mark_do_not_matter() -> None:
    assert read_skill("tax", "\ufeff" + GOOD.replace("\n", "\r\n")).text == "Ask where they live."


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("just words", "must begin with a line `---`"),
        ("---\nname: tax\ndescription: x\nno end", "must begin with a line `---`"),
        (headed("name: tax"), "missing required field `description`"),
        (headed("name: tax", "description: x", "comands: []"), "unknown field `comands`.*the fields are name"),
        (headed("name: tax", "description: ''"), "length >= 1"),
        (headed("name: tax", "description: " + "x" * 1_025), "length <= 1024"),
        (headed("name: tax", "description: on"), "Expected `str`, got `bool`"),
        (headed("name: tax", "description: x", "when: 3"), "Expected"),
        (headed("name: other", "description: x"), "'other' and its folder's 'tax'"),
        (headed("name: ../tax", "description: x"), "matching regex"),
        (headed("name: Tax", "description: x"), "matching regex"),
        (headed("name: 'tax\\nx'", "description: x"), "matching regex"),
        (headed("name: tax", "description: x", "commands: [{name: '../x'}]"), "matching regex"),
        (headed("name: tax", "description: x", "commands: [{name: 'a b'}]"), "matching regex"),
        (headed("- name"), "such as `name: dividends`"),
        (headed("name: tax", "description: x", "description: y", "x: ["), "not valid YAML"),
        (headed(BOMB), "anchors"),
        (headed("name: &n tax", "description: *n"), "anchors"),
        (headed("name: !!python/object/apply:os.system ['id']"), "tags"),
        (headed("name: !!str tax", "description: x"), "tags"),
        (headed("metadata: " + "[" * 1_500 + "]" * 1_500), "nested too deeply"),
        (headed("metadata: " + "{a: " * 700 + "}" * 700), "nested too deeply"),
        (headed("version: 2026-13-45", "name: tax", "description: x"), "cannot be read|not valid"),
        (headed("name: tax", "description: x", "#" * 4_100), "more than 4,000 characters"),
        ("---\nname: tax\ndescription: x\n---\n \n", "no instructions"),
        (GOOD + "\x00", r"U\+0000"),
        (GOOD + "\x1b[31mred", r"U\+001B"),
        (GOOD + "\u202eevil", r"U\+202E"),
        (GOOD + "\U000e0041\U000e0042", r"U\+E0041"),
        (GOOD + "\u200bhidden", r"U\+200B"),
    ],
)
def test_what_is_wrong_is_said(text: str, why: str) -> None:
    with pytest.raises(BadSkill, match=why):
        read_skill("tax", text)


@given(st.text(max_size=300))
def test_any_header_is_read_or_refused(header: str) -> None:
    with suppress(BadSkill):  # anything else would stop a gateway
        assert read_skill("tax", f"---\nname: tax\ndescription: x\n{header}\n---\nDo it.").name == "tax"


# ── folders ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_hash_is_of_names_and_contents_and_of_nothing_hidden(tmp_path: Path) -> None:
    source = folder(tmp_path / "tax")
    digest = read_folder(source).digest
    (source / ".git").mkdir()
    (source / ".git" / "config").write_text("x")
    (source / "__pycache__").mkdir()
    (source / "__pycache__" / "a.pyc").write_text("x")
    assert read_folder(source).digest == digest
    (source / "references").mkdir()
    (source / "references" / "rates.md").write_text("15.4%")
    assert (changed := read_folder(source).digest) != digest
    (source / "references" / "rates.md").rename(source / "rates.md")
    assert read_folder(source).digest not in (digest, changed)


FILES = st.dictionaries(st.text("ab/", min_size=1, max_size=4), st.binary(max_size=6), max_size=4)


@given(FILES, FILES)
def test_two_folders_have_one_hash_only_if_they_are_the_same(one: dict[str, bytes], other: dict[str, bytes]) -> None:
    assert (Contents(one).digest == Contents(other).digest) == (one == other)


def test_links_lead_nowhere(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key.txt").write_text("s3cret")
    for number, (name, target) in enumerate(
        [("SKILL.md", secret / "key.txt"), ("notes.md", secret / "key.txt"), ("more", secret), ("loop", Path())]
    ):
        source = folder(tmp_path / str(number) / "tax")
        (source / name).unlink(missing_ok=True)
        (source / name).symlink_to(target if target.parts else source)
        with pytest.raises(BadSkill, match="link"):
            read_folder(source)
        with pytest.raises(BadSkill, match="link"):
            add(source, tmp_path / "skills", NOW)
    link = tmp_path / "tax"
    link.symlink_to(folder(tmp_path / "real" / "tax"))
    with pytest.raises(BadSkill, match="links are not followed"):
        add(link, tmp_path / "skills", NOW)
    assert not (tmp_path / "skills").exists()


def test_pipes_and_odd_names_and_too_much_are_refused(tmp_path: Path) -> None:
    pipe = folder(tmp_path / "a" / "tax")
    os.mkfifo(pipe / "pipe")
    odd = folder(tmp_path / "b" / "tax")
    (odd / "x\ny.md").write_text("x")
    many = folder(tmp_path / "c" / "tax")
    for number in range(200):
        (many / f"{number}.md").write_text("x")
    large = folder(tmp_path / "d" / "tax")
    with (large / "large.bin").open("wb") as file:
        file.truncate(1 << 40)
    heavy = folder(tmp_path / "e" / "tax")
    for number in range(6):
        (heavy / f"{number}.bin").write_bytes(bytes(900_000))
    deep = folder(tmp_path / "f" / "tax")
    (deep / "/".join("x" * 10)).mkdir(parents=True)
    empty = tmp_path / "g" / "tax"
    empty.mkdir(parents=True)
    broken = folder(tmp_path / "h" / "tax")
    (broken / "SKILL.md").write_bytes(b"\xff\xfe")
    for source, why in (
        (pipe, "no plain file"),
        (odd, "characters that no name here has"),
        (many, "more than 200 files"),
        (large, "more than 1,000,000 bytes"),
        (heavy, "more than 5,000,000 bytes"),
        (deep, "nested more than 8 deep"),
        (empty, "no SKILL.md"),
        (broken, "not UTF-8"),
        (tmp_path / "nowhere", "no folder"),
    ):
        with pytest.raises(BadSkill, match=why):
            add(source, tmp_path / "skills", NOW)
    assert not (tmp_path / "skills").exists()


def test_adding_copies_and_never_overwrites_unasked(tmp_path: Path) -> None:
    source, shelf = folder(tmp_path / "anything"), tmp_path / "skills"
    (source / "references").mkdir()
    (source / "references" / "rates.md").write_text("15.4%")
    added = add(source, shelf, NOW)
    assert (shelf / "tax" / "references" / "rates.md").read_text() == "15.4%"
    record = record_of(shelf / "tax")
    assert record is not None
    assert (record.source, record.sha256, record.added_at) == (str(source), added.contents.digest, NOW)
    assert read_folder(shelf / "tax").digest == added.contents.digest
    (source / "SKILL.md").write_text(GOOD + "More.")
    with pytest.raises(BadSkill, match="--force"):
        add(source, shelf, NOW)
    assert "More." not in (shelf / "tax" / "SKILL.md").read_text()
    (source / "references" / "rates.md").unlink()
    assert add(source, shelf, NOW, force=True).replaced
    assert "More." in (shelf / "tax" / "SKILL.md").read_text()
    assert not (shelf / "tax" / "references" / "rates.md").exists()
    assert [each.name for each in shelf.iterdir()] == ["tax"], "nothing is left lying about"


def test_a_folder_that_is_replaced_by_force_may_be_a_link_and_its_target_stays(tmp_path: Path) -> None:
    shelf, elsewhere = tmp_path / "skills", folder(tmp_path / "elsewhere" / "tax")
    shelf.mkdir()
    (shelf / "tax").symlink_to(elsewhere)
    add(folder(tmp_path / "new" / "tax"), shelf, NOW, force=True)
    assert not (shelf / "tax").is_symlink()
    assert (elsewhere / "SKILL.md").exists()


@pytest.mark.parametrize("name", ["../tax", "/etc", ".", "..", "", "tax/..", "nothing", "tax\x00", ".added"])
def test_only_what_is_there_can_be_removed(tmp_path: Path, name: str) -> None:
    add(folder(tmp_path / "tax"), tmp_path / "skills", NOW)
    with pytest.raises(BadSkill, match="there is no skill"):
        remove(name, tmp_path / "skills", force=True)
    assert (tmp_path / "tax").exists()
    assert (tmp_path / "skills" / "tax").exists()


def test_what_was_put_there_by_hand_is_removed_by_force_only(tmp_path: Path) -> None:
    shelf = tmp_path / "skills"
    folder(shelf / "mine")
    (shelf / "linked").symlink_to(folder(tmp_path / "elsewhere"))
    for name in ("mine", "linked"):
        with pytest.raises(BadSkill, match="say --force"):
            remove(name, shelf)
        remove(name, shelf, force=True)
    assert list(shelf.iterdir()) == []
    assert (tmp_path / "elsewhere" / "SKILL.md").exists()


def test_a_record_that_is_none_counts_for_nothing(tmp_path: Path) -> None:
    for number, content in enumerate([b"", b"{}", b"[" * 9_000, b"x" * 20_000]):
        source = folder(tmp_path / str(number))
        (source / RECORD).write_bytes(content)
        assert record_of(source) is None


def test_a_disk_that_fails_half_way_leaves_what_was_there(tmp_path: Path) -> None:
    source, shelf = folder(tmp_path / "tax"), tmp_path / "skills"
    add(source, shelf, NOW)
    (source / "SKILL.md").write_text(GOOD + "More.")
    (shelf / f".new-tax-{os.getpid()}").write_text("in the way")
    with pytest.raises(OSError, match="exists"):
        add(source, shelf, NOW, force=True)
    assert "More." not in (shelf / "tax" / "SKILL.md").read_text()
