"""`finclaw instruments`: which instruments are known and what each is called; records of one's own, and newer ones."""

import asyncio
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, get_args

from finclaw.cli.arguments import add_json_option, parse_path, parse_text, settings_to_look, start_actions
from finclaw.cli.formatting import fit_table, plural, print_result, short, table
from finclaw.errors import ConfigError, SessionError, ToolError
from finclaw.fetch.fetchers import open_fetchers
from finclaw.finance.instrument import Ambiguous, Instrument, Unknown
from finclaw.finance.instruments.added import COLUMNS, AddedInstruments, read_csv
from finclaw.finance.instruments.refresh import (
    AMERICA,
    KOREA,
    ListingSource,
    download_listings,
    listing_hosts,
    merge_listings,
)
from finclaw.finance.instruments.vendor_symbols import Vendor, vendor_symbol
from finclaw.kernel.fetch import Fetcher, FetchRules
from finclaw.text import escape_controls

_VENDORS: Final[tuple[Vendor, ...]] = get_args(Vendor)
_LISTS: Final = {"kr": KOREA, "us": AMERICA}
_MOST_BYTES: Final = 50_000_000
_HEAD: Final = ("SYMBOL", "NAME", "KOREAN NAME", "MARKET", "CURRENCY", "TYPE", "STATUS")


def arguments(parser: ArgumentParser) -> None:
    add_action = start_actions(parser)
    _add_text(add_action("search", "find an instrument by its code, name, alias or ISIN, in English or Korean"))
    _add_text(add_action("show", "show one instrument, with what each source calls it"))
    action = add_action("import", "add records of your own from a CSV file, or replace some")
    action.add_argument(
        "file", type=parse_path, metavar="FILE", help=f"CSV in UTF-8 with columns of: {','.join(COLUMNS)}"
    )
    add_json_option(action)
    action = add_action("refresh", "download current lists, and take them if they can be believed")
    action.add_argument("--only", choices=tuple(_LISTS), help="kr: the masters of KIS; us: the Nasdaq directory")
    add_json_option(action)


def _add_text(parser: ArgumentParser) -> None:
    parser.add_argument("text", type=parse_text, nargs="+", metavar="TEXT", help="such as AAPL, 005930 or 삼성전자")
    parser.add_argument("--currency", default="USD", metavar="CODE", help="in which coins are priced: USD or KRW")
    add_json_option(parser)


def run(args: Namespace) -> int:
    added = AddedInstruments(settings_to_look(args).state)
    match args.action:
        case "import":
            return _import(args, added)
        case "refresh":
            return _refresh(args, added)
        case _:
            text = " ".join(args.text)
            verdict, matches = _find(added, text, args.currency)
            return (_show if args.action == "show" else _search)(args, text, verdict, matches)


def _search(args: Namespace, text: str, verdict: str, matches: Sequence[Instrument]) -> int:
    lines: list[str] = []
    if verdict == "ambiguous":
        lines.append(f"{_quoted(text)} may be any of these; use a symbol:")
    elif verdict == "none":
        lines.append(f"nothing is called {_quoted(text)}{'; it looks like:' if matches else ''}")
    if matches:
        lines += fit_table([_HEAD, *map(_row, matches)])
    print_result(args, {"verdict": verdict, "matches": [_as_match(each) for each in matches]}, lines)
    return 0


def _find(added: AddedInstruments, text: str, currency: str) -> tuple[str, Sequence[Instrument]]:
    match added.catalogue(currency.upper()).find(text):
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
    return match if instrument.status == "listed" else match | {"status": instrument.status}


def _row(each: Instrument) -> tuple[str, ...]:
    korean = "" if each.name_ko == each.name_en else short(each.name_ko, 40)
    name = short(each.name_en, 50)
    return (short(each.bare_symbol, 20), name, korean, each.listed_on, each.currency, each.type, each.status)


def _show(args: Namespace, text: str, verdict: str, matches: Sequence[Instrument]) -> int:
    if verdict != "exact":
        names = ", ".join(each.bare_symbol for each in matches)
        advice = f"; it may be {names}" if names else "; look for it with `finclaw instruments search`"
        raise SessionError(f"{_quoted(text)} names no single instrument{escape_controls(advice)}")
    facts = dict(_facts(matches[0]))
    print_result(args, facts, table([(name, short(cell, 200)) for name, cell in facts.items()]))
    return 0


def _facts(each: Instrument) -> Iterator[tuple[str, str]]:
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
    yield from ((name, cell) for name, cell in known.items() if cell)
    yield from ((vendor, theirs) for vendor in _VENDORS if (theirs := vendor_symbol(vendor, each)) is not None)


def _import(args: Namespace, added: AddedInstruments) -> int:
    found = read_csv(_read_file(args.file))
    count = added.add_imported(found)
    view = {"imported": len(found), "records": count, "file": str(added.imported)}
    print_result(args, view, [f"{plural(len(found), 'record')} imported; {added.imported} has {count} now"])
    return 0


def _refresh(args: Namespace, added: AddedInstruments) -> int:
    fetcher = open_fetchers()(FetchRules(allow=listing_hosts()))
    wanted = [args.only] if args.only else list(_LISTS)
    done = {name: _refresh_one(added, fetcher, _LISTS[name]) for name in wanted}
    failed = {name: reason for name, reason in done.items() if isinstance(reason, str)}
    changed = {
        name: f"{plural(count, 'record')} new or changed" for name, count in done.items() if isinstance(count, int)
    }
    print_result(args, done, [f"{name}: {(failed | changed)[name]}" for name in done])
    return int(bool(failed))


def _refresh_one(added: AddedInstruments, fetcher: Fetcher, sources: Sequence[ListingSource]) -> int | str:
    """How many records are new or changed, or why none of this country was taken."""
    try:
        rows = merge_listings(added.known_to_refresh(), asyncio.run(download_listings(fetcher, sources)))
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


def _quoted(text: str) -> str:
    return f'"{short(text, 80)}"'
