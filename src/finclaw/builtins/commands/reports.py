"""Commands that report on a conversation: /status, /context and /cost."""

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


def report_commands(sources: CommandSources) -> Iterator[BasicCommand]:
    prefix = sources.prefix

    async def status(args: Sequence[str], scope: CommandScope) -> CommandReply:
        return tell("\n".join(await _status_lines(sources, scope)))

    async def context(args: Sequence[str], scope: CommandScope) -> CommandReply:
        return tell(await _context_text(sources, scope))

    async def cost(args: Sequence[str], scope: CommandScope) -> CommandReply:
        if not is_private(scope, sources):
            return refuse_in_public(scope)
        return tell("\n".join(await _cost_lines(sources, scope)))

    yield BasicCommand(
        name="status",
        names={"ko": "상태"},
        description="Shows how this conversation is answered / 이 대화의 상태",
        usage=f"{prefix}status",
        answer=status,
    )
    yield BasicCommand(
        name="context",
        names={"ko": "문맥"},
        description="Shows how full the context window is / 문맥 창 사용량",
        usage=f"{prefix}context",
        category="debug",
        answer=context,
    )
    yield BasicCommand(
        name="cost",
        names={"ko": "비용"},
        description="Shows what models have cost you / 모델 사용 비용",
        usage=f"{prefix}cost",
        answer=cost,
    )


async def _status_lines(sources: CommandSources, scope: CommandScope) -> list[str]:
    language, gateway = scope.language, sources.gateway()
    kept, labels = sources.kept(scope.session), OPTIONS[language]
    here = choose(language, " (set for this conversation)", " (이 대화에서 정함)")
    lines = list[str]()
    for option in ("model", "thinking", "verbosity", "queue"):
        own = getattr(kept, option)
        value = sources.find_model(kept.model).id if option == "model" else own or getattr(sources.defaults, option)
        lines.append(f"{labels[option]}: {value}{here if own else ''}")
    messages, others = len(await gateway.messages(scope.session)), sources.waiting(scope.session) - 1
    lines.append(choose(language, f"Messages in this conversation: {messages}", f"이 대화의 메시지: {messages}개"))
    lines.append(choose(language, f"Messages without an answer yet: {others}", f"아직 답하지 않은 메시지: {others}개"))
    lines.append(_market_line(gateway.market, scope))
    return lines


def _market_line(market: str, scope: CommandScope) -> str:
    if market == "demo":
        return choose(scope.language, "Prices: made up, for the demo", "시세: 데모용 가상 시세")
    return choose(scope.language, "Prices: live", "시세: 실시간")


async def _context_text(sources: CommandSources, scope: CommandScope) -> str:
    messages, wanted = await sources.gateway().messages(scope.session), sources.kept(scope.session).model
    tokens, window = sources.measure(messages, wanted), sources.find_model(wanted).window
    language, share = scope.language, 100 * tokens / window
    return choose(
        language,
        f"This conversation takes about {tokens:,} of {window:,} tokens ({share:.1f} %).\n"
        f"It is shortened by itself before it gets too long. {sources.prefix}reset starts anew.",
        f"이 대화는 {window:,}토큰 중 약 {tokens:,}토큰({share:.1f}%)을 쓰고 있습니다.\n"
        f"너무 길어지기 전에 자동으로 요약됩니다. {sources.prefix}reset으로 새로 시작할 수 있습니다.",
    )


async def _cost_lines(sources: CommandSources, scope: CommandScope) -> list[str]:
    language, gateway, person = scope.language, sources.gateway(), scope.person
    names = {person.id, *person.identities, *person.former}
    today, month = await gateway.costs(1, "user"), await gateway.costs(_MONTH, "user")
    lines = [
        choose(language, f"You today: {_sum(today, names)}", f"오늘 내 사용액: {_sum(today, names)}"),
        choose(
            language, f"You in {_MONTH} days: {_sum(month, names)}", f"최근 {_MONTH}일 내 사용액: {_sum(month, names)}"
        ),
    ]
    overstated = sum(each.overstated for each in month if each.name in names)
    if overstated:
        lines.append(
            choose(
                language,
                f"The provider reported more than {overstated} of these calls could cost; they are limited to that.",
                f"이 중 {overstated}건은 제공사가 보고한 사용량이 가능한 최대치를 넘어, 최대치까지만 계산했습니다.",
            )
        )
    if "owner" in scope.sender.roles:
        agent = await gateway.today()
        limit = (
            ""
            if agent.agent_day_usd is None
            else choose(language, " of ${0}", " / 한도 ${0}").format(agent.agent_day_usd)
        )
        lines.append(choose(language, "Everybody today: ", "오늘 전체 사용액: ") + f"{_dollars(agent.cost)}{limit}")
    return lines


