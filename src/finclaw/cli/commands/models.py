"""`finclaw models`: every model that `agent.model` may name, and what is known of one of them."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

import msgspec

from finclaw.cli.arguments import add_json_option, add_state_options, settings_to_look
from finclaw.cli.formatting import UNKNOWN, fit_table, print_result, short
from finclaw.config.routes import open_catalog
from finclaw.kernel.chunk import Features, Price, ThinkingOff
from finclaw.kernel.envelope import THOUGHTS
from finclaw.providers.catalog import CatalogEntry

_HEAD = ("", "MODEL", "ALIASES", "WINDOW", "OUTPUT", "IN $/M", "OUT", "CACHED", "CAN", "FROM")
_FIGURES = (3, 4, 5, 6, 7)
ABILITIES: Final = ("tools", "images", "thinking", "caching")
WISHES: Final = ("temperature", "stop_sequences")  # what may be set for a model, and what some refuse
BOUND: Final = (
    "what it thought goes back to it within the same turn only, and only behind exactly what it was thought behind; "
    "what it thought in earlier turns is left out"
)

_OFF: Final[Mapping[ThinkingOff, str]] = {
    "unasked": "it thinks only when it is asked to",
    "none": "it is told not to think",
    "disabled": "it is told not to think",
    "between_tools": "it is told not to think before it answers; between tool calls it still notes a little",
    "never": "cannot be switched off; it is asked for little, and that is paid for like an answer",
}


def arguments(parser: ArgumentParser) -> None:
    add_state_options(parser)
    parser.add_argument(
        "what",
        nargs="?",
        choices=("list", "show"),
        default="list",
        metavar="list|show",
        help="every model that can be named; or all that is known of one",
    )
    parser.add_argument("name", nargs="?", metavar="MODEL", help="which to show (default: the chosen one)")
    add_json_option(parser)


def run(args: Namespace) -> None:
    settings = settings_to_look(args)
    catalog = open_catalog(settings)
    chosen = catalog.full_name(settings.agent.model)
    if args.what == "show":
        known = catalog.describe(args.name or chosen)
        title = f"{chosen}, the chosen one" if known.model.id == chosen else known.model.id
        print_result(args, _view(known, chosen), [title, *(f"  {name:<9} {fact}" for name, fact in facts_of(known))])
        return
    every = tuple(catalog.all())
    lines = fit_table([_HEAD, *(_row(known, chosen) for known in every)], right=_FIGURES)
    if not any(known.model.id == chosen for known in every):
        lines.append(f"agent.model is {short(chosen, 200)}, which is not in this list")
    print_result(args, {"chosen": chosen, "models": [_view(known, chosen) for known in every]}, lines)


def _view(known: CatalogEntry, chosen: str) -> dict[str, Any]:
    model = known.model
    view = {"model": model.id, **msgspec.to_builtins(model), "aliases": known.aliases}
    return view | {"from": known.origin, "note": known.note, "chosen": model.id == chosen}


_OWN: Final = ", with your settings"


def _row(known: CatalogEntry, chosen: str) -> tuple[str, ...]:
    model = known.model
    prices = [getattr(model.price, name, None) for name in ("input", "output", "cache_read")]
    own = _OWN if known.origin.endswith(_OWN) else ""
    origin = known.origin.partition(": ")[0] + own  # `models show` has the address and the note
    return (
        "*" if model.id == chosen else "",
        model.id,
        " ".join(known.aliases) or UNKNOWN,
        f"{model.window:,}",
        f"{model.max_output:,}",
        *map(dollars, prices),
        _abilities(known),
        origin,
    )


def facts_of(known: CatalogEntry) -> Iterator[tuple[str, str]]:
    model = known.model
    yield "window", f"{model.window:,} tokens, of which an answer takes {model.max_output:,} at most"
    yield "price", _price(model.price)
    yield "can", _abilities(known)
    if model.features.thinking:
        yield "off", _OFF[model.features.thinking_off]
        yield "thinking", _thinking(model.features)
    if model.features.bound_thinking:
        yield "bound", BOUND
    if refuses := ", ".join(name for name in WISHES if not getattr(model.features, name)):
        yield "refuses", f"{refuses}; what you set is not sent to it"
    if known.aliases:
        yield "aliases", " ".join(known.aliases)
    yield "from", known.origin
    if known.note:
        yield "note", known.note


def _abilities(known: CatalogEntry) -> str:
    return " ".join(name for name in ABILITIES if getattr(known.model.features, name)) or UNKNOWN


def dollars(price: Decimal | None) -> str:
    return UNKNOWN if price is None else f"{price.normalize():f}"


def _price(price: Price | None) -> str:
    if price is None:
        return "not known, so that it cannot be used under a budget"
    question, answer, read, write = map(dollars, (price.input, price.output, price.cache_read, price.cache_write))
    return f"${question} in, ${answer} out, ${read} from the cache, ${write} into it, for a million tokens"


def _thinking(features: Features) -> str:
    levels = ", ".join(f"{level} {most:,}" for level, most in THOUGHTS.items() if most)
    how = "it finds out itself how much; how hard it tries is told" if features.adaptive_thinking else "as it is told"
    but = "; not with tools, which it takes only while it does not think" if features.thinks_without_tools else ""
    return f"{how}, with room for tokens: {levels}{but}"
