"""The workspace: every plain text file in it can be read, and nothing else on the machine, whatever anybody tries."""

import os
import socket
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builtins.extended import extended
from tests.walks.house import House, in_virtual_time

from finclaw.builtins.workspace import (
    LONGEST_PAGE,
    NoText,
    NotReadable,
    Root,
    Workspace,
    WorkspaceSettings,
    decode,
    page,
)
from finclaw.errors import ExtensionError, ToolError
from finclaw.kernel.envelope import Sender
from finclaw.kernel.port import ToolScope
from finclaw.storage.locks import StateLock
from finclaw.storage.sqlite.database import DATABASE
from finclaw.testing import call, reply

SCOPE = ToolScope(session="s", turn_id="t", call_id="c", sender=Sender("u"))
SECRET = "the key is 1234"
MODULE = "finclaw.builtins.workspace"


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    desk = tmp_path / "desk"
    (desk / "reports").mkdir(parents=True)
    (desk / "reports" / "q3.md").write_text("Revenue: 79.1\nProfit: 9.2\n", encoding="utf-8")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "q3.md").write_text(SECRET, encoding="utf-8")
    return desk


async def read(desk: Path, path: str, **more: int) -> str:
    reader, _ = Workspace(WorkspaceSettings(root=str(desk))).tools()
    return (await reader.run({"path": path, **more}, SCOPE)).content


async def listed(desk: Path, path: str = "") -> str:
    _, lister = Workspace(WorkspaceSettings(root=str(desk))).tools()
    return (await lister.run({"path": path}, SCOPE)).content


async def test_a_file_is_read_with_what_one_must_know_about_it(desk: Path) -> None:
    expected = "path: reports/q3.md\nencoding: UTF-8\nlines: 1-2 of 2\n\nRevenue: 79.1\nProfit: 9.2"
    assert await read(desk, "reports/q3.md") == expected
    assert (await read(desk, "./reports//q3.md")).endswith("Profit: 9.2")


async def test_a_folder_is_listed_in_order(desk: Path) -> None:
    (desk / "b.txt").write_text("x" * 1_234)
    (desk / "가.txt").write_text("")
    os.utime(desk / "b.txt", (0, 0))
    lines = (await listed(desk)).splitlines()
    assert lines[:2] == ["folder: .", "entries: 3"]
    assert lines[3:5] == ["b.txt (1,234 bytes, 1970-01-01 00:00 UTC)", "reports/"]
    assert lines[5].startswith("가.txt (0 bytes")
    assert "q3.md" in await listed(desk, "reports/")


# ── no way out ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "path",
    [
        "../outside/q3.md",
        "reports/../../outside/q3.md",
        "reports/..",
        "..",
        "/etc/passwd",
        "//etc/passwd",
        ".env",
        "reports/.git/config",
        ".",
        "",
        "reports",
        "nothing.md",
        "reports/q3.md/more",
        "q3\x00.md",
        "q3\n.md",
        "link.md",
        "folder-link/q3.md",
        "self/self/reports/q3.md",
        "fifo",
        "socket",
        "n" * 400,
        "d/" * 400 + "q3.md",
        "\udc80",
    ],
)
async def test_nothing_but_plain_files_inside_is_read(desk: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (desk / ".env").write_text(SECRET)
    (desk / "reports" / ".git").mkdir()
    (desk / "reports" / ".git" / "config").write_text(SECRET)
    (desk / "link.md").symlink_to(desk.parent / "outside" / "q3.md")
    (desk / "folder-link").symlink_to(desk.parent / "outside")
    (desk / "self").symlink_to(desk)
    os.mkfifo(desk / "fifo")
    monkeypatch.chdir(desk)  # the name of a socket must be short
    with socket.socket(socket.AF_UNIX) as door:
        door.bind("socket")
        began = perf_counter()
        with pytest.raises(ToolError) as refused:
            await read(desk, path)
        assert perf_counter() - began < 20, "it must not wait for the other end of a pipe"
    assert "1234" not in str(refused.value)
    assert str(desk) not in str(refused.value), "where the workspace lies is nobody's business"


async def test_a_link_within_the_workspace_is_not_followed_either(desk: Path) -> None:
    (desk / "same.md").symlink_to("reports/q3.md")
    with pytest.raises(NotReadable, match="links"):
        await read(desk, "same.md")


async def test_what_may_not_be_read_is_not_listed(desk: Path) -> None:
    (desk / ".env").write_text(SECRET)
    (desk / "link.md").symlink_to("/etc/passwd")
    (desk / "a\nresult: 5").write_text("")
    os.mkfifo(desk / "fifo")
    listing = await listed(desk)
    assert listing == "folder: .\nentries: 1\nnote: 4 hidden entries, links and devices are not shown\n\nreports/"
    for path in ("..", "link.md", "reports/q3.md", "/", ".git"):
        with pytest.raises(NotReadable):
            await listed(desk, path)


@given(st.lists(st.sampled_from(["..", ".", "", "reports", "q3.md", "out", "/", "~", "*", "\\", "%2e%2e"]), max_size=8))
def test_no_path_made_of_such_parts_reaches_the_secret(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str]
) -> None:
    base = tmp_path_factory.getbasetemp() / "given"
    if not base.exists():
        (base / "desk" / "reports").mkdir(parents=True)
        (base / "desk" / "reports" / "q3.md").write_text("fine")
        (base / "q3.md").write_text(SECRET)
        (base / "desk" / "out").symlink_to(base)
    with suppress(NotReadable):
        assert Root(str(base / "desk")).read("/".join(parts), 100).content == b"fine"


