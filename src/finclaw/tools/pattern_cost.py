r"""The size of a regular expression's automaton, estimated without compiling it: `\d{4}` has four states.

Compiling takes time by the number of states, and matching by states times characters.
"""

import re
from typing import Final

_TOKEN: Final = re.compile(
    r"\\[pP](?:\{[^}]*\}|.)|\\.|\[\^?\]?(?:\\.|[^\]\\])*+(?:\]|\\?\Z)|\{\d+(?:,\d*)?\}|\((?:\?(?:[:=!>]|<[=!]|[a-zA-Z-]+[:)]))?|.",
    re.DOTALL,
)
_COUNT: Final = re.compile(r"\{(\d{1,9})\d*(?:,(\d{0,9})\d*)?\}")
_UNICODE_CLASS: Final = 400
"""States of a class such as `\\p{L}`: thousands of ranges of characters."""
_WIDE_CLASS: Final = 10
"""States of a class of characters of one to four bytes, such as `.`, `\\S` and `[^a]`."""
_WIDE: Final = ("\\S", "\\D", "\\W", "\\s", "\\u", "\\x")
MOST_STATES: Final = 1_000_000
"""Where counting ends."""


_RETRYING: Final = re.compile(r"\(\?[=!<>]|\\[1-9k]|[*+?}]\+")


def may_retry(pattern: str) -> bool:
    """Whether a matcher may have to try it again and again: it looks ahead or back, or refers to what it found."""
    return _RETRYING.search(pattern) is not None


def count_states(pattern: str) -> int:
    """An upper estimate, `MOST_STATES` at most."""
    outer: list[int] = []
    group = last = 0
    for token in _TOKEN.findall(pattern):
        if token.startswith("(") and not token.endswith(")"):
            outer.append(group)
            group = last = 0
        elif token == ")" and outer:
            last = group + 1
            group = outer.pop() + last
        elif count := _COUNT.fullmatch(token):
            times = max(int(count[1]), int(count[2] or 0)) - 1
            more = max(times, 0) * last
            group, last = group + more, last + more
        else:
            last = _size_of_atom(token)
            group += last
        group, last = min(group, MOST_STATES), min(last, MOST_STATES)
    return min(group + sum(outer) + 1, MOST_STATES)


def _size_of_atom(token: str) -> int:
    if "\\p" in token or "\\P" in token:
        return _UNICODE_CLASS * (token.count("\\p") + token.count("\\P"))
    is_wide = token == "." or token in _WIDE or token.startswith("[^") or not token.isascii()
    has_wide = token.startswith("[") and any(each in token for each in _WIDE)
    return _WIDE_CLASS if is_wide or has_wide else 1
