"""Commands that report on a conversation: /status, /context and /cost."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Final

from finclaw.builtins.basics import BasicCommand
from finclaw.builtins.commands.sources import CommandSources, choose, is_private, refuse_in_public, tell
from finclaw.commands.words import OPTIONS
from finclaw.kernel.port import CommandReply, CommandScope
from finclaw.kernel.record import Cost

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