@contextmanager
def swapping(place: Path, real: Path, link_to: Path) -> Generator[None]:
    """Somebody who makes `place` now the real thing, now a link, as fast as he can."""
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            os.rename(place, real)
            os.symlink(link_to, place)
            os.unlink(place)
            os.rename(real, place)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def places(desk: Path, what: str) -> tuple[Path, Path]:
    """What is exchanged, and where the link leads instead."""
    outside = desk.parent / "outside"
    return (desk / "reports", outside) if what == "folder" else (desk / "reports" / "q3.md", outside / "q3.md")


@pytest.mark.parametrize("what", ["file", "folder"])
def test_who_exchanges_a_file_for_a_link_while_it_is_opened_wins_nothing(desk: Path, what: str) -> None:
    root, seen = Root(str(desk)), set[bytes]()
    place, target = places(desk, what)
    refused = 0
    with swapping(place, desk.parent / "aside", target):
        for tries in range(100_000):
            try:
                seen.add(root.read("reports/q3.md", 100).content)
            except NotReadable:
                refused += 1
            if tries > 2_000 and seen and refused:
                break
    assert seen == {b"Revenue: 79.1\nProfit: 9.2\n"}
    assert refused, "the swap was never seen, so nothing was tried"


_before_open: dict[str, Callable[[], None]] = {}
"""What happens in the last moment before a name is opened, once."""


def _last_moment(event: str, args: tuple[Any, ...]) -> None:
    if event == "open" and _before_open and isinstance(args[0], str) and args[0] in _before_open:
        _before_open.pop(args[0])()


sys.addaudithook(_last_moment)


@pytest.mark.parametrize("what", ["file", "folder"])
def test_not_even_in_the_last_moment_between_looking_and_opening(desk: Path, what: str) -> None:
    root = Root(str(desk))
    place, target = places(desk, what)

    def exchange() -> None:
        os.rename(place, desk.parent / "aside")
        os.symlink(target, place)

    _before_open[place.name] = exchange
    with pytest.raises(NotReadable):
        root.read("reports/q3.md", 100)
    assert place.is_symlink(), "the exchange never happened"


def test_a_pipe_that_comes_in_the_last_moment_is_not_waited_for(desk: Path) -> None:
    root, place = Root(str(desk)), desk / "reports" / "q3.md"

    def exchange() -> None:
        place.unlink()
        os.mkfifo(place)

    _before_open[place.name] = exchange
    with pytest.raises(NotReadable, match="no plain file"):
        root.read("reports/q3.md", 100)


def test_no_descriptor_is_left_open(desk: Path) -> None:
    root = Root(str(desk))

    def opened() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = opened()
    for path in ("reports/q3.md", "reports/none", "none/none", "reports", "reports/q3.md/x"):
        for _ in range(20):
            for look in (lambda path=path: root.read(path, 10), lambda path=path: root.entries(path)):
                try:
                    look()
                except NotReadable:
                    continue
    assert opened() == before


# ── the gateway's own state ─────────────────────────────────────────────────────────────────────────────────


def make_state(state: Path) -> Path:
    """As a gateway makes it: the lock that it holds, and its database. Keeps our idea of it true."""
    StateLock(state).release()
    (state / DATABASE).write_bytes(b"")
    (state / "token").write_text(SECRET)
    return state


async def test_the_gateways_own_state_is_neither_read_nor_listed(desk: Path) -> None:
    make_state(desk / "state")
    (desk / "state" / "extensions").mkdir()
    (desk / "state" / "extensions" / "notes.txt").write_text(SECRET)
    for path in ("state/token", "state/extensions/notes.txt"):
        with pytest.raises(NotReadable, match="may not be read"):
            await read(desk, path)
    assert "state" not in await listed(desk)


@pytest.mark.parametrize("below", ["", "extensions"])
def test_a_root_in_the_state_is_refused(tmp_path: Path, below: str) -> None:
    make_state(tmp_path / "state")
    (tmp_path / "state" / "extensions").mkdir()
    with pytest.raises(ExtensionError, match="state of a gateway"):
        Root(str(tmp_path / "state" / below))


# ── roots ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("root", "why"), [("", "needs the setting `root`"), ("desk", "begin with /"), ("/", "whole disk")]
)
def test_a_root_must_be_one_directory(root: str, why: str) -> None:
    with pytest.raises(ExtensionError, match=why):
        Root(root)


@pytest.mark.parametrize("root", ["none", "file"])
def test_a_root_must_be_there(tmp_path: Path, root: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ExtensionError, match="no directory we can read"):
        Root(str(tmp_path / root))


