"""Commands for the owner, which only read: /config and /debug."""

from collections.abc import Iterator, Sequence
from typing import Final

from finclaw.builtins.basics import BasicCommand
from finclaw.builtins.commands.sources import CommandSources, choose, is_private, refuse_in_public, tell
from finclaw.kernel.port import CommandArgument, CommandReply, CommandScope
from finclaw.kernel.record import TurnTrace
from finclaw.redaction.redact import redact_for_display
from finclaw.text import Language

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
