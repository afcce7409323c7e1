#!/usr/bin/env python3
"""Draw docs/terminal.svg: a first look at FinClaw, from the real output of real commands.

    .venv/bin/python scripts/terminal_svg.py [FILE]

It starts a gateway on an empty state and a free port, talks to it at a terminal of its own, and draws what came back,
cell by cell: a Hangul letter takes two cells whatever font shows it. The port, the process number, the token and the
place of the state are written as a first user has them; only what the clock, the disk and the versions decide differs
between two runs. No font and no image is fetched by whoever looks at the picture.
"""

import fcntl
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unicodedata
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[1]
FINCLAW = Path(sys.executable).parent / "finclaw"
COLUMNS = 104
CELL, LINE, MARGIN, BAR = 8.4, 20, 20, 34
COLOURS = {"": "#d7dae0", "2": "#8b919d", "31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "prompt": "#79c0ff"}
COLOURS |= {"1": "#ffffff", "22": "#d7dae0"}  # bold, and its end
HOME = "~/.finclaw"

Run = tuple[str, str]
"""Some text, and its colour."""


def main() -> None:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "terminal.svg"
    with tempfile.TemporaryDirectory() as folder:
        lines = list(_walk(Path(folder) / "state"))
    target.write_text(draw(lines), encoding="utf-8")
    print(f"{target}: {len(lines)} lines")


# ── the walk ────────────────────────────────────────────────────────────────────────────────────────────


def _walk(state: Path) -> Iterator[list[Run]]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("FINCLAW_")}
    environ |= {"FINCLAW_HOME": str(state), "TERM": "xterm", "PATH": f"{FINCLAW.parent}:{environ.get('PATH', '')}"}
    with tempfile.TemporaryFile() as said:
        gateway = subprocess.Popen(
            [FINCLAW, "serve", "--port", "0"], stdout=said, stderr=subprocess.DEVNULL, env=environ
        )
        try:
            yield from _shown("finclaw serve &", _without_token(_greeting(gateway, said)), state)
            for typed in (
                'finclaw ask "What is AAPL trading at?"',
                'finclaw ask "삼성전자 현재 주가 알려줘"',
                'finclaw ask --json "How much is Tesla?"',
                "finclaw status",
                "finclaw doctor",
            ):
                yield from _shown(typed, _at_a_terminal(typed, environ), state)
        finally:
            gateway.terminate()
            gateway.wait(20)


def _greeting(gateway: subprocess.Popen[bytes], said: IO[bytes]) -> str:
    """All that it says when it has started; the last line tells how to stop it."""
    give_up = time.monotonic() + 30
    while True:
        told = os.pread(said.fileno(), 65_536, 0).decode(errors="ignore")  # its place in the file is the gateway's too
        if "Ctrl-C" in told:
            return told
        if gateway.poll() is not None or time.monotonic() > give_up:
            raise SystemExit("the gateway did not start; try: finclaw serve --port 0")
        time.sleep(0.02)


def _at_a_terminal(typed: str, environ: dict[str, str]) -> str:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    process = subprocess.Popen(
        [shutil.which("sh") or "sh", "-c", typed], stdin=theirs, stdout=theirs, stderr=theirs, env=environ
    )
    os.close(theirs)
    told = b""
    try:
        while piece := os.read(ours, 65_536):
            told += piece
    except OSError:  # how Linux says that the other end of a terminal is closed
        pass
    os.close(ours)
    if process.wait(60) != 0:
        raise SystemExit(f"{typed} failed: {told.decode(errors='replace')}")
    return _redrawn(told.decode().replace("\r\n", "\n"))


def _redrawn(output: str) -> str:
    """What stays on the screen: an answer is drawn again, over itself, while it grows."""
    lines = [""]
    row = 0
    for piece in re.split(r"([\n\r]|\x1b\[\d*[AKJ])", output):
        if piece in ("\n", "\r"):
            row += piece == "\n"
            lines[row : row + 1] = [""]
        elif piece.endswith("A") and piece.startswith("\x1b"):
            row = max(0, row - int(piece[2:-1] or 1))
            lines[row] = ""
        elif piece == "\x1b[J":
            del lines[row + 1 :]
        elif piece != "\x1b[K":
            lines[row] += piece
    return "\n".join(lines)


def _without_token(text: str) -> str:
    return re.sub(r"(token   )\S+", r"\1" + "•" * 43, text)


