"""The last line of a reply: a note of ours, before the control tokens, which are heard at the very end only."""

import re
from typing import Final

_WHISPER: Final = re.compile("<<[A-Z_]+>>")


def with_last_line(text: str, line: str) -> str:
    """The line at the end of what is said, and before the control tokens there: those are heard at the very end only.

    Where nothing is said, nothing is added.
    """
    lines = text.rstrip().split("\n")
    end = len(lines)
    while end and (not lines[end - 1].strip() or _WHISPER.fullmatch(lines[end - 1].strip())):
        end -= 1
    said = "\n".join(lines[:end])
    return "\n".join([said, "", line, *lines[end:]]) if said else text
