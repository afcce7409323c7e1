"""The system prompt, from sections: the same bytes for the same settings, so that a model's cache can keep them."""

from finclaw.agent.prompt.assemble import Prompt, assemble
from finclaw.agent.prompt.build import PromptParts, build_prompt, system_prompt
from finclaw.agent.prompt.profile import ComplianceLevel, InvestmentProfile
from finclaw.agent.prompt.section import PromptMode, Section
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
