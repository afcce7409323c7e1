"""`finclaw instruments`: which instruments are known and what each is called; records of one's own, and newer ones."""

import asyncio
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Final, get_args

from finclaw.cli.arguments import add_json_option, parse_path, parse_text, settings_to_look, start_actions
from finclaw.cli.formatting import fit_table, plural, print_result, short, table
from finclaw.errors import ConfigError, SessionError, ToolError
from finclaw.fetch.fetchers import open_fetchers
from finclaw.finance.instrument import Ambiguous, Instrument, Unknown
from finclaw.finance.instruments import refresh
from finclaw.finance.instruments.added import COLUMNS, AddedInstruments, read_csv
from finclaw.finance.instruments.vendor_symbols import Vendor, vendor_symbol
from finclaw.kernel.fetch import Fetcher, FetchRules
from finclaw.text import escape_controls

_VENDORS: Final[tuple[Vendor, ...]] = get_args(Vendor)
_LISTS: Final = {"kr": refresh.KOREA, "us": refresh.AMERICA}
_MOST_BYTES: Final = 50_000_000
_HEAD: Final = ("SYMBOL", "NAME", "KOREAN NAME", "MARKET", "CURRENCY", "TYPE", "STATUS")


def arguments(parser: ArgumentParser) -> None:
    add_action = start_actions(parser)
    about = "find an instrument by its code, name, alias or ISIN, in English or Korean"
    _add_text(add_action("search", about, _search))
    _add_text(add_action("show", "show one instrument, with what each source calls it", _show))
    action = add_action("import", "add records of your own from a CSV file, or replace some", _import)
    about = f"CSV in UTF-8 with columns of: {','.join(COLUMNS)}"
    action.add_argument("file", type=parse_path, metavar="FILE", help=about)
    add_json_option(action)
    action = add_action("refresh", "download current lists, and take them if they can be believed", _refresh)
    action.add_argument("--only", choices=tuple(_LISTS), help="kr: the masters of KIS; us: the Nasdaq directory")
    add_json_option(action)


def _add_text(parser: ArgumentParser) -> None:
    parser.add_argument("text", type=parse_text, nargs="+", metavar="TEXT", help="such as AAPL, 005930 or 삼성전자")
    parser.add_argument("--currency", default="USD", metavar="CODE", help="in which coins are priced: USD or KRW")
    add_json_option(parser)


def run(args: Namespace) -> int | None:
    return args.act(args, AddedInstruments(settings_to_look(args).state))


def _search(args: Namespace, added: AddedInstruments) -> None:
    verdict, matches = _find(args, added)
    lines = fit_table([_HEAD, *map(_row, matches)]) if matches else []
    if verdict == "ambiguous":
        lines.insert(0, f"{_quoted(args)} may be any of these; use a symbol:")
    elif verdict == "none":
        like = "; it looks like:" if matches else ""
        lines.insert(0, f"nothing is called {_quoted(args)}{like}")
    print_result(args, {"verdict": verdict, "matches": [_as_match(each) for each in matches]}, lines)


def _find(args: Namespace, added: AddedInstruments) -> tuple[str, Sequence[Instrument]]:
    match added.catalogue(args.currency.upper()).find(" ".join(args.text)):
        case Instrument() as found:
            return "exact", (found,)
        case Ambiguous(candidates):
            return "ambiguous", candidates
        case Unknown(near):
            return "none", near


def _as_match(instrument: Instrument) -> dict[str, str]:
    match = {
        "symbol": instrument.bare_symbol,
        "name_ko": instrument.name_ko,
        "name_en": instrument.name_en,
        "market": instrument.listed_on,
        "currency": instrument.currency,
        "type": instrument.type,
    }
    if instrument.status != "listed":
        match["status"] = instrument.status
    return match


def _row(each: Instrument) -> tuple[str, ...]:
    korean = "" if each.name_ko == each.name_en else short(each.name_ko, 40)
    name = short(each.name_en, 50)
    return (short(each.bare_symbol, 20), name, korean, each.listed_on, each.currency, each.type, each.status)


def _show(args: Namespace, added: AddedInstruments) -> None:
    verdict, matches = _find(args, added)
    if verdict != "exact":
        near = ", ".join(each.bare_symbol for each in matches)
        advice = f"it may be {near}" if near else "look for it with `finclaw instruments search`"
        raise SessionError(f"{_quoted(args)} names no single instrument; {escape_controls(advice)}")
    facts = _facts(matches[0])
    print_result(args, facts, table([(name, short(cell, 200)) for name, cell in facts.items()]))


def _facts(each: Instrument) -> dict[str, str]:
    known = {
        "id": each.id,
        "symbol": each.symbol,
        "name_en": each.name_en,
        "name_ko": each.name_ko,
        "aliases": "; ".join(each.aliases),
        "market": each.listed_on,
        "venue": each.exchange,
        "currency": each.currency,
        "type": each.type,
        "share_class": each.share_class,
        "isin": each.isin,
        "cik": str(each.cik or ""),
        "status": each.status,
        "successor": each.successor,
    }
    vendors = {vendor: theirs for vendor in _VENDORS if (theirs := vendor_symbol(vendor, each)) is not None}
    return {name: cell for name, cell in known.items() if cell} | vendors


def _import(args: Namespace, added: AddedInstruments) -> None:
    found = read_csv(_read_file(args.file))
    count = added.add_imported(found)
    view = {"imported": len(found), "records": count, "file": str(added.imported)}
    print_result(args, view, [f"{plural(len(found), 'record')} imported; {added.imported} has {count} now"])


def _refresh(args: Namespace, added: AddedInstruments) -> int:
    fetcher = open_fetchers()(FetchRules(allow=refresh.listing_hosts()))
    done: dict[str, int | str] = {}
    lines: list[str] = []
    for name in [args.only] if args.only else _LISTS:
        done[name] = result = _refresh_one(added, fetcher, _LISTS[name])
        if isinstance(result, int):
            result = f"{plural(result, 'record')} new or changed"
        lines.append(f"{name}: {result}")
    print_result(args, done, lines)
    return int(any(isinstance(result, str) for result in done.values()))


def _refresh_one(added: AddedInstruments, fetcher: Fetcher, sources: Sequence[refresh.ListingSource]) -> int | str:
    """How many records are new or changed, or why none of this country was taken."""
    try:
        listings = asyncio.run(refresh.download_listings(fetcher, sources))
        rows = refresh.merge_listings(added.known_to_refresh(), listings)
    except ToolError as error:
        return f"nothing was changed: {short(str(error), 300)}"
    added.add_refreshed(rows)
    return len(rows)


def _read_file(path: Path) -> str:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ConfigError(f"{path} is larger than 50 MB; split it")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}; check the path") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text; save it as CSV in UTF-8") from error


def _quoted(args: Namespace) -> str:
    return f'"{short(" ".join(args.text), 80)}"'
