"""Tool search: when there are too many tools to show, the model sees a few and finds the others with `tools__search`.

What it finds stays with the session, durably, and is there from the next step on. The search always goes over
everything that this turn may use, never over what an earlier search has left visible.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Annotated, Final, cast

from msgspec import Meta, Struct, ValidationError, convert

from finclaw.builtins.ranking import rank, words
from finclaw.errors import SessionError, ToolError
from finclaw.kernel.chunk import ToolSpec
from finclaw.kernel.extension import ExtensionApi, StateApi
from finclaw.kernel.port import Tool, ToolOutput, ToolScope
from finclaw.kernel.scope import StepContext, StepResult
from finclaw.text import shorten
from finclaw.tools.define import tool

NAME: Final = "tools__search"
_LONGEST: Final = 2_000  # characters of a description that count for the ranking
_SHOWN: Final = 200
"""Characters of a description that a search shows; the whole of it comes with the tool."""


class SearchSettings(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1)] = 40
    """Up to so many tools are all shown, and there is no search."""
    keep: Annotated[int, Meta(ge=1)] = 20
    """So many found ones stay with a session; the longest unused makes room."""
    always: tuple[str, ...] = ("alert__*", "calc__*", "fx__*", "market__*", "portfolio__*", "read_result", "time__*")
    """Tools that are shown whatever happens, by name or pattern. What the gateway is for should need no search."""


class Search(Struct):
    query: Annotated[str, Meta(min_length=1, max_length=400, description="What the tool should do, in a few words.")]
    limit: Annotated[int, Meta(ge=1, le=10, description="How many to find at most.")] = 5


class ToolSearch:
    name = "tool-search"

    def __init__(self, settings: SearchSettings | None = None) -> None:
        self._settings = settings or SearchSettings()
        self._catalogs: dict[str, tuple[ToolSpec, ...]] = {}
        """Of the steps that are running, by turn: everything that can be found there."""

    def register(self, api: ExtensionApi) -> None:
        self._logger = api.logger
        self._selection = Selection(api.state, self._settings.keep)
        api.tools.register(self._tool())
        api.pipeline.register("step", self.narrow)

    async def narrow(self, ctx: StepContext) -> StepResult:
        others = tuple(spec for spec in ctx.tool_catalog if spec.name != NAME)
        if len(others) == len(ctx.tool_catalog):  # this turn may not search: what is hidden would be lost
            return await ctx.next()
        session = ctx.ids["session"]
        turn = ctx.ids["turn_id"]
        visible = self._visible(ctx, others, await self._selection.of(session))
        if visible == others:
            ctx.tool_catalog = others
            return await ctx.next()
        ctx.tool_catalog = tuple(spec for spec in ctx.tool_catalog if spec.name == NAME or spec in visible)
        self._catalogs[turn] = others
        try:
            result = await ctx.next()
        finally:
            self._catalogs.pop(turn, None)
        await self._note_use(session, result)
        return result

    async def _note_use(self, session: str, result: StepResult) -> None:
        try:
            await self._selection.use(session, [call.name for call in result.tool_calls])
        except SessionError as error:  # which tool was used last is not worth an answer
            self._logger.warning("the order of the tools in use was not kept: %s", error)

    def _visible(
        self, ctx: StepContext, catalog: tuple[ToolSpec, ...], selected: Iterable[str]
    ) -> tuple[ToolSpec, ...]:
        """In the catalog's own order, so that the same tools are the same request.

        While there are few, only those are kept back whose group is shown on demand.
        """
        found = set(selected)
        kept_back = ctx.turn.on_demand()
        few = len(catalog) <= self._settings.limit
        return tuple(
            spec
            for spec in catalog
            if spec.name in found or self._is_always_shown(spec.name) or (few and spec.name not in kept_back)
        )

    def _is_always_shown(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self._settings.always)

    def _tool(self) -> Tool:
        @tool(
            NAME,
            "Finds tools that are not shown yet. Say what you need; what is found can be called from the next step on.",
            group="tools",
            parallel_safe=False,  # two searches at once would each forget what the other has found
        )
        async def search(args: Search, scope: ToolScope) -> ToolOutput:
            found = find(args.query, self._catalogs.get(scope.turn_id, ()))[: args.limit]
            if not found:
                raise ToolError(f"nothing fits {args.query!r}; say in other words what the tool should do")
            hidden = [spec.name for spec in found if not self._is_always_shown(spec.name)]
            await self._selection.add(scope.session, hidden)
            lines = [f"- {spec.name}: {shorten(' '.join(spec.description.split()), _SHOWN)}" for spec in found]
            return ToolOutput("\n".join(["From the next step on you can call:", *lines]))

        return search


class _Selected(Struct):
    selected: list[str]


class Selection:
    """The tools a session has found, the longest unused first. Kept on disk."""

    def __init__(self, state: StateApi, keep: int) -> None:
        self._state = state
        self._keep = keep

    async def of(self, session: str) -> list[str]:
        try:
            return convert(await self._state.get(session), _Selected).selected
        except ValidationError:  # nothing yet, or not what was written here
            return []

    async def add(self, session: str, names: Iterable[str]) -> None:
        before = await self.of(session)
        new = list(dict.fromkeys(reversed(list(names))))  # the best match is the last to go
        after = [*(each for each in before if each not in new), *new][-self._keep :]
        if after != before:
            await self._state.set({"selected": after}, session)

    async def use(self, session: str, names: Iterable[str]) -> None:
        used = [each for each in dict.fromkeys(names) if each != NAME]
        if used:
            known = set(await self.of(session))
            await self.add(session, [each for each in used if each in known])


def find(query: str, catalog: Sequence[ToolSpec]) -> list[ToolSpec]:
    """Those that fit, best first."""
    return [catalog[place] for place in rank(query, [_words_of(spec) for spec in catalog])]


def _words_of(spec: ToolSpec) -> Mapping[str, float]:
    properties = spec.input_schema.get("properties")
    arguments = ""
    if isinstance(properties, dict):  # a schema may be untrusted
        arguments = " ".join(map(str, cast("dict[object, object]", properties)))
    return _word_weights(spec.name, f"{spec.description[:_LONGEST]} {arguments}")


@lru_cache(maxsize=4_096)
def _word_weights(name: str, about: str) -> Mapping[str, float]:
    """A name says in two words what a description says in twenty."""
    counted = Counter(words(about))
    counted.update({word: 3 * count for word, count in Counter(words(name)).items()})
    return counted


name = ToolSearch.name


def register(api: ExtensionApi) -> None:
    ToolSearch(api.read_settings(SearchSettings)).register(api)
