"""Text that attacks a terminal, and a question that is answered with it."""

import asyncio
import re
from pathlib import Path

from tests.cli.terminal import Ended, finclaw

HOSTILE = {
    "clipboard": "\x1b]52;c;ZXZpbA==\x07",
    "clipboard, ended by ST": "\x1b]52;c;ZXZpbA==\x1b\\",
    "link": "\x1b]8;;https://evil.example/\x1b\\bank\x1b]8;;\x1b\\",
    "clear": "\x1b[2J\x1b[H",
    "clear as C1": "\x9b2J",
    "clipboard as C1": "\x9d52;c;ZXZpbA==\x9c",
    "right to left": "\u202e001\u202c",
    "isolate": "\u2066001\u2069",
    "title": "\x1b]0;owned\x07",
    "never closed": "\x1b]52;c;ZXZpbA==",
    "carriage return": "100\r200",
}
CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


async def asked(state: Path, *args: str) -> Ended:
    return await asyncio.to_thread(lambda: finclaw("ask", *args, "--state", state))
