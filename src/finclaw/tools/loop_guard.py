"""A loop guard against a model that repeats itself: the same call with the same result in one turn.

Each call has a count of its own, so it does not matter what is called in between: A B A B A is three times A. Five
quotes for five tickers are five calls, and a poll whose result changes begins anew with every change. Results are
hashed, never kept.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any, Final, Literal

from msgspec import Struct

WARN_AT: Final = 3
REFUSE_AT: Final = 5
END_AT: Final = 8

LoopAction = Literal["run", "warn", "refuse", "end"]


class LoopVerdict(Struct, frozen=True):
    """`repeats` counts this call too. `words` are for the model: behind the result, or in its place."""

    action: LoopAction
    repeats: int
    words: str = ""

    @property
    def runs(self) -> bool:
        return self.action in ("run", "warn")

    def with_warning(self, result_text: str) -> str:
        """The result of a call that ran, with the warning behind it if there is one."""
        if self.action != "warn":
            return result_text
        return f"{result_text}\n\n{self.words}"


class _Repeats(Struct):
    in_flight: int = 0
    same: int = 0  # ended since the result last changed, refused ones included
    result: bytes | None = None


class LoopGuard:
    """`judge` every call of a turn before it runs, and `note` its result, also a refused one's."""

    def __init__(self) -> None:
        self._history: defaultdict[bytes, _Repeats] = defaultdict(_Repeats)
        self._judged: tuple[str, Mapping[str, Any], _Repeats] | None = None
        """The last one: mostly its result is noted next."""

    @classmethod
    def from_history(cls, calls: Iterable[tuple[str, Mapping[str, Any], str]]) -> "LoopGuard":
        """As a crash left it: name, arguments and result text of each call that has a result, in the log's order."""
        guard = cls()
        for name, args, result_text in calls:
            guard.note(name, args, result_text)
        return guard

    def judge(self, name: str, args: Mapping[str, Any]) -> LoopVerdict:
        """Counts the launch itself: a model may ask for one thing eight times at once, before any result is known."""
        repeats = self._history[_digest(name, _canonical(args))]
        self._judged = (name, args, repeats)
        repeats.in_flight += 1
        return _verdict(name, repeats.same + repeats.in_flight)

    def note(self, name: str, args: Mapping[str, Any], result_text: str) -> None:
        """A warning behind the result is not part of it, and a refusal is one more repeat that brought nothing new."""
        judged = self._judged
        self._judged = None
        if judged is not None and judged[1] is args and judged[0] == name:
            repeats = judged[2]
        else:
            repeats = self._history[_digest(name, _canonical(args))]
        repeats.in_flight = max(0, repeats.in_flight - 1)
        if result_text.startswith(_refusal(name)):
            repeats.same += 1
            return
        result = _digest(without_warning(name, result_text))
        if repeats.result not in (None, result):
            repeats.same = 0
        repeats.same += 1
        repeats.result = result


def _verdict(name: str, repeats: int) -> LoopVerdict:
    if repeats < WARN_AT:
        return LoopVerdict("run", repeats)
    if repeats < REFUSE_AT:
        return LoopVerdict("warn", repeats, _warning(name, repeats))
    again = f"{_refusal(name)} {repeats} times with the same arguments, and nothing new has come of it."
    if repeats < END_AT:
        return LoopVerdict("refuse", repeats, f"{again} {_INSTEAD}")
    return LoopVerdict("end", repeats, f"{again} This turn ends here.")


_AS_THEY_ARE: Final = (str, int, bool, type(None))
_INSTEAD: Final = "Do not ask for it again: answer with what you have, or change the arguments."
_WARNING_END: Final = f"{_INSTEAD}]"


def _warning(name: str, repeats: int) -> str:
    times = f"{_format_name(name)} was called {repeats} times with the same arguments"
    return f"[Loop guard: {times}, and until this call nothing new had come of it. {_WARNING_END}"


def _refusal(name: str) -> str:
    """How every refusal begins. A tool whose own result begins so can only be refused the sooner."""
    return f"[Loop guard] Not run: {_format_name(name)} was asked for"


def without_warning(name: str, result_text: str) -> str:
    if not result_text.endswith(_WARNING_END):
        return result_text
    for repeats in range(WARN_AT, REFUSE_AT):
        result_text = result_text.removesuffix(f"\n\n{_warning(name, repeats)}")
    return result_text


def _format_name(name: str) -> str:
    """The model wrote the name, and it may be no tool's: what the result guard would change is left out at once."""
    if not name.isprintable():
        name = "".join(character for character in name if character.isprintable())
    return name[:64]


def _canonical(args: Mapping[str, Any]) -> str:
    """Key order does not matter, and 1 is 1.0, for JSON has one kind of number."""
    try:
        if not all(type(each) in _AS_THEY_ARE for each in args.values()):
            args = json.loads(json.dumps(args, default=repr), parse_float=_number)
        return json.dumps(args, sort_keys=True)
    except (RecursionError, TypeError, ValueError):  # nested a thousand deep, or a layer's idea of arguments
        return "what cannot be compared is taken for equal"


def _number(text: str) -> float:
    number = float(text)
    return int(number) if number.is_integer() else number


def _digest(*parts: str) -> bytes:
    return blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=16).digest()