def _shown(typed: str, output: str, state: Path) -> Iterator[list[Run]]:
    if typed.startswith("finclaw ask --json"):
        output = _shortened(output)
    yield [("$ ", COLOURS["prompt"]), (typed, COLOURS[""])]
    text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:8787", output.replace(str(state), HOME))
    text = re.sub(r"(port +)\d+,", r"\g<1>8787,", text)
    text = re.sub(r"\bprocess \d+", "process 4242", text)
    for line in text.rstrip("\n").split("\n"):
        yield from _wrapped(list(_runs(line)))
    yield []


def _shortened(output: str) -> str:
    """The same object on a few lines, the long parts cut."""
    told = json.loads(output[output.index("{") :])  # behind the line that is shown while it waits
    parts = {name: told[name] for name in ("outcome", "reply", "tools", "facts", "cost", "duration_ms")}
    lines = [f"  {json.dumps(name)}: {json.dumps(part, ensure_ascii=False)}," for name, part in parts.items()]
    cut = [line if _width(line) <= COLUMNS else line[: COLUMNS - 2] + "…" for line in lines]
    return "\n".join(("{", *cut, "  …", "}"))


# ── the picture ─────────────────────────────────────────────────────────────────────────────────────────


def _runs(line: str) -> Iterator[Run]:
    colour = ""
    for piece in re.split(r"(\x1b\[\d*m)", line):
        if piece.startswith("\x1b["):
            colour = piece[2:-1].removeprefix("0")
        elif piece:
            yield piece, COLOURS[colour]


def _cells(piece: str) -> int:
    """Of a letter, or of a piece of letters of one width."""
    return 2 if unicodedata.east_asian_width(piece[0]) in "WF" else 1


def _width(text: str) -> int:
    return sum(map(_cells, text))


def _wrapped(runs: list[Run]) -> Iterator[list[Run]]:
    """Broken at words, and continued a little to the right."""
    line: list[Run] = []
    used = 0
    for text, colour in runs:
        for word in re.findall(r"\s+|\S+", text):
            if used + _width(word) > COLUMNS and used:
                yield line
                line, used = [("  ", colour)], 2
                if word.isspace():
                    continue
            line.append((word, colour))
            used += _width(word)
    yield line


def draw(lines: list[list[Run]]) -> str:
    while lines and not lines[-1]:
        lines.pop()
    width = round(COLUMNS * CELL + 2 * MARGIN)
    height = BAR + len(lines) * LINE + MARGIN
    dots = "".join(
        f'<circle cx="{22 + 20 * at}" cy="18" r="6" fill="{colour}"/>'
        for at, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    rows = "\n".join(row for at, line in enumerate(lines) if line for row in _row(line, BAR + (at + 1) * LINE - 4))
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">
<title>A terminal: finclaw serve, ask in English and Korean, status, doctor</title>
<style>text {{ font: 14px ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', 'Noto Sans Mono CJK KR', \
'NanumGothicCoding', monospace; white-space: pre }} .w {{ font-size: 16px; text-anchor: middle }}</style>
<rect width="{width}" height="{height}" rx="10" fill="#15181e"/>
{dots}
{rows}
</svg>
"""


def _row(line: list[Run], y: int) -> Iterator[str]:
    """One element for each stretch of narrow letters, held to its cells; a wide letter stands alone in its two."""
    at = 0
    for text, colour in _merged(line):
        for part in _pieces(text):
            for piece in re.findall(r" +|[^ ]+(?: [^ ]+)*", part):  # viewers drop a space at the edge of an element
                cells = _width(piece)
                if not piece.isspace():
                    yield f'<text {_place(at, cells, piece)} y="{y}" fill="{colour}">{escape(piece)}</text>'
                at += cells


def _place(at: int, cells: int, piece: str) -> str:
    left = MARGIN + at * CELL
    if _cells(piece) == 2:
        return f'class="w" x="{left + CELL:.1f}"'
    return f'x="{left:.1f}" textLength="{cells * CELL:.1f}"'


def _merged(line: list[Run]) -> Iterator[Run]:
    text, colour = "", ""
    for piece, its in line:
        if its != colour and text:
            yield text, colour
            text = ""
        text, colour = text + piece, its
    if text:
        yield text, colour


def _pieces(text: str) -> Iterator[str]:
    """Wide letters one by one, and what is between them."""
    piece = ""
    for letter in text:
        if _cells(letter) == 1:
            piece += letter
            continue
        if piece:
            yield piece
        yield letter
        piece = ""
    if piece:
        yield piece


if __name__ == "__main__":
    main()
