"""Control tokens: the model's whispers to the gateway. Heard on a line of their own at either end, never shown."""

from typing import Final, Literal, cast, get_args

ControlToken = Literal["NO_REPLY", "SILENT_REPLY", "HEARTBEAT_OK", "NEED_INPUT", "ATTACH_DISCLAIMER", "ATTACH_QUOTE"]

_KNOWN: Final[frozenset[str]] = frozenset(get_args(ControlToken))


def extract_control(text: str) -> tuple[str, frozenset[ControlToken]]:
    """The text without its tokens, and the tokens. In the middle of a text they are just text."""
    lines = text.split("\n")
    heard: set[str] = set()
    while lines and (not lines[0].strip() or control_token(lines[0])):
        heard.add(control_token(lines.pop(0)) or "")
    while lines and (not lines[-1].strip() or control_token(lines[-1])):
        heard.add(control_token(lines.pop()) or "")
    heard.discard("")
    if not heard:
        return text, frozenset()
    return "\n".join(lines), frozenset(cast("set[ControlToken]", heard))


def control_token(line: str) -> str | None:
    """The token that this line is, if it is one and nothing else."""
    word = line.strip()
    name = word.removeprefix("<<").removesuffix(">>")
    return name if name in _KNOWN and word == f"<<{name}>>" else None
