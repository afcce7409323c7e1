"""The extension that remembers what a person means by a name that several instruments go by.

It is asked before a tool of the market runs: a name that this person has settled becomes its instrument, and a coin the
one that is priced in their currency. Nothing is learned from what a model does by itself: it says what the person has
answered, and only a candidate of that very name is taken.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from finclaw.errors import ToolDenied, ToolError
from finclaw.finance.instrument import Ambiguous, Instrument, InstrumentIndex, unique_symbol
from finclaw.finance.instruments.catalogue import key_of_name, spellings
from finclaw.kernel.extension import Database, ExtensionApi
from finclaw.kernel.message import ToolResult
from finclaw.kernel.person import Person
from finclaw.kernel.port import Clock, Tool, ToolOutput, ToolScope
from finclaw.kernel.record import Erasure
from finclaw.kernel.scope import ToolCallContext
from finclaw.text import language_of
from finclaw.tools.define import tool

MIGRATIONS: Final = (
    """
    CREATE TABLE choices (
        person TEXT NOT NULL,
        name TEXT NOT NULL,
        symbol TEXT NOT NULL,
        chosen_at TEXT NOT NULL,
        PRIMARY KEY (person, name)
    )
    """,
)
MOST_CHOICES: Final = 500

_PREFIXES = ("market__", "alert__", "watch__", "portfolio__")
_DESCRIPTION = (
    "Remembers which instrument this person means by a name that several go by, so that they are not asked again. Call "
    "it only after you asked and they answered. Leave the symbol out to forget it."
)


class ChoiceArguments(Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(min_length=1, max_length=80, description="The name as the person said it: 삼성, Google.")]
    symbol: Annotated[str | None, Meta(description="The candidate that they chose, as it was listed.")] = None


class NameChoices:
    """What persons mean by names, in a database. A name is kept by its key."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def find(self, person: str, keys: Sequence[str]) -> str | None:
        marks = ", ".join("?" * len(keys))
        rows = await self._database.execute(
            f"SELECT name, symbol FROM choices WHERE person = ? AND name IN ({marks})", *(person, *keys)
        )
        chosen = {str(name): str(symbol) for name, symbol in rows}
        return next((chosen[key] for key in keys if key in chosen), None)

    async def keep(self, person: str, key: str, symbol: str) -> None:
        at = self._clock.now().isoformat()
        ((count,),) = await self._database.execute("SELECT count(*) FROM choices WHERE person = ?", person)
        if int(count) >= MOST_CHOICES:
            raise ToolError(f"{MOST_CHOICES} names are remembered already. Ask the person which one to forget.")
        await self._database.execute(
            "INSERT INTO choices (person, name, symbol, chosen_at) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (person, name) DO UPDATE SET symbol = excluded.symbol, chosen_at = excluded.chosen_at",
            *(person, key, symbol, at),
        )

    async def drop(self, person: str, key: str) -> None:
        await self._database.execute("DELETE FROM choices WHERE person = ? AND name = ?", person, key)

    async def forget(self, person: str) -> None:
        await self._database.execute("DELETE FROM choices WHERE person = ?", person)


class InstrumentChoices:
    name = "instruments"

    def __init__(self, index: InstrumentIndex) -> None:
        self._index = index

    def register(self, api: ExtensionApi) -> None:
        self._choices = NameChoices(api.database(MIGRATIONS), api.clock)
        api.tools.register(self._tool())
        api.pipeline.register("tool_call", self.apply_choices)
        api.on_forget(self.forget_person)

    async def forget_person(self, erasure: Erasure) -> None:
        if erasure.person is not None:
            for name in erasure.names:
                await self._choices.forget(name)

    async def apply_choices(self, ctx: ToolCallContext) -> ToolResult:
        """Put the instrument in a name's place before the tool reads it. The tool checks its arguments as ever."""
        person = ctx.turn.context.person
        if ctx.tool_name.startswith(_PREFIXES) and ctx.tool_name != "market__choose" and person.id:
            ctx.args = await self._settle_names(ctx.args, person, currency_of(person, ctx.turn.context.body))
        return await ctx.next()

    async def _settle_names(self, args: Mapping[str, Any], person: Person, currency: str) -> dict[str, Any]:
        settled = dict(args)
        if isinstance(one := args.get("symbol"), str):
            settled["symbol"] = await self._settle(one, person, currency)
        if isinstance(args.get("symbols"), list):
            several: list[Any] = args["symbols"]
            settled["symbols"] = [
                await self._settle(each, person, currency) if isinstance(each, str) else each for each in several
            ]
        return settled

    async def settle_name(self, name: str, person: Person) -> str:
        if not person.id:
            return name
        return await self._settle(name, person, currency_of(person, name))

    async def _settle(self, name: str, person: Person, currency: str) -> str:
        found = self._index.find(name, currency)
        if isinstance(found, Instrument) and found.kind == "coin" and currency:
            return found.symbol
        if isinstance(found, Ambiguous):
            chosen = await self._choices.find(person.id, list(spellings(name)))
            for each in found.candidates:
                if _choice_of(each) == chosen:
                    return unique_symbol(self._index, each)
        return name

    def _tool(self) -> Tool:
        @tool("market__choose", _DESCRIPTION, group="finance", changes=True, parallel_safe=False)
        async def choose(args: ChoiceArguments, scope: ToolScope) -> ToolOutput:
            if not scope.person:
                raise ToolDenied("a choice belongs to a person, and no person speaks here; go on without it")
            if args.symbol is None:
                await self._choices.drop(scope.person, key_of_name(args.name))
                return ToolOutput(f'Forgotten: what is meant by "{args.name}" is asked again.')
            chosen = self._pick(args.name, args.symbol)
            await self._choices.keep(scope.person, key_of_name(args.name), _choice_of(chosen))
            return ToolOutput(f'Remembered: "{args.name}" is {chosen.title} [{chosen.symbol}] for this person.')

        return choose

    def _pick(self, name: str, symbol: str) -> Instrument:
        found = self._index.find(name)
        if not isinstance(found, Ambiguous):
            raise ToolError(f'"{name}" is not a name of several instruments: there is nothing to remember.')
        named = self._index.find(symbol)
        for each in found.candidates:
            if each == named or symbol in (each.symbol, each.id):
                return each
        listed = ", ".join(each.symbol for each in found.candidates)
        raise ToolError(f'"{symbol}" is no candidate for "{name}". They are: {listed}. Ask the user.')


def currency_of(person: Person, text: str) -> str:
    """What coins are priced in for this person: their own currency, else won for whoever writes Korean, else ""."""
    if person.currency:
        return person.currency
    if person.language.startswith("ko") or language_of(text) == "ko":
        return "KRW"
    return ""


def _choice_of(instrument: Instrument) -> str:
    """What is stored: of a coin without its currency, which may change with the person's."""
    return f"{instrument.exchange}:{instrument.bare_symbol}"