def _sum(costs: Sequence[Cost], names: set[str]) -> str:
    return _dollars(sum((each.cost for each in costs if each.name in names), Decimal(0)))


def _dollars(amount: Decimal) -> str:
    """With four places: a question often costs less than a cent."""
    return f"${amount:,.4f}" if amount and amount < 1 else f"${amount:,.2f}"


_MOST_TURNS: Final = 200
"""Latest turns among which this conversation's last one is looked for."""


def operator_commands(sources: CommandSources) -> Iterator[BasicCommand]:
    prefix = sources.prefix

    async def config(args: Sequence[str], scope: CommandScope) -> CommandReply:
        if not is_private(scope, sources):
            return refuse_in_public(scope)
        return tell(_config_text(sources, args[0] if args else "", scope.language))

    async def debug(args: Sequence[str], scope: CommandScope) -> CommandReply:
        if not is_private(scope, sources):
            return refuse_in_public(scope)
        return tell(await _debug_text(sources, args[0] if args else "", scope))

    yield BasicCommand(
        name="config",
        names={"ko": "설정"},
        description="Shows the settings, without secrets / 설정 보기(비밀 값 제외)",
        usage=f"{prefix}config [section]",
        arguments=(CommandArgument("section", "such as agent / 예: agent", required=False),),
        category="admin",
        roles=("owner",),
        answer=config,
    )
    yield BasicCommand(
        name="debug",
        names={"ko": "진단"},
        description="Shows how the last answer was made / 마지막 답변이 만들어진 과정",
        usage=f"{prefix}debug [turn]",
        arguments=(CommandArgument("turn", "the id of a turn / 턴 id", required=False),),
        category="debug",
        roles=("owner",),
        answer=debug,
    )


def _config_text(sources: CommandSources, section: str, language: Language) -> str:
    lines = [redact_for_display(line) for line in sources.describe_settings(section)]
    if not lines and section:
        return choose(language, f"There is no setting {section!r}.", f"{section!r} 설정은 없습니다.")
    heading = choose(
        language,
        f"Settings that differ from the defaults; {sources.prefix}config agent shows a section. "
        "They are changed in the settings file alone.",
        f"기본값과 다른 설정입니다. {sources.prefix}config agent처럼 쓰면 한 부분을 모두 보여 줍니다. "
        "설정은 설정 파일에서만 바꿀 수 있습니다.",
    )
    return "\n".join(lines if section else [heading, *lines])


async def _debug_text(sources: CommandSources, wanted: str, scope: CommandScope) -> str:
    gateway, language = sources.gateway(), scope.language
    if not wanted:
        turns = await gateway.turns(_MOST_TURNS)
        wanted = next((each.turn_id for each in turns if each.session == scope.session), "")
    trace = await gateway.turn(wanted) if wanted else None
    if trace is None:
        return (
            choose(language, "There is no such turn.", "그런 턴이 없습니다.")
            if wanted
            else choose(language, "Nothing was answered here yet.", "여기서 답변한 것이 아직 없습니다.")
        )
    return redact_for_display("\n".join(_trace_lines(trace, language)))


def _trace_lines(trace: TurnTrace, language: Language) -> Iterator[str]:
    record, outcome = trace.record, trace.outcome
    yield f"turn {record.turn_id}: {record.status}, {record.steps} steps, ${record.cost}"
    if outcome is not None:
        yield f"outcome: {outcome.kind} {outcome.reason}".rstrip()
        yield f"model: {outcome.model or '–'}, {outcome.duration_ms:.0f} ms"
        yield "stages: " + ", ".join(f"{each.name} {each.ms:g} ms" for each in outcome.stages)
        if outcome.tools:
            yield "tools: " + ", ".join(f"{each.name} {each.status}" for each in outcome.tools)
    yield choose(language, f"All of it: finclaw trace {record.turn_id}", f"자세히 보기: finclaw trace {record.turn_id}")
