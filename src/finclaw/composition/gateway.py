"""The composition root: `build(settings)` makes all parts of a gateway, in the order in which a message meets them."""

import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from finclaw.agent.agent import Abilities, Agent, AgentLayers
from finclaw.agent.budget.turn_budget import BudgetService, open_budget
from finclaw.agent.overflow_results import OverflowResults
from finclaw.agent.prompt import PromptParts, system_prompt
from finclaw.agent.settings import AgentSettings
from finclaw.agent.turn_state.state import RecordedTurn
from finclaw.app import App
from finclaw.approvals.approvals import Approvals
from finclaw.builtins.delegate import CHANNEL as DELEGATED
from finclaw.channels.mailbox import MailboxChannel
from finclaw.clock import SystemClock
from finclaw.composition.channels import allow_lists, debounce_pauses, open_channels
from finclaw.composition.extensions import BuiltinServices, builtin_extensions, command_overrides, find_configured
from finclaw.config.routes import ModelRoutes, chosen_model
from finclaw.config.schema import Settings
from finclaw.config.windows import learn_windows
from finclaw.diagnostics.event_stream import EventStream
from finclaw.extensions.registrar import Registrar
from finclaw.extensions.registration import Services
from finclaw.fetch.fetchers import open_fetchers
from finclaw.kernel.chunk import Model
from finclaw.kernel.envelope import Capabilities
from finclaw.kernel.event import Observer
from finclaw.kernel.extension import Extension
from finclaw.kernel.port import Channel, Clock, Provider
from finclaw.kernel.store_port import Store
from finclaw.pipeline.persons import open_directory
from finclaw.policy import Consent
from finclaw.policy.policy import Policy
from finclaw.policy.rule_check import check_rules
from finclaw.storage.blobs.directory import BLOBS, BlobDirectory
from finclaw.storage.kinds import open_kind
from finclaw.storage.sqlite.extension import EXTENSIONS, ExtensionDatabase
from finclaw.storage.state_lock import StateLock
from finclaw.tools.guard_options import GuardChoice
from finclaw.tools.outbound_files import PutBlob

log = logging.getLogger(__name__)


@asynccontextmanager
async def build(  # noqa: PLR0913  all that a test or a program of one's own may bring along
    settings: Settings,
    *,
    channels: Sequence[Channel] = (),
    provider: Provider | None = None,
    extensions: Sequence[Extension] = (),
    consent: Consent | None = None,
    observers: Sequence[Observer] = (),
    clock: Clock | None = None,
    open_store: Callable[..., Store] = open_kind,
    threaded: bool = True,
) -> AsyncGenerator[App]:
    """Start a gateway on the settings' state directory and stop it in good order at the end of the block.

    What is brought along is used instead of what the settings name: fakes in tests, a channel of one's own.
    `consent` asks a person at once, instead of an approval that waits for one.
    `observers` see everything from the first recovered message on; `App.observe` comes after those.
    `threaded=False` commits on the event loop, the same way every time. Raises ConfigError (StateBusy: another
    gateway is there), ExtensionError, StoreFailed or StoreCorrupt.
    """
    clock = clock or SystemClock()
    if provider is None:
        settings = _with_turns_of_their_own(settings)
    async with AsyncExitStack() as stack:
        stack.enter_context(StateLock(settings.state))
        events = EventStream()
        for observer in observers:
            events.observe(observer)
        store = open_store(settings.storage.kind, settings.state, clock, events.emit, threaded=threaded)
        stack.push_async_callback(store.close)

        read_blob = BlobDirectory(settings.state / BLOBS).read
        routes = ModelRoutes(settings if provider else await learn_windows(settings), provider, clock, read_blob)
        stack.push_async_callback(routes.close)
        inner = (MailboxChannel("api"), MailboxChannel(DELEGATED))
        by_name = {channel.name: channel for channel in (*inner, *channels)}
        for channel in by_name.values():
            stack.push_async_callback(channel.close)

        services = Services(
            recall=store.recall,
            remember=store.remember,
            accept=lambda inbound, session: app.say(inbound, session),  # noqa: PLW0108  the app is yet to be
            database=partial(ExtensionDatabase, settings.state / EXTENSIONS, threaded=threaded),
            fetcher=open_fetchers(),
            put_blob=store.put_blob,
            clock=clock,
            find_chat=lambda who: app.chats.find_session(who, store),
            start_turn=lambda inbound, session: app.say(inbound, session),  # noqa: PLW0108  the app is yet to be
        )
        registrar = Registrar(events, services, command_overrides(settings))
        stack.push_async_callback(registrar.close)
        overflow = OverflowResults(store.recall, store.remember)
        builtin_services = BuiltinServices(
            reset=lambda session: app.reset(session),  # noqa: PLW0108  the app is yet to be
            gateway=lambda: app,
            approvals=lambda: app.consents,
            overflow=overflow,
            clock=clock,
            person=lambda inbound: persons.find(inbound),  # noqa: PLW0108  the directory is yet to be
            person_by_id=lambda id: persons.get(id),  # noqa: PLW0108
            options=lambda session: app.options.find(session),  # noqa: PLW0108  the app is yet to be
            find_model=lambda name: agent.find_model(name),  # noqa: PLW0108  the agent is yet to be
            measure=lambda messages, name: agent.measure(messages, name),  # noqa: PLW0108
            waiting=lambda session: app.count_waiting(session),  # noqa: PLW0108  the app is yet to be
            save_person=lambda person: app.persons.save(person),  # noqa: PLW0108
            channel=lambda name: by_name[name].capabilities if name in by_name else Capabilities(),
        )
        registrar.load(builtin_extensions(settings, registrar, builtin_services))
        registrar.load(find_configured(settings, extensions))
        registrar.load(extensions)
        registrar.check_commands()
        for channel in open_channels(settings, registrar, clock, store):
            stack.push_async_callback(channel.close)
            by_name.setdefault(channel.name, channel)

        budget = await open_budget(settings.budget, [route.model for route in routes.default], store, clock)
        guards = Guards(_policy(settings, registrar), consent, lambda: app.consents, overflow, store.put_blob)
        agent = _agent(settings, registrar, routes, clock, guards, budget)
        persons = await open_directory(store, settings.everybody())
        heard, pauses = allow_lists(settings), debounce_pauses(settings, by_name)
        app = App(settings, registrar, store, agent, by_name, clock, persons, heard, pauses)
        stack.push_async_callback(app.stop)
        await store.sweep_blobs()
        await app.start()
        yield app


