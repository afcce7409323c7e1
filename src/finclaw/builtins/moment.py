"""A passing note about this turn alone, for the model; what it says is decided by the prompt's author."""

from collections.abc import Callable
from typing import Final

from finclaw.builtins.note import put_note
from finclaw.kernel.context import Context
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.scope import TurnContext, TurnResult

KEY: Final = "moment"


class Moment:
    name = "moment"

    def __init__(
        self, written: Callable[[Context], str], strangers: Callable[[Context], tuple[str, ...]] = lambda _: ()
    ) -> None:
        """`strangers` says whose words the note holds, where they are not ours or the person's."""
        self._written = written
        self._strangers = strangers

    def register(self, api: ExtensionApi) -> None:
        api.pipeline.register("turn", self.tell)

    async def tell(self, ctx: TurnContext) -> TurnResult:
        if note := self._written(ctx.context):
            put_note(ctx, KEY, note, self._strangers(ctx.context))
        return await ctx.next()
