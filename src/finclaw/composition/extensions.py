"""The built-in extensions, in one table with a reason a row, and the registrar with all extensions loaded."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Never, cast

from msgspec import Struct
from msgspec.structs import replace

from finclaw.agent.prompt.sections import strictest_level
from finclaw.agent.prompt.turn_context_note import turn_context_note
from finclaw.agent.tool_results import OverflowResults
from finclaw.approvals.approvals import Approvals
from finclaw.builtins.answer_notes import AnswerNotes, Disclaimers
from finclaw.builtins.approvals import ApprovalCommands
from finclaw.builtins.basics import Basics, UndoCommands
from finclaw.builtins.calculator import Calculator
from finclaw.builtins.conversation_commands import CommandSources, ConversationCommands
from finclaw.builtins.delegate import Delegation
from finclaw.builtins.end_turn import EndTurn
from finclaw.builtins.extension_services import ExtensionServices
from finclaw.builtins.note import Moment
from finclaw.builtins.now import Now
from finclaw.builtins.read_result import ReadResult
from finclaw.config.routes import chosen_model
from finclaw.config.schema import Settings
from finclaw.demo.market import DemoMarket
from finclaw.diagnostics.event_stream import EventStream
from finclaw.errors import ExtensionError
from finclaw.extensions.loading import LocatedExtension, as_builtin, find
from finclaw.extensions.registrar import CommandOverrides, Registrar
from finclaw.extensions.registration import NULL_SERVICES, Services
from finclaw.fetch.fetchers import open_fetchers
from finclaw.finance.calendar import TableCalendar
from finclaw.finance.charts.extension import Charts
from finclaw.finance.commands import MarketCommands
from finclaw.finance.documents import Documents
from finclaw.finance.extension import Finance
from finclaw.finance.market import Market
from finclaw.finance.market_context import MarketContext
from finclaw.finance.market_data.port import MarketData
from finclaw.finance.watchlist import Watching
from finclaw.gateway import Gateway, UndoneTurn
from finclaw.kernel.calendar import Calendar
from finclaw.kernel.chunk import Model
from finclaw.kernel.envelope import Capabilities, Inbound, TurnOptions
from finclaw.kernel.extension import Extension, ExtensionApi
from finclaw.kernel.person import Person
from finclaw.kernel.port import Clock
from finclaw.kernel.record import Accepted
from finclaw.storage.sqlite.extension import EXTENSIONS, ExtensionDatabase

if TYPE_CHECKING:
    from finclaw.finance.answers import CommandMarket
    from finclaw.finance.instruments.choices import InstrumentChoices
    from finclaw.finance.live_market import LiveMarket


def _no_gateway(*_: object) -> Never:
    raise ExtensionError("no gateway runs in this process")


class BuiltinServices(Struct, frozen=True, kw_only=True):
    """Parts of a gateway that built-in extensions use while a message is handled."""

    overflow: OverflowResults
    clock: Clock
    gateway: Callable[[], Gateway] = _no_gateway
    """Raises ExtensionError while it is not complete, and where there is none."""
    approvals: Callable[[], Approvals] = _no_gateway
    person: Callable[[Inbound], Person] = _no_gateway
    person_by_id: Callable[[str], Person] = _no_gateway
    channel: Callable[[str], Capabilities] = _no_gateway  # what a channel can show, by its name
    options: Callable[[str], TurnOptions] = _no_gateway  # what was set for a session
    find_model: Callable[[str | None], Model] = _no_gateway
    waiting: Callable[[str], int] = _no_gateway  # messages of a session without an answer
    save_person: Callable[[Person], Awaitable[None]] = _no_gateway


def builtin_extensions(
    settings: Settings, registrar: Registrar, services: BuiltinServices
) -> Iterator[LocatedExtension]:
    """They are loaded as any other extension. First is outermost; what the settings list comes after them."""
    prefix = settings.command_prefix
    gateway = services.gateway
    basics = Basics(
        prefix,
        lambda: registrar.commands,
        lambda session: gateway().reset(session),
        lambda request: gateway().stop_session(request),
        settings.storage.retention_days,
        registrar.layer_commands,
    )
    yield as_builtin(basics, "first, so that no other can take the names of its commands")

    def undo(accepted: Accepted, is_owner: bool, again: bool) -> Awaitable[UndoneTurn]:
        return gateway().undo_turn(accepted, is_owner=is_owner, again=again)

    yield as_builtin(UndoCommands(prefix, undo), "beside them, for the same reason")
    deciding = ApprovalCommands(prefix, services.approvals)
    yield as_builtin(deciding, "as early, for the same reason: nobody else answers to approve and deny")
    conversation = ConversationCommands(_command_sources(settings, services))
    yield as_builtin(conversation, "as early: it has only commands, whose names stay its own")
    calendar = TableCalendar()
    finance = Finance(partial(_open_market, settings, calendar), calendar)
    yield as_builtin(finance, "outside of yours: it labels what your layers have made of a reply")
    choices = _name_choices(settings)
    settle = choices.settle_name if choices is not None else _keep_name

    def market() -> tuple[Market, MarketData]:
        return _market_data(finance.market)

    charts = Charts(market, services.person_by_id, services.channel, settle, prefix)
    yield as_builtin(charts, "behind finance, whose market it draws: one command and one tool")
    if choices is not None:
        yield as_builtin(choices, "outside of yours: your layers see the instrument that a person means by a name")

    def market_data() -> MarketData:
        return market()[1]

    def desk() -> "CommandMarket":
        from finclaw.finance.answers import CommandMarket  # noqa: PLC0415  `cold_cpu`: with the first command

        return CommandMarket(
            market=finance.market,
            data=market_data(),
            calendar=calendar,
            settle=settle,
            channel=services.channel,
            prefix=prefix,
        )

    yield as_builtin(MarketCommands(desk, prefix), "behind finance, by whose functions its commands answer")
    documents = Documents(lambda: finance.market, market_data)
    yield as_builtin(documents, "behind finance, whose market data it reads: news, filings, earnings dates, profiles")
    lists_exist = (settings.state / EXTENSIONS / f"{Watching.name}.db").exists
    watching = Watching(lambda: finance.market, market_data, services.person_by_id, settle, prefix, lists_exist)
    yield as_builtin(watching, "behind finance, whose prices a watchlist shows: one command and four tools")
    fields = MarketContext(
        market, calendar, finance.last_quotes, is_live=settings.market == "live", watchlists=watching
    )
    yield as_builtin(fields, "behind the watchlist, of which its fields tell a turn, and of the market")

    def level_of(inbound: Inbound) -> str:
        return strictest_level(settings.agent.compliance, services.person(inbound).compliance)

    reason = "further out than finance's label: it stands last, and no layer of yours takes it away"
    yield as_builtin(Disclaimers(level_of), reason)
    yield as_builtin(Calculator(), "its one tool is exact arithmetic, and every result of it is a fact")
    yield as_builtin(Now(), "its one tool tells the time, by the gateway's own clock")
    reader = ReadResult(services.overflow.of)
    yield as_builtin(reader, "its one tool reads on in results that were too long to show")
    yield as_builtin(EndTurn(), "its layer sees a step before all others let go of it, so that the turn can end there")
    told = partial(turn_context_note, level=settings.agent.compliance)
    yield as_builtin(Moment(told), "it tells the model what holds for one turn alone, and nothing where nothing does")
    yield as_builtin(AnswerNotes(), "inside of finance's label: lines behind an answer, such as that it was cut off")
    if settings.agent.delegate:
        delegation = Delegation(services.gateway, registrar.tools)
        yield as_builtin(delegation, "its one tool gives a task to a turn of its own")
    have = registrar.services
    routes = ExtensionServices(have.recall, have.remember, have.accept, lambda: registrar.strangers)
    reason = "it has only routes: there the commands of your extensions reach their state and their people"
    yield as_builtin(routes, reason)


def _command_sources(settings: Settings, have: BuiltinServices) -> CommandSources:
    agent = settings.agent
    queue = settings.sessions.queue.mode
    return CommandSources(
        prefix=settings.command_prefix,
        gateway=have.gateway,
        defaults=TurnOptions(
            model=chosen_model(settings), thinking=agent.thinking, verbosity=agent.verbosity, queue=queue
        ),
        models=tuple(dict.fromkeys((agent.model, *agent.fallbacks, *settings.aliases, *settings.models))),
        kept=have.options,
        find_model=have.find_model,
        measure=lambda messages, model: have.gateway().measure(messages, model),
        waiting=have.waiting,
        save_person=have.save_person,
        describe_settings=partial(_describe_settings, settings),
        channel=have.channel,
    )


def _describe_settings(settings: Settings, section: str) -> list[str]:
    """Each setting of a section and its value, without secrets; of all sections, those that are not as they come."""
    from finclaw.config.describe import effective  # noqa: PLC0415  `cold_cpu`: it reads our own source

    lines = list[str]()
    for each in effective(settings, {}, {}):
        key = each.setting.key
        is_changed = each.value not in (each.setting.default, "not set")
        if (key == section or key.startswith(f"{section}.")) if section else is_changed:
            lines.append(f"{key}: {each.value}")
    return lines


def command_overrides(settings: Settings) -> CommandOverrides:
    wanted = settings.commands
    return CommandOverrides(disabled=wanted.disabled, aliases=wanted.aliases, cooldown_s=wanted.cooldown_s)


def _name_choices(settings: Settings) -> "InstrumentChoices | None":
    """For the live market: the demo market has few names, and its assistant asks by itself."""
    if settings.market == "demo":
        return None
    from finclaw.finance.instruments.added import KnownInstruments  # noqa: PLC0415  `cold_cpu`: not for the demo
    from finclaw.finance.instruments.choices import InstrumentChoices  # noqa: PLC0415  `cold_cpu`: the same

    return InstrumentChoices(KnownInstruments(settings.state))


async def _keep_name(name: str, _: Person) -> str:
    return name


def _open_market(settings: Settings, calendar: Calendar, api: ExtensionApi) -> Market:
    if settings.market == "demo":
        return DemoMarket(api.clock, calendar)
    from finclaw.finance.instruments.added import KnownInstruments  # noqa: PLC0415  `cold_cpu`: not for the demo
    from finclaw.finance.live_market import open_live_market  # noqa: PLC0415  `cold_cpu`: the sources' code

    instruments = KnownInstruments(settings.state)
    api.pipeline.register("tool_call", instruments.mark_names, priority=-100)
    return open_live_market(settings.market_data, api, calendar, instruments)


def _market_data(market: Market) -> tuple[Market, MarketData]:
    if isinstance(market, DemoMarket):
        from finclaw.demo.market_data import DemoMarketData  # noqa: PLC0415  `cold_cpu`: for charts

        return market, DemoMarketData(market)
    return market, cast("LiveMarket", market).data


def find_configured(settings: Settings, given: Iterable[Extension] = ()) -> tuple[LocatedExtension, ...]:
    """The default extensions and those that the settings list. One of the same name takes a default one's place."""
    listed = find(settings.agent.extensions)
    names = {each.name for each in (*listed, *given)}
    return (*find(name for name in settings.agent.default_extensions if name not in names), *listed)


def load_registrar(settings: Settings, services: Services | None = None) -> Registrar:
    """What the extensions register, without a gateway: for the terminal and the doctor. Raises as `build` does. Without
    `services` they have only their databases and the web, which is enough to look at them."""
    if services is None:
        database = partial(ExtensionDatabase, settings.state / EXTENSIONS)
        services = replace(NULL_SERVICES, database=database, fetcher=open_fetchers())
    registrar = Registrar(EventStream(), services, command_overrides(settings))
    overflow = OverflowResults(services.recall, services.remember)
    builtin_services = BuiltinServices(overflow=overflow, clock=services.clock)
    registrar.load(builtin_extensions(settings, registrar, builtin_services))
    registrar.load(find_configured(settings))
    registrar.check_commands()
    return registrar
