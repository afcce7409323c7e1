"""The agent of a gateway: models, tools, rules and the system prompt, as the settings and the extensions give them."""

import logging
from collections.abc import Sequence

from finclaw.agent.agent import Abilities, Agent, AgentLayers
from finclaw.agent.budget.budget import Budget
from finclaw.agent.prompt.sections import PromptParts, system_prompt
from finclaw.agent.settings import AgentSettings
from finclaw.agent.tool_results import OverflowResults
from finclaw.agent.turn_state.state import RecordedTurn
from finclaw.app import GatewayCore
from finclaw.extensions.registrar import Registrar
from finclaw.kernel.chunk import Model
from finclaw.policy import Consent
from finclaw.policy.policy import Policy
from finclaw.policy.rule import check_rules
from finclaw.tools.settings import GuardChoice

log = logging.getLogger(__name__)


def make_agent(
    core: GatewayCore, registrar: Registrar, budget: Budget | None, overflow: OverflowResults, consent: Consent | None
) -> Agent:
    """Raises ConfigError for a rule about an unknown tool, or if the required prompt does not fit a model."""
    settings = core.settings
    for warning in check_rules(settings.tools.rules, registrar.tools.list()):
        log.warning("%s", warning)
    policy = Policy(settings.tools.rules)
    policy.prepare(tool.spec.name for tool in registrar.tools.list())
    chosen, *fallbacks = core.routes.default
    abilities = Abilities(
        provider=chosen.provider,
        model=chosen.model,
        credential=chosen.credential,
        within=chosen.within,
        fallbacks=fallbacks,
        pick=core.routes.pick,
        budget=budget,
        compaction=settings.compaction,
        recorded=chosen.provider if isinstance(chosen.provider, RecordedTurn) else None,
        tools=registrar.tools,
        policy=policy,
        consent=consent,
        approvals=core.approvals,
        overflow=overflow,
        put_blob=core.store.put_blob,
        guards=GuardChoice(settings.tools.guard, settings.tools.guards),
        show=settings.tools.show,
        system=agent_prompt(settings.agent, registrar, [route.model for route in core.routes.default]),
    )
    layers = AgentLayers(
        turn=registrar.layers("turn"), step=registrar.layers("step"), tool_call=registrar.layers("tool_call")
    )
    return Agent(settings.agent, abilities, layers, core.clock)


def agent_prompt(agent: AgentSettings, registrar: Registrar, models: Sequence[Model]) -> str:
    """Return the system prompt for these models. Raises ConfigError if its required parts do not fit."""
    parts = PromptParts(
        models=models,
        tools=[tool.spec.name for tool in registrar.tools.list()],
        compliance=agent.compliance,
        instructions=agent.instructions,
        extensions=registrar.sections,
    )
    return system_prompt(parts, agent.prompt_mode, agent.prompt_tokens)
