"""The system prompt of an agent as the settings and the extensions make it."""

from collections.abc import Sequence

from finclaw.agent.prompt import PromptParts, system_prompt
from finclaw.agent.settings import AgentSettings
from finclaw.kernel.chunk import Model
from finclaw.pipeline.registrar import Registrar


def agent_prompt(agent: AgentSettings, registrar: Registrar, models: Sequence[Model]) -> str:
    """For the chosen model and its fallbacks. Raises ConfigError when what must not be left out does not fit."""
    parts = PromptParts(
        models=models,
        tools=[tool.spec.name for tool in registrar.tools.list()],
        compliance=agent.compliance,
        instructions=agent.instructions,
        extensions=registrar.sections,
    )
    return system_prompt(parts, agent.prompt_mode, agent.prompt_tokens)
