"""The system prompt of an agent: our own sections, those of extensions, and the operator's words.

Nothing in it depends on the time, the person, the chat or what is remembered: that comes with the turn, as a passing
note behind the input (`moment`), and leaves these bytes and a model's cache of them alone.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import ceil
from typing import Final

from msgspec import Struct

from finclaw.agent.prompt import sections
from finclaw.agent.prompt.sections import CUSTOM, ComplianceLevel, PromptMode, Section
from finclaw.agent.window.tokens import count_tokens
from finclaw.errors import ConfigError
from finclaw.kernel.chunk import Model, Vocabulary

_SHARE: Final = 4
"""Without a budget of its own, the prompt may fill one part in so many of the smallest window."""
_LOG: Final = logging.getLogger(__name__)


class PromptParts(Struct, frozen=True, kw_only=True):
    """The parts from which a prompt is made."""

    models: Sequence[Model]
    """All that may be asked: the chosen one and its fallbacks."""
    tools: Sequence[str] = ()
    compliance: ComplianceLevel = "retail"
    instructions: str = ""
    gets_pictures: bool = False
    """Whether a picture that a person sends is handed to the model. No channel does that yet."""
    extensions: Sequence[Section] = ()


def sections_of(parts: PromptParts) -> tuple[Section, ...]:
    return (
        sections.identity(),
        sections.compliance(parts.compliance),
        sections.risk_disclaimer(),
        sections.constraints(),
        sections.tools(parts.tools),
        sections.finance_context(),
        sections.language(),
        sections.capabilities(parts.models, has_tools=bool(parts.tools), gets_pictures=parts.gets_pictures),
        sections.formatting(),
        *parts.extensions,
        sections.examples(),
        sections.custom(parts.instructions),
    )


class Prompt(Struct, frozen=True, kw_only=True):
    """An assembled prompt. `tokens` is above the budget only where the required sections alone are."""

    text: str
    tokens: int
    sections: tuple[Section, ...]
    left_out: tuple[Section, ...]
    """For the budget's sake, the first to go first. What the mode does not have is not counted here."""


def build_prompt(parts: PromptParts, mode: PromptMode = "full", budget: int | None = None) -> Prompt:
    """Raises ConfigError when what must not be left out does not fit.

    Without a budget the optional sections share a part of the window, and the required ones may have all of it: a
    small model is then told less, but it is told the rules.
    """
    window = min(model.window for model in parts.models)
    tokens_in = partial(_tokens_in, vocabularies={model.vocabulary for model in parts.models})
    prompt = assemble(sections_of(parts), mode, window // _SHARE if budget is None else budget, tokens_in)
    if prompt.tokens > (window if budget is None else min(budget, window)):
        raise ConfigError(_too_long(prompt, budget, window))
    return prompt


def system_prompt(parts: PromptParts, mode: PromptMode = "full", budget: int | None = None) -> str:
    prompt = build_prompt(parts, mode, budget)
    if prompt.left_out:
        titles = ", ".join(section.title for section in prompt.left_out)
        _LOG.warning("the system prompt is cut to %d tokens; left out: %s", prompt.tokens, titles)
    return prompt.text


def _tokens_in(text: str, vocabularies: Iterable[Vocabulary]) -> int:
    """By the model that counts the most."""
    return ceil(max(count_tokens(text, vocabulary) for vocabulary in vocabularies))


def _too_long(prompt: Prompt, budget: int | None, window: int) -> str:
    longest = max(prompt.sections, key=Section.token_estimate)
    bound = f"agent.prompt_tokens is {budget}" if budget is not None and budget <= window else f"the window is {window}"
    raising = "raise it" if budget is not None and budget <= window else "choose a model with a larger window"
    return (
        f"the system prompt needs about {prompt.tokens} tokens for what must not be left out, and {bound}; "
        f"{raising}, or shorten it: its longest section is {longest.title!r}, with {longest.token_estimate()}"
    )


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