def _with_turns_of_their_own(settings: Settings) -> Settings:
    """Give each message a turn where the offline assistant answers: it reads one question, and would lose others."""
    sessions = settings.sessions
    if sessions.queue.mode != "auto" or not chosen_model(settings).startswith("offline/"):
        return settings
    channels = {
        name: each if each.debounce_ms is not None else replace(each, debounce_ms=0)
        for name, each in settings.channels.items()
    }
    queue = replace(sessions.queue, mode="followup")
    return replace(settings, sessions=replace(sessions, queue=queue), channels=channels)


# ── what the settings name ──────────────────────────────────────────────────────────────────────────────────────────


def _agent(
    settings: Settings,
    registrar: Registrar,
    routes: ModelRoutes,
    clock: Clock,
    guards: "Guards",
    budget: BudgetService | None,
) -> Agent:
    chosen, *fallbacks = routes.default
    abilities = Abilities(
        provider=chosen.provider,
        model=chosen.model,
        credential=chosen.credential,
        within=chosen.within,
        fallbacks=fallbacks,
        pick=routes.pick,
        budget=budget,
        compaction=settings.compaction,
        recorded=chosen.provider if isinstance(chosen.provider, RecordedTurn) else None,
        tools=registrar.tools,
        policy=guards.policy,
        consent=guards.consent,
        approvals=guards.approvals,
        overflow=guards.overflow,
        put_blob=guards.put_blob,
        guards=GuardChoice(settings.tools.guard, settings.tools.guards),
        show=settings.tools.show,
        system=agent_prompt(settings.agent, registrar, [route.model for route in routes.default]),
    )
    layers = AgentLayers(
        turn=registrar.layers("turn"), step=registrar.layers("step"), tool_call=registrar.layers("tool_call")
    )
    return Agent(settings.agent, abilities, layers, clock)


class Guards(NamedTuple):
    """What stands between a model's call and a tool, and behind it."""

    policy: Policy
    consent: Consent | None
    approvals: Callable[[], Approvals]
    overflow: OverflowResults
    put_blob: PutBlob


def _policy(settings: Settings, registrar: Registrar) -> Policy:
    """Raises ConfigError for a rule about a tool that is not there."""
    for warning in check_rules(settings.tools.rules, registrar.tools.list()):
        log.warning("%s", warning)
    policy = Policy(settings.tools.rules)
    policy.prepare(tool.spec.name for tool in registrar.tools.list())
    return policy


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