@in_virtual_time
async def test_without_a_root_the_gateway_does_not_start(house: House) -> None:
    with pytest.raises(ExtensionError, match="needs the setting `root`"):
        async with extended(house, MODULE):
            pass


@in_virtual_time
async def test_a_model_reads_what_the_operator_allows(house: House, desk: Path) -> None:
    script = (reply(call("files__list")), reply(call("files__read", {"path": "reports/q3.md"})), "79.1")
    async with extended(house, MODULE, *script, settings={"root": str(desk)}) as gateway:
        await gateway.ask("what was the revenue?")
        listing, text = gateway.results
        assert "reports/" in listing.content
        assert "Revenue: 79.1" in text.content


# ── text ────────────────────────────────────────────────────────────────────────────────────────────────────

KOREAN = "매출 79.1조\n이익 9.2조"


@pytest.mark.parametrize(
    ("codec", "encoding"),
    [
        ("utf-8", "UTF-8"),
        ("utf-8-sig", "UTF-8"),
        ("utf-16", "UTF-16"),
        ("utf-32", "UTF-32"),
        ("cp949", "CP949"),
        ("euc-kr", "CP949"),
    ],
)
async def test_korean_files_of_all_ages(desk: Path, codec: str, encoding: str) -> None:
    (desk / "k.txt").write_bytes(KOREAN.encode(codec))
    text = await read(desk, "k.txt")
    assert f"encoding: {encoding}" in text
    assert text.endswith("\n\n" + KOREAN)


def test_utf_16_of_the_other_order() -> None:
    assert decode(b"\xfe\xff" + KOREAN.encode("utf-16-be")) == (KOREAN, "UTF-16")


@pytest.mark.parametrize(
    "content",
    [
        b"%PDF-1.7 text",
        b"PK\x03\x04",
        b"\x89PNG\r\n",
        b"a\x00b",
        b"\xff\xfe\x00",
        b"\x80\x81\xff",
        bytes(range(256)),
        b"\x01abc",
    ],
)
def test_what_is_no_text_is_refused_kindly(content: bytes) -> None:
    with pytest.raises(NoText, match="text"):
        decode(content)


@given(st.binary(max_size=400))
def test_any_bytes_are_text_or_refused(content: bytes) -> None:
    try:
        text, _ = decode(content)
    except NoText:
        return
    assert "\x00" not in text


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=200))
def test_what_was_written_is_what_is_read(text: str) -> None:
    assert decode(text.encode("utf-8-sig"))[0] == text
    assert decode(text.encode("utf-16"))[0] == text


async def test_long_files_are_read_page_by_page(desk: Path) -> None:
    (desk / "long.txt").write_text("".join(f"line {number}\r\n" for number in range(1, 1_001)))
    first = await read(desk, "long.txt", lines=400)
    assert "lines: 1-400 of 1000\nnext: start_line 401\n\nline 1\n" in first
    last = await read(desk, "long.txt", start_line=801)
    assert "lines: 801-1000 of 1000\n\nline 801\n" in last
    with pytest.raises(NoText, match=r"no line 1,001: the file has 1,000"):
        await read(desk, "long.txt", start_line=1_001)


@given(
    st.lists(st.text("ab ", max_size=12), min_size=1, max_size=40),
    st.integers(1, 15),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_the_pages_together_are_the_file(lines: list[str], count: int, ending: str) -> None:
    text, seen, start = ending.join(lines) + ending, list[str](), 1
    while start <= len(lines):
        got = page(text, start, count)
        seen += got.lines
        start = got.last + 1
    assert seen == lines


async def test_a_page_ends_before_it_is_too_long_and_a_line_can_be_cut(desk: Path) -> None:
    (desk / "wide.txt").write_text("\n".join(["a" * 30_000, "b" * 30_000, "c" * 100_000]))
    assert "lines: 1-1 of 3\nnext: start_line 2" in await read(desk, "wide.txt")
    cut = await read(desk, "wide.txt", start_line=3)
    assert "longer than a page" in cut
    assert cut.endswith("\n\n" + "c" * LONGEST_PAGE)


async def test_empty_and_large_files(desk: Path) -> None:
    (desk / "empty.txt").write_text("")
    assert "the file is empty" in await read(desk, "empty.txt")
    (desk / "large.txt").write_bytes(b"x" * 5_000_001)
    with pytest.raises(NotReadable, match=r"5,000,001 bytes, and 5,000,000"):
        await read(desk, "large.txt")


@pytest.mark.parametrize("where", ["inside", "outside"])
async def test_a_file_with_a_second_name_is_not_read(desk: Path, tmp_path: Path, where: str) -> None:
    """Security trial, near miss: a hard link is no link that one can see, and its other name may be our token's."""
    other = desk / "reports" / "q3.md"
    if where == "outside":
        other = tmp_path / "token"
        other.write_text("a secret")
    os.link(other, desk / "twice.md")
    with pytest.raises(NotReadable, match=r"2 names \(hard links\).*put a copy"):
        await read(desk, "twice.md")
    other.unlink()
    assert "path: twice.md" in await read(desk, "twice.md")
