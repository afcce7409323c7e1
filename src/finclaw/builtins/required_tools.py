"""Required tools for some questions: until the tools they need have run, the model is asked again.

An answer that came too early is not delivered and leaves the conversation. After a few tries the person is told
plainly, instead of being given an answer that rests on nothing.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Final

from msgspec import Meta, Struct
from msgspec.structs import replace

from finclaw.errors import ExtensionError
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.message import Append, Message, Remove, ToolResult
from finclaw.kernel.scope import StepContext, StepResult, ToolCallContext, TurnContext, TurnResult
from finclaw.text import Language, language_of

_NOT_YET: Final = "Your answer was not delivered. Before you answer, call:"
_LONGEST: Final = 4_000  # characters of a message that rules are matched against
_NOT_RUN: Final = frozenset({"invalid", "denied", "awaiting", "unavailable", "stopped", "skipped"})

_GIVEN_UP: Final[dict[Language, str]] = {
    "en": "Sorry, I could not look this up, so I would rather not answer. Please ask again.",
    "ko": "죄송합니다. 필요한 조회를 하지 못해 답하지 않겠습니다. 다시 물어봐 주세요.",
}


class ToolRequirement(Struct, frozen=True, forbid_unknown_fields=True):
    """A rule: when the person's text has `when` in it, all of the tools must have run; with `any`, one of them."""

    tools: Annotated[tuple[str, ...], Meta(min_length=1)]
    when: str = ""
    any: bool = False


class RequiredSettings(Struct, frozen=True, forbid_unknown_fields=True):
    tools: tuple[str, ...] = ()
    """Required whatever was asked."""
    rules: tuple[ToolRequirement, ...] = ()
    tries: Annotated[int, Meta(ge=0)] = 2
    """How often the model is asked again."""
    given_up: str = ""
    """What the person is told then; a line in their language, unless it says otherwise."""


class RequiredTools:
    name = "required-tools"

    def __init__(self, settings: RequiredSettings) -> None:
        self._settings = settings
        rules = [ToolRequirement(settings.tools), *settings.rules]
        self._rules = [(_compile(rule.when), rule) for rule in rules if rule.tools]
        self._names = {tool for _, rule in self._rules for tool in rule.tools}

    def register(self, api: ExtensionApi) -> None:
        self._logger = api.logger
        api.pipeline.register("step", self.ask_again)
        api.pipeline.register("turn", self.give_up)
        api.pipeline.register("tool_call", self.refuse_unseen)

    async def ask_again(self, ctx: StepContext) -> StepResult:
        result = await ctx.next()
        if result.has_tool_calls or result.again or result.status == "failed":
            return result
        missing = self._missing_tools(ctx.turn)
        if not missing or _tries(ctx.turn) >= self._settings.tries:
            return result
        ctx.emit_message_event(Remove(result.message.id))
        return replace(result, again=f"{_NOT_YET} {'; '.join(missing)}")

    async def refuse_unseen(self, ctx: ToolCallContext) -> ToolResult:
        """The core refuses it anyway, with an error that looks like the tool's own; that must not count as a look."""
        if ctx.tool_name not in self._names or ctx.tool_name in {spec.name for spec in ctx.step.tool_catalog}:
            return await ctx.next()
        return ToolResult(ctx.call_id, ctx.tool_name, f"{ctx.tool_name} is not shown and did not run", "denied")

    async def give_up(self, ctx: TurnContext) -> TurnResult:
        """Also when the steps ran out before: the closing answer passes no step layer."""
        result = await ctx.next()
        if result.status not in ("completed", "max_steps") or not (missing := self._missing_tools(ctx)):
            return result
        self._logger.warning("an answer was withheld: %s never ran", "; ".join(missing))
        return replace(result, text=self._settings.given_up or _GIVEN_UP[language_of(ctx.input.text)])

    def _missing_tools(self, turn: TurnContext) -> list[str]:
        """In words, what is still to be called. A tool that this turn may not use cannot be asked for."""
        text = turn.input.text[:_LONGEST]
        offered = {spec.name for spec in turn.tool_catalog}
        ran = set(_ran(turn))
        return [
            words for when, rule in self._rules if when.search(text) and (words := _missing_of_rule(rule, offered, ran))
        ]


def _missing_of_rule(rule: ToolRequirement, offered: set[str], ran: set[str]) -> str:
    possible = [tool for tool in rule.tools if tool in offered]
    if rule.any and ran.intersection(rule.tools):
        return ""
    if rule.any:
        return " or ".join(possible)
    return ", ".join(tool for tool in possible if tool not in ran)


def _ran(turn: TurnContext) -> Iterator[str]:
    """What was looked up in this turn. A failure is an answer too; a call that was never let through is not."""
    for message in _appended_messages(turn):
        if message.source.kind == "tool":
            yield from (result.name for result in message.tool_results if result.status not in _NOT_RUN)


def _tries(turn: TurnContext) -> int:
    """Counted in the log, so that a turn which resumes after a crash does not begin anew."""
    return sum(1 for message in _appended_messages(turn) if message.passing and message.text.startswith(_NOT_YET))


def _appended_messages(turn: TurnContext) -> Iterable[Message]:
    return (event.message for event in turn.conversation.events if isinstance(event, Append))


def _compile(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern, re.IGNORECASE)
    except re.error as error:
        raise ExtensionError(f"the rule {pattern!r} is no regular expression: {error}") from error


name = RequiredTools.name


def register(api: ExtensionApi) -> None:
    RequiredTools(api.read_settings(RequiredSettings)).register(api)
