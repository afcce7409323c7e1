"""A tool with which the model ends its turn: with what it has just said, or without a word to anybody.

It does what the control token NO_REPLY does, and cannot be misspelt.
"""

from typing import Annotated, Final

from msgspec import Meta
from msgspec.structs import replace

from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.message import Text
from finclaw.kernel.scope import StepContext, StepResult
from finclaw.tools.define import tool

NAME: Final = "end_turn"
_SILENCE: Final = "<<NO_REPLY>>"
_SILENT: Final = "The turn ends here; nobody gets an answer."
_ANSWERED: Final = "The turn ends with what you have said beside this call. If you said nothing, say it now."


@tool(NAME, group="agent", isolation="loop")
def end_turn(
    reply: Annotated[bool, Meta(description="False: nobody gets an answer. True: your words beside this call are it.")],
    reason: Annotated[str, Meta(description="Why, in a few words. Only the operator reads it.", max_length=500)] = "",
) -> str:
    """Ends this turn at once. For a message that needs no answer, such as thanks or one that is not meant for you."""
    if reply:
        return _ANSWERED
    return _SILENT


class EndTurn:
    name = NAME

    def register(self, api: ExtensionApi) -> None:
        api.tools.register(end_turn)
        # Outermost, so that every other layer still sees the step as it was, calls and all.
        api.pipeline.register("step", self.end, priority=-1000)

    async def end(self, ctx: StepContext) -> StepResult:
        """A step without calls is a turn's last, so this one gets a message without them. The log keeps them."""
        step = await ctx.next()
        wish = next((call.id for call in step.tool_calls if call.name == NAME), None)
        # The result decides, because the call as the model wrote it may have been refused.
        result = next((each.content for each in step.tool_results if each.call_id == wish), "")
        text = ""
        if result.startswith(_SILENT):
            text = _SILENCE
        elif result.startswith(_ANSWERED):
            text = step.message.text
        if not text.strip():
            return step
        return replace(step, message=replace(step.message, blocks=(Text(text),)))
