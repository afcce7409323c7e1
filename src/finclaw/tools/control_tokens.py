"""Control tokens: words of the model for the gateway, such as `<<NO_REPLY>>`.

They are read on a line of their own at either end of its text and never shown. In the middle, in code, in a quotation
or among other words they are just text, and so is a token that nobody knows.
"""

import re
from collections.abc import Sequence
from typing import Final, Literal, cast, get_args

from msgspec import Struct

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


_LINE: Final = re.compile(r" {0,3}<<([A-Z_]{1,40})>>\s{0,60}")  # further in it would be code
_LONGEST_INDENT: Final = 3
_LONGEST_LINE: Final = 90
_LONGEST_NAME: Final = max(map(len, CONTROL_TOKENS))


class ExtractedTokens(Struct, frozen=True):
    """A text without its control tokens, and those, each once and in the order in which they stood."""

    clean_content: str
    tokens: tuple[ControlToken, ...] = ()
    start: int = 0  # where the clean content begins in the text

    def has(self, token: ControlToken) -> bool:
        return token in self.tokens


def is_silent(tokens: Sequence[str]) -> bool:
    """Whether the model wants nothing of its text to be sent."""
    return "NO_REPLY" in tokens or "SILENT_REPLY" in tokens


def extract_control_tokens(text: str, *, begun: bool = False) -> ExtractedTokens:
    """Split a text into the words and its tokens. `begun`: something stands before it, so it has an end only."""
    if "<<" not in text:
        return ExtractedTokens(text)
    lines = text.split("\n")
    start = 0
    end = len(lines)
    while not begun and start < end and _is_aside(lines[start]):
        start += 1
    while start < end and _is_aside(lines[end - 1]):
        end -= 1
    if _find_open_fence("\n".join(lines[start:end])):  # then what seems to be the end is code
        end = len(lines)
    tokens = list[ControlToken]()
    for line in (*lines[:start], *lines[end:]):
        token = _control_token(line)
        if token is not None and token not in tokens:
            tokens.append(token)
    if not tokens:
        return ExtractedTokens(text)
    return ExtractedTokens("\n".join(lines[start:end]), tuple(tokens), sum(len(line) + 1 for line in lines[:start]))


class ControlTokenStream:
    """The same for a text in pieces: a line that may become a token waits until the text behind it shows more."""

    def __init__(self) -> None:
        self.tokens: list[ControlToken] = []  # those before the first word
        self._begun = False
        self._aside: list[str] = []
        """Lines behind the last word that are blank, or tokens if nothing follows."""
        self._line = ""  # the beginning of one that may be a token
        self._within_line = False

    @property
    def held(self) -> int:
        """Characters that wait, because they are a token if nothing follows."""
        waiting = "".join((*self._aside[1:], self._line))
        return len(waiting) if waiting.strip() else 0

    def feed(self, piece: str) -> str:
        lines = (self._line + piece).split("\n")
        self._line = ""
        shown = [self._feed_line(line + "\n") for line in lines[:-1]]
        rest = lines[-1]
        if rest and (self._within_line or not _may_become_token(rest)):
            shown.append(self._feed_line(rest))
            self._within_line = True
        else:
            self._line = rest
        return "" if is_silent(self.tokens) else "".join(shown)

    def _feed_line(self, line: str) -> str:
        """A line with its end, or a part of one that is no token."""
        token = None
        if not self._within_line:
            token = _control_token(line)
        self._within_line = False
        if not line.strip() or token is not None:
            if self._begun:
                self._aside.append(line)
            elif token is not None:
                self.tokens.append(token)
            return ""
        if not self._begun:
            line = line.lstrip()
        body = line.rstrip()
        shown = "".join(self._aside) + body
        self._aside = [line[len(body) :]]
        self._begun = True
        return shown


def _is_aside(line: str) -> bool:
    return not line.strip() or _control_token(line) is not None


def _control_token(line: str) -> ControlToken | None:
    found = _LINE.fullmatch(line)
    if found is None or found[1] not in CONTROL_TOKENS:
        return None
    return cast("ControlToken", found[1])


def _may_become_token(line: str) -> bool:
    word = line.lstrip(" ")
    if len(line) > _LONGEST_LINE or len(line) - len(word) > _LONGEST_INDENT or word[:1].isspace():
        return False
    word = word[: _LONGEST_NAME + 5].rstrip()
    return any(f"<<{token}>>".startswith(word) for token in CONTROL_TOKENS)


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
    if close := _find_open_fence("\n".join(lines[:end])):
        return "\n".join([*lines, close, "", line])  # a token in code is no token
    if not end:
        return text
    return "\n".join([*lines[:end], "", line, *lines[end:]])


def _find_open_fence(text: str) -> str:
    """The line that would close the code in which a text ends; empty where it ends in none."""
    close = ""
    marks = ""
    if "```" not in text and "~~~" not in text:
        return close
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if found is None:
            continue
        if not close:
            marks = found[2]
            close = found[1] + marks
        elif found[2].startswith(marks) and not found[3]:
            close = ""
    return close
