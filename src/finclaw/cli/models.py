"""`finclaw models`: every model that `agent.model` may name, and what is known of one of them."""

from argparse import Namespace
from collections.abc import Sequence
from typing import Any

import msgspec

from finclaw.cli.chat.clean import json_line
from finclaw.cli.figures import UNKNOWN, fitted, short, table, terminal_columns
from finclaw.cli.model_facts import ABILITIES, dollars, facts_of
from finclaw.cli.options import settings_to_look
from finclaw.kernel.chunk import Model
from finclaw.providers.catalog import Catalog, Known

_HEAD = ("", "MODEL", "ALIASES", "WINDOW", "OUTPUT", "IN $/M", "OUT", "CACHED", "CAN", "FROM")
_FIGURES = (3, 4, 5, 6, 7)


def run(args: Namespace) -> int:
    settings = settings_to_look(args)
    catalog = Catalog(settings.models, settings.aliases, settings.providers)
    chosen = catalog.named(settings.agent.model)
    if args.what == "show":
        return _show(args, catalog, chosen)
    known = tuple(catalog.all())
    print(_as_json(known, chosen) if args.json else _in_words(known, chosen))
    return 0


def _show(args: Namespace, catalog: Catalog, chosen: str) -> int:
    known = catalog.known(args.name or chosen)
    is_chosen = _full(known.model) == chosen
    if args.json:
        print(json_line(_row_for_programs(known, chosen=is_chosen)))
    else:
        print(f"{_full(known.model)}{', the chosen one' if is_chosen else ''}")
        print("\n".join(f"  {name:<9} {fact}" for name, fact in facts_of(known)))
    return 0


def _full(model: Model) -> str:
    return f"{model.provider}/{model.name}"


def _as_json(known: Sequence[Known], chosen: str) -> str:
    rows = [_row_for_programs(each, chosen=_full(each.model) == chosen) for each in known]
    return json_line({"chosen": chosen, "models": rows})


def _row_for_programs(known: Known, *, chosen: bool) -> dict[str, Any]:
    facts = msgspec.to_builtins(known.model)
    rest = {"aliases": known.aliases, "from": known.origin, "note": known.note, "chosen": chosen}
    return {"model": _full(known.model), **facts, **rest}


def _in_words(known: Sequence[Known], chosen: str) -> str:
    rows = [_row(each, chosen=_full(each.model) == chosen) for each in known]
    lines = [fitted(line, terminal_columns()) for line in table([_HEAD, *rows], right=_FIGURES)]
    if not any(_full(each.model) == chosen for each in known):
        lines.append(f"agent.model is {short(chosen, 200)}, which is not in this list")
    return "\n".join(lines)


def _origin(origin: str) -> str:
    """In short; `models show` has the address and the note."""
    own = ", with your settings"
    return origin.partition(": ")[0] + (own if origin.endswith(own) else "")


def _row(known: Known, *, chosen: bool) -> tuple[str, ...]:
    model, price = known.model, known.model.price
    prices = (None, None, None) if price is None else (price.input, price.output, price.cache_read)
    return (
        "*" if chosen else "",
        _full(model),
        " ".join(known.aliases) or UNKNOWN,
        f"{model.window:,}",
        f"{model.max_output:,}",
        *map(dollars, prices),
        " ".join(name for name in ABILITIES if getattr(model.features, name)) or UNKNOWN,
        _origin(known.origin),
    )
