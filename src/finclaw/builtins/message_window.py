"""A message window: when there are more than the limit, the oldest exchanges leave the conversation for good.

It cuts deeper than it must, and seldom: a conversation that loses its first message every turn has a new beginning
every turn, and what a model's cache had kept of it is worthless each time.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Annotated

from msgspec import Meta, Struct

from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.message import Message, Truncate
from finclaw.kernel.scope import TurnContext, TurnResult
from finclaw.transcript.integrity import calls_of, match_results


class WindowSettings(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1)] = 200
    """More messages than these are cut when a turn begins."""
    keep: Annotated[int, Meta(ge=1)] | None = None
    """At most so many are left then; three quarters of the limit, unless it says otherwise."""

    @property
    def kept_messages(self) -> int:
        return min(self.limit, self.keep or -(-self.limit * 3 // 4))


class MessageWindow:
    name = "message-window"

    def __init__(self, settings: WindowSettings | None = None) -> None:
        self._settings = settings or WindowSettings()

    def register(self, api: ExtensionApi) -> None:
        self._logger = api.logger
        api.pipeline.register("turn", self.cut)

    async def cut(self, ctx: TurnContext) -> TurnResult:
        messages = [each for each in ctx.conversation.next_messages if not each.passing]
        if len(messages) > self._settings.limit:
            start = window_start(messages, self._settings.kept_messages, ctx.input.id)
            if start:
                ctx.emit_message_event(Truncate(len(messages) - start))
                self._logger.info("old messages left the conversation", extra={"cut": start})
        return await ctx.next()


def window_start(messages: Sequence[Message], keep: int, input_id: str) -> int:
    """Where the window begins: at a person's words, with no result behind it whose call lies before it.

    It holds at most `keep` messages, or more where only that keeps the current input in it. 0: nothing can be cut.
    """
    current = next((place for place, each in enumerate(messages) if each.id == input_id), len(messages) - 1)
    whole = _whole_from(messages)
    places = [place for place in range(current + 1) if messages[place].role == "user" and whole[place]]
    wanted = len(messages) - keep
    return next((place for place in places if place >= wanted), max(places, default=0))


def _whole_from(messages: Sequence[Message]) -> list[bool]:
    """For each place, whether a cut there parts no call from its result."""
    parted = [0] * (len(messages) + 1)
    for found in match_results(messages, calls_of(messages)):
        if found.call is not None and found.call.place != found.place:
            early, late = sorted((found.call.place, found.place))
            parted[early + 1] += 1
            parted[late + 1] -= 1
    return [count == 0 for count in accumulate(parted)]


name = MessageWindow.name


def register(api: ExtensionApi) -> None:
    MessageWindow(api.read_settings(WindowSettings)).register(api)
