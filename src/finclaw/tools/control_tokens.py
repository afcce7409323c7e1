"""Control tokens, by which a model speaks to the gateway, and notes of ours, which come before those at the end."""

import re
from collections.abc import Sequence
from typing import Final, Literal, get_args

ControlToken = Literal["NO_REPLY", "SILENT_REPLY", "HEARTBEAT_OK", "NEED_INPUT", "ATTACH_DISCLAIMER", "ATTACH_QUOTE"]
"""Written `<<NO_REPLY>>`: the only spelling that counts."""

CONTROL_TOKENS: Final[tuple[ControlToken, ...]] = get_args(ControlToken)

_ANY: Final = rf"(?<!<)<{{2,}}+({'|'.join(CONTROL_TOKENS)})>{{2,}}+"


def neutralize_control_tokens(text: str) -> str:
    """The text with every token as `<NO_REPLY>`: a model that repeats what a person or a page says commands nothing.

    Doing it again changes nothing. The very same text where there is none, as nearly always.
    """
    if "<<" not in text:
        return text
    return re.sub(_ANY, r"<\1>", text)


_WHISPER: Final = re.compile("<<[A-Z_]+>>")
_FENCE: Final = re.compile(r"([ \t]{0,100})(`{3,}(?=[^`]*$)|~{3,})[ \t]*(.?)")


def with_last_line(text: str, line: str, *, begun: bool = False) -> str:
    """The line at the end of what is said, and before the control tokens there: those are heard at the very end only.

    Where nothing is said, nothing is added, unless all of it was sent before (`begun`). Code that nobody has closed is
    closed first: in it the line would be code.
    """
    if begun and not text.strip():
        return line
    lines = text.rstrip().split("\n")
    end = len(lines)
    while end and (not lines[end - 1].strip() or _WHISPER.fullmatch(lines[end - 1].strip())):
        end -= 1
    if end and (close := find_open_fence(lines[:end])):
        return "\n".join([*lines, close, "", line])  # a token in code is no token
    if not end:
        return text
    return "\n".join([*lines[:end], "", line, *lines[end:]])


def find_open_fence(lines: Sequence[str]) -> str:
    """The line that would close the code in which these lines end; empty where they end in none."""
    close = ""
    marks = ""
    for line in lines:
        if "```" not in line and "~~~" not in line:
            continue
        found = _FENCE.match(line)
        if found is None:
            continue
        if not close:
            marks = found[2]
            close = found[1] + marks
        elif found[2].startswith(marks) and not found[3]:
            close = ""
    return close
