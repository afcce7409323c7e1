"""Control tokens: words of the model for the gateway.

They are read on a line of their own at either end, never shown.
"""

from typing import Final, Literal, cast, get_args

ControlToken = Literal["NO_REPLY", "SILENT_REPLY", "HEARTBEAT_OK", "NEED_INPUT", "ATTACH_DISCLAIMER", "ATTACH_QUOTE"]

_KNOWN: Final[frozenset[str]] = frozenset(get_args(ControlToken))


def extract_control(text: str) -> tuple[str, frozenset[ControlToken]]:
    """The text without its tokens, and the tokens. In the middle of a text they are just text."""
    lines = text.split("\n")
    heard: set[str] = set()
    start, end = 0, len(lines)
    while start < end and (not lines[start].strip() or control_token(lines[start])):
        heard.add(control_token(lines[start]) or "")
        start += 1
    while start < end and (not lines[end - 1].strip() or control_token(lines[end - 1])):
        end -= 1
        heard.add(control_token(lines[end]) or "")
    heard.discard("")
    if not heard:
        return text, frozenset()
    return "\n".join(lines[start:end]), frozenset(cast("set[ControlToken]", heard))


def control_token(line: str) -> str | None:
    """The token that this line is, if it is one and nothing else."""
    word = line.strip()
    name = word.removeprefix("<<").removesuffix(">>")
    return name if name in _KNOWN and word == f"<<{name}>>" else None
