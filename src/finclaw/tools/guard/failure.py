"""What a failed tool may say: the message, never the way through our files."""

import re
from typing import Final

_LINE: Final = re.compile(r"(\r?\n|\\n)")
_HEADING: Final = re.compile(
    r"\s*+(?:\+ )?(?:Exception Group )?"
    r"(?:Traceback \(most recent call last\):|Stack ?trace:|goroutine \d+ \[[\w ,]++\]:|stack backtrace:)\s*+$"
    r"|\s*+(?:During handling of the above exception, another|The above exception was the direct cause of)",
    re.IGNORECASE,
)
_FRAME: Final = re.compile(
    r"\s*+\|?\s*+File \"[^\"]*+\", line \d"  # Python
    r"|\s++at (?:.*[(:]|[\w.$<>]++$)"  # JavaScript, Java, C#
    r"|\s*+\.\.\. \d++ more|\s*+\S{1,300}\.(?:go|rs|c|cc|cpp|rb):\d"  # Java, Go, Rust, C, Ruby
)


def without_traceback(text: str) -> str:
    """The text with its stack traces taken out; what an error said about itself stays."""
    kept, in_frame = list[str](), False
    pieces = _LINE.split(text)
    for line, end in zip(pieces[::2], [*pieces[1::2], ""], strict=True):
        frame = line != "" and _FRAME.match(line) is not None
        heading = line != "" and _HEADING.match(line) is not None
        shown_code = in_frame and line[:2] in ("  ", "| ") and not frame
        in_frame = frame or shown_code
        if not (frame or heading or shown_code):
            kept.append(line + end)
    return "".join(kept).strip("\n") if len(kept) * 2 < len(pieces) + 1 else text
