"""A regular expression that is compiled when it is first used: most commands end before they need most of them."""

import re
import sys
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Final, Protocol


class Find(Protocol):
    def __call__(self, text: str, start: int = 0, end: int = sys.maxsize, /) -> re.Match[str] | None: ...


class FindAll(Protocol):
    def __call__(self, text: str, start: int = 0, end: int = sys.maxsize, /) -> Iterator[re.Match[str]]: ...


class Split(Protocol):
    def __call__(self, text: str, /) -> list[str | Any]: ...


class Replace(Protocol):
    def __call__(self, by: str | Callable[[re.Match[str]], str], text: str, /) -> str: ...


class LazyPattern:
    """What `re.compile` gives, later. Each method is that of the compiled pattern from its first use on."""

    def __init__(self, pattern: str, flags: re.RegexFlag = re.NOFLAG) -> None:
        self.pattern: Final = pattern
        self._flags: Final = flags

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        return re.compile(self.pattern, self._flags)

    @cached_property
    def search(self) -> Find:
        return self.compiled.search

    @cached_property
    def match(self) -> Find:
        return self.compiled.match

    @cached_property
    def fullmatch(self) -> Find:
        return self.compiled.fullmatch

    @cached_property
    def finditer(self) -> FindAll:
        return self.compiled.finditer

    @cached_property
    def split(self) -> Split:
        return self.compiled.split

    @cached_property
    def sub(self) -> Replace:
        return self.compiled.sub
