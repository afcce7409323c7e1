"""The tour against the code: one real message passes every file of its table, and the table is short."""

import re
import sys
import threading
from pathlib import Path
from types import FrameType

from finclaw import Inbound, Settings, build

ROOT = Path(__file__).parents[2]
MOST_FILES, MOST_LINES = 20, 4_000
"""What a new reader has to open to follow one message."""


def tour_files() -> list[str]:
    page = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
    return re.findall(r"^\| +\d+ \| `(src/[^`]+)` \|", page, re.MULTILINE)


async def called_files(state: Path) -> set[str]:
    """The files whose functions were called for one message, in any thread."""
    called: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            called.add(frame.f_code.co_filename)

    threading.setprofile(note)  # of threads that start from now on: the store's writer is one
    try:
        async with build(Settings(state=state)) as app:
            called.clear()
            sys.setprofile(note)
            outcome = await app.handle(Inbound(text="삼성전자 현재 주가 알려줘"))
            await app.idle()
            sys.setprofile(None)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert outcome.kind == "answered", outcome
    return {str(Path(name).relative_to(ROOT)) for name in called if name.startswith(str(ROOT / "src"))}


async def test_a_message_passes_the_files_of_the_tour(tmp_path: Path) -> None:
    called, named = await called_files(tmp_path), tour_files()
    assert len(named) == 12
    assert [path for path in named if path not in called] == [], "no message passes these: name others in docs/tour.md"


def test_the_tour_is_short() -> None:
    named = tour_files()
    assert 0 < len(named) <= MOST_FILES
    lines = sum((ROOT / path).read_text(encoding="utf-8").count("\n") for path in named)
    assert lines <= MOST_LINES, f"the files of docs/tour.md have {lines:,} lines, at most {MOST_LINES:,}"
