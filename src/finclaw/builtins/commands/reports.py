"""Commands that report on a conversation, /status, /context and /cost, and those for the owner, /config and /debug."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Final

from finclaw.builtins.basics import BasicCommand
from finclaw.builtins.commands.sources import CommandSources, choose, is_private, refuse_in_public, tell
from finclaw.commands.words import OPTIONS
from finclaw.kernel.port import CommandArgument, CommandReply, CommandScope
from finclaw.kernel.record import Cost, TurnTrace
from finclaw.redaction.redact import redact_for_display
from finclaw.text import Language

_MONTH: Final = 30
"""Days."""
_MOST_TURNS: Final = 200
"""Latest turns that are searched for the last one of a conversation."""


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
        lines.append(choose(language, f"Messages in this conversation: {messages}", f"이 대화의 메시지: {messages}개"))
        lines.append(
            choose(language, f"Messages without an answer yet: {others}", f"아직 답하지 않은 메시지: {others}개")
        )
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
