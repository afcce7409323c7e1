"""One section of the system prompt, and which sections a mode has."""

from collections.abc import Mapping
from math import ceil
from typing import Final, Literal

from msgspec import Struct

from finclaw.agent.window.tokens import count_tokens
from finclaw.kernel.chunk import Vocabulary

PromptMode = Literal["full", "minimal", "none"]

CUSTOM: Final = "custom"
"""The operator's own words. They stand last, whatever their priority."""

_ALWAYS: Final = frozenset({"compliance", "risk-disclaimer", CUSTOM})
"""No mode leaves out the rules about other people's money, nor what the operator has written himself."""
_OURS: Final[Mapping[PromptMode, frozenset[str]]] = {
    "minimal": _ALWAYS | {"identity", "tools", "constraints"},
    "none": _ALWAYS,
}


class Section(Struct, frozen=True):
    """A section of the system prompt."""

    id: str
    title: str
    content: str
    priority: int = 0
    """Higher stands further up, and is left out later."""
    required: bool = False
    """No budget leaves it out."""
    from_extension: bool = False

    @property
    def text(self) -> str:
        return f"## {self.title}\n{self.content.strip()}"

    def token_estimate(self, vocabulary: Vocabulary = "o200k") -> int:
        return ceil(count_tokens(self.text, vocabulary))

    def belongs_to(self, mode: PromptMode) -> bool:
        """A smaller mode has few of our sections, and of an extension's only what it cannot do without."""
        if mode == "full":
            return True
        return self.required if self.from_extension else self.id in _OURS[mode]
