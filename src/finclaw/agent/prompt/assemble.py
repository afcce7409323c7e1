"""Assembly of the prompt within a token budget: optional sections go, lowest priority first; required ones stay."""

from collections.abc import Callable, Iterable

from msgspec import Struct

from finclaw.agent.prompt.section import CUSTOM, PromptMode, Section


class Prompt(Struct, frozen=True, kw_only=True):
    """An assembled prompt. `tokens` is above the budget only where the required sections alone are."""

    text: str
    tokens: int
    sections: tuple[Section, ...]
    left_out: tuple[Section, ...]
    """For the budget's sake, the first to go first. What the mode does not have is not counted here."""


def assemble(sections: Iterable[Section], mode: PromptMode, budget: int, tokens_in: Callable[[str], int]) -> Prompt:
    """Always the whole text is measured: the estimates of its parts do not add up to that of the whole."""
    kept = sorted((each for each in sections if each.content.strip() and each.belongs_to(mode)), key=_place)
    optional = [place for place, section in enumerate(kept) if not section.required]
    left_out: list[Section] = []
    while (tokens := tokens_in(_render(kept))) > budget and optional:
        left_out.append(kept.pop(optional.pop()))
    return Prompt(text=_render(kept), tokens=tokens, sections=tuple(kept), left_out=tuple(left_out))


def _place(section: Section) -> tuple[bool, int]:
    """Sections of one priority stay in the order in which they came."""
    return section.id == CUSTOM, -section.priority


def _render(sections: Iterable[Section]) -> str:
    return "\n\n".join(section.text for section in sections)
