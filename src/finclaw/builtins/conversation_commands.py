"""Commands about the person who writes (/start, /language), about options (/think, /verbose, /model, /queue), reports
(/status, /context, /cost), and for the owner (/config, /debug).
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from decimal import Decimal
from functools import partial
from typing import Final, get_args

from msgspec import Struct
from msgspec.structs import replace

from finclaw.builtins.basics import BasicCommand
from finclaw.commands.declaration import Directive
from finclaw.commands.words import OPTIONS
from finclaw.gateway import Gateway, QueuedMessage
from finclaw.kernel.chunk import Model
from finclaw.kernel.envelope import Capabilities, QueueMode, TurnOptions
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.message import Message
from finclaw.kernel.person import Person
from finclaw.kernel.port import CommandArgument, CommandReply, CommandScope
from finclaw.kernel.record import Cost, TurnTrace
from finclaw.redaction.redact import redact_for_display
from finclaw.text import Language

_LANGUAGES: Final = {
    **dict.fromkeys(("ko", "kr", "korean", "한국어", "한글"), "ko"),
    **dict.fromkeys(("en", "english", "영어"), "en"),
    **dict.fromkeys(("auto", "default", "자동", "기본"), ""),
}
_NOW: Final = {
    "ko": "이제부터 한국어로 답하겠습니다.",
    "en": "From now on I answer in English.",
    "": "I answer in the language you write in. / 쓰시는 언어로 답하겠습니다.",
}
_SHOWN: Final = {
    "ko": "한국어로 답하고 있습니다. 바꾸기: {0}language ko|en|auto",
    "en": "I answer you in English. To change it: {0}language ko|en|auto",
    "": "I answer in the language you write in. To change it: {0}language ko|en|auto\n"
    "쓰시는 언어로 답하고 있습니다. 바꾸기: {0}language ko|en|auto",
}
_GREETING: Final = {
    "en": "Hello! I am FinClaw. Ask me about prices, markets and your own money, in your own words.\n"
    "For example: What does Apple cost now?\n"
    "{0}help lists the commands, {0}language ko switches to Korean.",
    "ko": "안녕하세요, FinClaw입니다. 시세와 시장, 내 자산에 대해 편하게 물어보세요.\n"
    "예: 삼성전자 지금 얼마야?\n"
    "{0}help로 명령 목록을 볼 수 있고, {0}language en으로 영어로 바꿀 수 있습니다.",
}
_LEVELS: Final = {
    **{each: each for each in ("off", "low", "medium", "high")},
    **{"끔": "off", "끄기": "off", "낮음": "low", "보통": "medium", "높음": "high"},
}
_LENGTHS: Final = {
    **{"on": "high", "off": "medium", "low": "low", "medium": "medium", "high": "high"},
    **{"켜기": "high", "끄기": "medium", "짧게": "low", "보통": "medium", "자세히": "high"},
}
_MODES: Final = {
    **{each: each for each in get_args(QueueMode)},
    **{"자동": "auto", "순서대로": "followup", "끼어들기": "steer", "모아서": "collect", "중단하고": "interrupt"},
}
_STATES: Final[dict[Language, dict[str, str]]] = {
    "en": {"running": "Being answered: {}", "joined": "Taken into that answer: {}", "waiting": "Waiting: {}"},
    "ko": {"running": "답변 중: {}개", "joined": "진행 중인 답변에 반영: {}개", "waiting": "대기 중: {}개"},
}
_LONGEST_MODEL: Final = 200


class CommandSources(Struct, frozen=True, kw_only=True):
    """The parts of a gateway that these commands ask. Functions, because the gateway is made after its commands."""

    prefix: str
    gateway: Callable[[], Gateway]
    defaults: TurnOptions
    """What the settings say, with nothing left open."""
    models: Sequence[str]
    """The names of models that the settings have, the usual one first."""
    kept: Callable[[str], TurnOptions]
    """The options of a session."""
    find_model: Callable[[str | None], Model]
    measure: Callable[[Sequence[Message], str | None], int]
    """Tokens that these messages take for a model, with what stands before them, by our estimate."""
    waiting: Callable[[str], int]
    """Messages of a session that have no answer yet."""
    save_person: Callable[[Person], Awaitable[None]]
    describe_settings: Callable[[str], Sequence[str]]
    """Lines about the settings of a section, secrets redacted; empty name: those that are not as they come."""
    channel: Callable[[str], Capabilities]


class ConversationCommands:
    name = "conversation"

    def __init__(self, sources: CommandSources) -> None:
        self._sources = sources

    def register(self, api: ExtensionApi) -> None:
        reports = ReportCommands(self._sources)
        for command in (*self._person_commands(), *reports.commands(), *self._option_commands()):
            api.commands.register(command)

    # ── the person who writes ───────────────────────────────────────────────────────────────────────────────

    def _person_commands(self) -> Iterator[BasicCommand]:
        prefix = self._sources.prefix
        yield BasicCommand(
            name="start",
            names={"ko": "시작"},
            description="Says what I am for / 인사와 소개",
            usage=f"{prefix}start",
            answer=self._start,
        )
        yield BasicCommand(
            name="language",
            names={"ko": "언어"},
            description="Sets the language I answer you in / 답변 언어 바꾸기",
            usage=f"{prefix}language [ko|en|auto]",
            arguments=(
                CommandArgument(
                    "ko|en|auto", "Korean, English or as you write / 한국어, 영어, 쓰는 대로", required=False
                ),
            ),
            answer=self._choose_language,
            when="in_lane",
        )

    async def _start(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        is_known = scope.person.language or scope.language == "ko"
        languages = [scope.language] if is_known else ["en", "ko"]
        return CommandReply("\n\n".join(_GREETING[each].format(self._sources.prefix) for each in languages))

    async def _choose_language(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        wanted = _LANGUAGES.get(" ".join(args).casefold())
        if wanted is None:
            chosen = scope.person.language and scope.language
            return tell(_SHOWN[chosen].format(self._sources.prefix))
        await self._sources.save_person(replace(scope.person, language=wanted))
        return tell(_NOW[wanted])

    # ── directives: with a value the command stage applies them; these answer them without one ──────────────

    def _option_commands(self) -> Iterator[BasicCommand]:
        prefix = self._sources.prefix
        defaults = self._sources.defaults
        yield BasicCommand(
            name="model",
            names={"ko": "모델"},
            description="Shows or chooses the model that answers / 답변하는 모델 보기와 선택",
            usage=f"{prefix}model [NAME|default]",
            arguments=(CommandArgument("NAME", "a model or an alias / 모델 이름이나 별칭", required=False),),
            answer=self._show_model,
            when="in_lane",
            directive=Directive(
                option="model",
                read=lambda word: word if len(word) <= _LONGEST_MODEL else None,
                values=tuple(self._sources.models),
                default=defaults.model or "",
            ),
        )
        yield BasicCommand(
            name="think",
            names={"ko": "생각"},
            description="Sets how much the model thinks first / 답하기 전에 얼마나 생각할지 정하기",
            usage=f"{prefix}think [off|low|medium|high|default]",
            answer=partial(self._show_option, "thinking", "think off|low|medium|high|default"),
            when="in_lane",
            directive=Directive(
                option="thinking",
                read=lambda word: _LEVELS.get(word.casefold()),
                values=("off", "low", "medium", "high"),
                default=defaults.thinking or "off",
            ),
        )
        yield BasicCommand(
            name="verbose",
            names={"ko": "자세히"},
            description="Sets how long answers are / 답변을 얼마나 길게 할지 정하기",
            usage=f"{prefix}verbose [on|off|low|medium|high|default]",
            answer=partial(self._show_option, "verbosity", "verbose on|off|low|medium|high|default"),
            when="in_lane",
            directive=Directive(
                option="verbosity",
                read=lambda word: _LENGTHS.get(word.casefold()),
                values=("on", "off", "low", "medium", "high"),
                default=defaults.verbosity or "medium",
                bare="high",
            ),
        )
        yield BasicCommand(
            name="queue",
            names={"ko": "대기"},
            description="Shows what waits, and what new messages do while I am busy / 대기 상태와 새 메시지 처리 방식",
            usage=f"{prefix}queue [{'|'.join(get_args(QueueMode))}|default]",
            answer=self._show_queue,
            directive=Directive(
                option="queue",
                read=lambda word: _MODES.get(word.casefold()),
                values=get_args(QueueMode),
                default=defaults.queue or "auto",
            ),
        )

    async def _show_model(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        listed = ", ".join(self._sources.models)
        known = choose(scope.language, f"There are: {listed}", f"쓸 수 있는 모델: {listed}")
        return tell(f"{self._option_text('model', scope, 'model NAME|default')}\n{known}")

    async def _show_option(self, option: str, usage: str, args: Sequence[str], scope: CommandScope) -> CommandReply:
        return tell(self._option_text(option, scope, usage))

    async def _show_queue(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        messages = self._sources.gateway().queue(scope.session)
        if scope.accepted is not None:
            messages = [each for each in messages if each.inbound_id != scope.accepted.id]
        usage = f"queue {'|'.join(get_args(QueueMode))}|default"
        return tell("\n".join([*_describe_queue(messages, scope.language), self._option_text("queue", scope, usage)]))

    def _option_text(self, option: str, scope: CommandScope, usage: str) -> str:
        """The value that holds in the session, where it comes from, and how to change it."""
        language = scope.language
        value = getattr(self._sources.kept(scope.session), option)
        origin = choose(language, "set for this conversation", "이 대화에서 정한 값")
        if value is None:
            value = getattr(self._sources.defaults, option)
            origin = choose(language, "by the settings", "설정 값")
        usage = f"{self._sources.prefix}{usage}"
        change = choose(language, f"To change it: {usage}", f"바꾸기: {usage}")
        return f"{OPTIONS[language][option]}: {value} ({origin})\n{change}"


def _describe_queue(messages: Sequence[QueuedMessage], language: Language) -> Iterator[str]:
    """How many are being answered and how many wait, and for what the first of them does."""
    if not messages:
        yield choose(language, "No message waits for an answer.", "답변을 기다리는 메시지가 없습니다.")
        return
    numbers = Counter(each.state for each in messages)
    yield " · ".join(label.format(numbers[state]) for state, label in _STATES[language].items() if numbers[state])
    first = messages[0]
    if first.waits_for == "seat":
        yield choose(
            language,
            f"All seats are taken. Conversations that wait before this one: {first.before}",
            f"동시에 답변할 수 있는 자리가 모두 찼습니다. 먼저 기다리는 대화: {first.before}개",
        )
    elif first.waits_for == "share":
        yield choose(
            language,
            "Your other conversations have all the seats that one person may have; this one is next when one ends.",
            "한 사람이 쓸 수 있는 자리를 다른 대화에서 모두 쓰고 있습니다. 그중 하나가 끝나면 이어서 답변합니다.",
        )


def choose(language: Language, english: str, korean: str) -> str:
    return korean if language == "ko" else english


def tell(text: str) -> CommandReply:
    """An answer that is for the caller alone, where the channel can do that."""
    return CommandReply(text, ephemeral=True)


def is_private(scope: CommandScope, sources: CommandSources) -> bool:
    """Whether nobody but the caller will read the answer."""
    return scope.inbound.chat_type == "direct" or sources.channel(scope.inbound.channel).ephemeral


def refuse_in_public(scope: CommandScope) -> CommandReply:
    return tell(
        choose(
            scope.language,
            "I answer this only in a direct chat, because others can read along here.",
            "다른 사람도 볼 수 있는 곳이라 1:1 대화에서만 답할 수 있습니다.",
        )
    )


# ── reports, and the commands for the owner ─────────────────────────────────────────────────────────────────

_MONTH: Final = 30  # days
_MOST_TURNS: Final = 200  # latest turns that are searched for the last one of a conversation


class ReportCommands:
    def __init__(self, sources: CommandSources) -> None:
        self._sources = sources

    def commands(self) -> Iterator[BasicCommand]:
        prefix = self._sources.prefix
        yield BasicCommand(
            name="status",
            names={"ko": "상태"},
            description="Shows how this conversation is answered / 이 대화의 상태",
            usage=f"{prefix}status",
            answer=self._status,
        )
        yield BasicCommand(
            name="context",
            names={"ko": "문맥"},
            description="Shows how full the context window is / 문맥 창 사용량",
            usage=f"{prefix}context",
            category="debug",
            answer=self._context,
        )
        yield BasicCommand(
            name="cost",
            names={"ko": "비용"},
            description="Shows what models have cost you / 모델 사용 비용",
            usage=f"{prefix}cost",
            answer=self._cost,
        )
        yield BasicCommand(
            name="config",
            names={"ko": "설정"},
            description="Shows the settings, without secrets / 설정 보기(비밀 값 제외)",
            usage=f"{prefix}config [section]",
            arguments=(CommandArgument("section", "such as agent / 예: agent", required=False),),
            category="admin",
            roles=("owner",),
            answer=self._config,
        )
        yield BasicCommand(
            name="debug",
            names={"ko": "진단"},
            description="Shows how the last answer was made / 마지막 답변이 만들어진 과정",
            usage=f"{prefix}debug [turn]",
            arguments=(CommandArgument("turn", "the id of a turn / 턴 id", required=False),),
            category="debug",
            roles=("owner",),
            answer=self._debug,
        )

    async def _status(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        sources = self._sources
        language = scope.language
        gateway = sources.gateway()
        kept = sources.kept(scope.session)
        here = choose(language, " (set for this conversation)", " (이 대화에서 정함)")
        lines: list[str] = []
        for option in ("model", "thinking", "verbosity", "queue"):
            own = getattr(kept, option)
            value = own or getattr(sources.defaults, option)
            if option == "model":
                value = sources.find_model(own).id
            lines.append(f"{OPTIONS[language][option]}: {value}{here if own else ''}")
        messages = len(await gateway.messages(scope.session))
        others = sources.waiting(scope.session) - 1
        lines += [
            choose(language, f"Messages in this conversation: {messages}", f"이 대화의 메시지: {messages}개"),
            choose(language, f"Messages without an answer yet: {others}", f"아직 답하지 않은 메시지: {others}개"),
        ]
        if gateway.market == "demo":
            lines.append(choose(language, "Prices: made up, for the demo", "시세: 데모용 가상 시세"))
        else:
            lines.append(choose(language, "Prices: live", "시세: 실시간"))
        return tell("\n".join(lines))

    async def _context(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        sources = self._sources
        messages = await sources.gateway().messages(scope.session)
        model = sources.kept(scope.session).model
        tokens = sources.measure(messages, model)
        window = sources.find_model(model).window
        share = 100 * tokens / window
        return tell(
            choose(
                scope.language,
                f"This conversation takes about {tokens:,} of {window:,} tokens ({share:.1f} %).\n"
                f"It is shortened by itself before it gets too long. {sources.prefix}reset starts anew.",
                f"이 대화는 {window:,}토큰 중 약 {tokens:,}토큰({share:.1f}%)을 쓰고 있습니다.\n"
                f"너무 길어지기 전에 자동으로 요약됩니다. {sources.prefix}reset으로 새로 시작할 수 있습니다.",
            )
        )

    async def _cost(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        if not is_private(scope, self._sources):
            return refuse_in_public(scope)
        language = scope.language
        gateway = self._sources.gateway()
        names = {scope.person.id, *scope.person.identities, *scope.person.former}
        month = await gateway.costs(_MONTH, "user")
        today_sum = _sum(await gateway.costs(1, "user"), names)
        month_sum = _sum(month, names)
        lines = [
            choose(language, f"You today: {today_sum}", f"오늘 내 사용액: {today_sum}"),
            choose(language, f"You in {_MONTH} days: {month_sum}", f"최근 {_MONTH}일 내 사용액: {month_sum}"),
        ]
        if overstated := sum(each.overstated for each in month if each.name in names):
            english = (
                f"The provider reported more than {overstated} of these calls could cost; they are limited to that."
            )
            korean = f"이 중 {overstated}건은 제공사가 보고한 사용량이 가능한 최대치를 넘어, 최대치까지만 계산했습니다."
            lines.append(choose(language, english, korean))
        if "owner" in scope.sender.roles:
            agent = await gateway.today()
            line = choose(language, "Everybody today: ", "오늘 전체 사용액: ") + _dollars(agent.cost)
            if agent.agent_day_usd is not None:
                line += choose(language, f" of ${agent.agent_day_usd}", f" / 한도 ${agent.agent_day_usd}")
            lines.append(line)
        return tell("\n".join(lines))

    async def _config(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        sources = self._sources
        language = scope.language
        if not is_private(scope, sources):
            return refuse_in_public(scope)
        section = next(iter(args), "")
        lines = [redact_for_display(line) for line in sources.describe_settings(section)]
        if not section:
            english = (
                f"Settings that differ from the defaults; {sources.prefix}config agent shows a section. "
                "They are changed in the settings file alone."
            )
            korean = (
                f"기본값과 다른 설정입니다. {sources.prefix}config agent처럼 쓰면 한 부분을 모두 보여 줍니다. "
                "설정은 설정 파일에서만 바꿀 수 있습니다."
            )
            lines.insert(0, choose(language, english, korean))
        elif not lines:
            lines = [choose(language, f"There is no setting {section!r}.", f"{section!r} 설정은 없습니다.")]
        return tell("\n".join(lines))

    async def _debug(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        if not is_private(scope, self._sources):
            return refuse_in_public(scope)
        language = scope.language
        gateway = self._sources.gateway()
        wanted = next(iter(args), "")
        if not wanted:
            turns = await gateway.turns(_MOST_TURNS)
            wanted = next((each.turn_id for each in turns if each.session == scope.session), "")
        if not wanted:
            return tell(choose(language, "Nothing was answered here yet.", "여기서 답변한 것이 아직 없습니다."))
        trace = await gateway.turn(wanted)
        if trace is None:
            return tell(choose(language, "There is no such turn.", "그런 턴이 없습니다."))
        return tell(redact_for_display("\n".join(_trace_lines(trace, language))))


def _trace_lines(trace: TurnTrace, language: Language) -> Iterator[str]:
    record = trace.record
    outcome = trace.outcome
    yield f"turn {record.turn_id}: {record.status}, {record.steps} steps, ${record.cost}"
    if outcome is not None:
        yield f"outcome: {outcome.kind} {outcome.reason}".rstrip()
        yield f"model: {outcome.model or '–'}, {outcome.duration_ms:.0f} ms"
        yield "stages: " + ", ".join(f"{each.name} {each.ms:g} ms" for each in outcome.stages)
        if outcome.tools:
            yield "tools: " + ", ".join(f"{each.name} {each.status}" for each in outcome.tools)
    yield choose(language, f"All of it: finclaw trace {record.turn_id}", f"자세히 보기: finclaw trace {record.turn_id}")


def _sum(costs: Sequence[Cost], names: set[str]) -> str:
    return _dollars(sum((each.cost for each in costs if each.name in names), Decimal(0)))


def _dollars(amount: Decimal) -> str:
    """With four places below a dollar: a question often costs less than a cent."""
    places = 4 if 0 < amount < 1 else 2
    return f"${amount:,.{places}f}"
