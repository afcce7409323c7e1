"""A passing note about this turn alone, for the model; what it says is decided by the prompt's author."""

from collections.abc import Callable
from typing import Final

from finclaw.builtins.note import put_note
from finclaw.kernel.context import Context
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.scope import TurnContext, TurnResult
from finclaw.taint.sources import context_sources

KEY: Final = "moment"


class Moment:
    name = "moment"

    def __init__(self, written: Callable[[Context], str]) -> None:
        self._written = written

    def register(self, api: ExtensionApi) -> None:
        api.pipeline.register("turn", self.tell)

    async def tell(self, ctx: TurnContext) -> TurnResult:
        if note := self._written(ctx.context):
            put_note(ctx, KEY, note, context_sources(ctx.context.provided))
        return await ctx.next()
