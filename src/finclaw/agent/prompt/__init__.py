"""The system prompt, from sections: the same bytes for the same settings, so that a model's cache can keep them."""

from finclaw.agent.prompt.build import Prompt, PromptParts, assemble, build_prompt, system_prompt
from finclaw.agent.prompt.sections import ComplianceLevel, InvestmentProfile, PromptMode, Section
from finclaw.agent.prompt.turn_context_note import turn_context_note

__all__ = [
    "ComplianceLevel",
    "InvestmentProfile",
    "Prompt",
    "PromptMode",
    "PromptParts",
    "Section",
    "assemble",
    "build_prompt",
    "turn_context_note",
    "system_prompt",
]
