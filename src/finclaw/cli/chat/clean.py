"""What may reach the terminal. A reply is a stranger's text: it must not move the cursor or repaint anything."""

import re
from typing import Final

import msgspec

_SEQUENCES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor, erasing
    r"|\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"  # OSC, DCS, SOS, PM, APC: titles, links, clipboards
    r"|\x1b[ -/]*[0-~]"  # two or three characters: charsets, resets
    r"|\x9b[0-?]*[ -/]*[@-~]"  # CSI again, as one C1 character
)
_BREAKS: Final = re.compile("\r\n|[\r\x0b\x0c\u0085\u2028\u2029]")
_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 and C1, but for tab and newline
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # marks that turn the direction, so that 100 could read 001
)
_UNESCAPED: Final = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_CONTROLS: Final = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """The text as it may be shown: newline and tab are the only controls left."""
    return _HIDDEN.sub("", _SEQUENCES.sub("", _BREAKS.sub("\n", text)))


def json_line(value: object) -> str:
    """JSON with nothing in its strings that a terminal obeys, for programs and for who looks over their shoulder."""
    return escape_json(msgspec.json.encode(value).decode())


def escape_json(text: str) -> str:
    """The same JSON, with what a terminal obeys escaped: JSON itself escapes C0 only."""
    return _UNESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def escape_controls(text: str) -> str:
    """One line in which controls are spelled out, for a path or a name, which must stay recognisable."""
    return _CONTROLS.sub(lambda found: repr(found[0])[1:-1], text)


def one_line(text: str, limit: int = 40) -> str:
    """A short form for a line of ours: cleaned, without line breaks, cut at the limit."""
    flat = " ".join(clean(text).split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"
