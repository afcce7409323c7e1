"""`finclaw models`: every model that `agent.model` may name, and what is known of one of them."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import msgspec

from finclaw.cli.arguments import add_json_option, add_state_options, settings_to_look
from finclaw.cli.formatting import UNKNOWN, fit_line, json_line, short, table, terminal_columns
from finclaw.kernel.chunk import Features, Price, ThinkingOff
from finclaw.kernel.envelope import THOUGHTS
from finclaw.providers.catalog import Catalog, CatalogEntry

_HEAD = ("", "MODEL", "ALIASES", "WINDOW", "OUTPUT", "IN $/M", "OUT", "CACHED", "CAN", "FROM")
_FIGURES = (3, 4, 5, 6, 7)
ABILITIES: Final = ("tools", "images", "thinking", "caching")
WISHES: Final = ("temperature", "stop_sequences")
"""What may be set for a model, and what some refuse."""
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


def run(args: Namespace) -> int:
    settings = settings_to_look(args)
    catalog = Catalog(settings.models, settings.aliases, settings.providers)
    chosen = catalog.full_name(settings.agent.model)
    if args.what == "show":
        return _show(args, catalog, chosen)
    known = tuple(catalog.all())
    print(_as_json(known, chosen) if args.json else _format_text(known, chosen))
    return 0


def _show(args: Namespace, catalog: Catalog, chosen: str) -> int:
    known = catalog.describe(args.name or chosen)
    is_chosen = known.model.id == chosen
    if args.json:
        print(json_line(_row_for_programs(known, chosen=is_chosen)))
    else:
        print(f"{known.model.id}{', the chosen one' if is_chosen else ''}")
        print("\n".join(f"  {name:<9} {fact}" for name, fact in facts_of(known)))
    return 0


def _as_json(known: Sequence[CatalogEntry], chosen: str) -> str:
    rows = [_row_for_programs(each, chosen=each.model.id == chosen) for each in known]
    return json_line({"chosen": chosen, "models": rows})


def _row_for_programs(known: CatalogEntry, *, chosen: bool) -> dict[str, Any]:
    facts = msgspec.to_builtins(known.model)
    rest = {"aliases": known.aliases, "from": known.origin, "note": known.note, "chosen": chosen}
    return {"model": known.model.id, **facts, **rest}


def _format_text(known: Sequence[CatalogEntry], chosen: str) -> str:
    rows = [_row(each, chosen=each.model.id == chosen) for each in known]
    lines = [fit_line(line, terminal_columns()) for line in table([_HEAD, *rows], right=_FIGURES)]
    if not any(each.model.id == chosen for each in known):
        lines.append(f"agent.model is {short(chosen, 200)}, which is not in this list")
    return "\n".join(lines)


def _origin(origin: str) -> str:
    """In short; `models show` has the address and the note."""
    own = ", with your settings"
    return origin.partition(": ")[0] + (own if origin.endswith(own) else "")


def _row(known: CatalogEntry, *, chosen: bool) -> tuple[str, ...]:
    model, price = known.model, known.model.price
    prices = (None, None, None) if price is None else (price.input, price.output, price.cache_read)
    return (
        "*" if chosen else "",
        model.id,
        " ".join(known.aliases) or UNKNOWN,
        f"{model.window:,}",
        f"{model.max_output:,}",
        *map(dollars, prices),
        " ".join(name for name in ABILITIES if getattr(model.features, name)) or UNKNOWN,
        _origin(known.origin),
    )


# ── one model ───────────────────────────────────────────────────────────────────────────────────────────────────


def facts_of(known: CatalogEntry) -> Iterator[tuple[str, str]]:
    model = known.model
    can = " ".join(name for name in ABILITIES if getattr(model.features, name))
    yield "window", f"{model.window:,} tokens, of which an answer takes {model.max_output:,} at most"
    yield "price", _price(model.price)
    yield "can", can or UNKNOWN
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
    tools = "; not with tools, which it takes only while it does not think" if features.thinks_without_tools else ""
    return f"{how}, with room for tokens: {levels}{tools}"
