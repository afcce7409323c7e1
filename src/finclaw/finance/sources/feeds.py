"""Feeds of headlines, RSS and Atom, read strictly: a title, a link and a time, and nothing of the text behind them.

A feed is a stranger's document. One that declares a document type is refused, because entities of it can grow without
bound, and so is a link that is no web address.
"""

import html
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final
from xml.etree import ElementTree as ET

from msgspec import Struct

from finclaw.finance.market_data.errors import DataMalformed

_ATOM: Final = "{http://www.w3.org/2005/Atom}"
_DC: Final = "{http://purl.org/dc/elements/1.1/}"
_MOST: Final = 200
"""Entries that are read; feeds list a hundred at most."""
_LONGEST_TITLE: Final = 300
_TAGS: Final = re.compile(r"<[^<>]{0,200}>")
_UNSEEN: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e01ef]+"
)
_AHEAD: Final = timedelta(minutes=10)


class FeedEntry(Struct, frozen=True, kw_only=True):
    """An entry of a feed. `author` is the publisher, or the company that a filing is about."""

    title: str
    url: str
    published_at: datetime
    author: str = ""
    summary: str = ""
    """For the few feeds whose titles leave out what kind of document it is. It is never shown."""


def parse_feed(body: bytes, source: str, now: datetime) -> list[FeedEntry]:
    """The entries in the feed's order, without those that lack a time or lie ahead. Raises DataMalformed."""
    if b"<!DOCTYPE" in body[:2_000].upper() or b"<!ENTITY" in body.upper():
        raise DataMalformed(f"{source} answered a page or a document type, not a feed", source=source)
    try:
        root = ET.fromstring(body)
    except ET.ParseError as error:
        raise DataMalformed(f"{source} answered what is no feed: {error}", source=source) from error
    if root.tag == f"{_ATOM}feed":
        found = _read_atom(root)
    elif root.tag == "rss" and root.find("channel") is not None:
        found = _read_rss(root)
    else:
        raise DataMalformed(f"{source} answered what is no feed", source=source)
    return [each for each in found if each.published_at <= now + _AHEAD]


def clean_line(text: str, longest: int = _LONGEST_TITLE) -> str:
    """Words on one line, without markup and without signs that nobody sees."""
    plain = html.unescape(_TAGS.sub("", html.unescape(text[: 10 * longest])))
    return " ".join(_UNSEEN.sub(" ", plain).split())[:longest]


def _read_rss(root: ET.Element) -> Iterator[FeedEntry]:
    for item in list(root.iter("item"))[:_MOST]:
        moment = _read_time(item.findtext("pubDate") or item.findtext(f"{_DC}date") or "")
        author = item.findtext("source") or item.findtext(f"{_DC}creator") or ""
        entry = _make_entry(item.findtext("title"), item.findtext("link"), moment, author)
        if entry is not None:
            yield entry


def _read_atom(root: ET.Element) -> Iterator[FeedEntry]:
    for item in root.findall(f"{_ATOM}entry")[:_MOST]:
        links = item.findall(f"{_ATOM}link")
        link = next((each.get("href") for each in links if each.get("rel", "alternate") == "alternate"), None)
        moment = _read_time(item.findtext(f"{_ATOM}updated") or item.findtext(f"{_ATOM}published") or "")
        author = item.findtext(f"{_ATOM}author/{_ATOM}name") or ""
        entry = _make_entry(item.findtext(f"{_ATOM}title"), link, moment, author)
        if entry is not None:
            yield entry


def _make_entry(title: str | None, url: str | None, moment: datetime | None, author: str) -> FeedEntry | None:
    address, words = (url or "").strip(), clean_line(title or "")
    if moment is None or not words or not address.startswith(("https://", "http://")) or len(address) > 2_000:
        return None
    return FeedEntry(title=words, url=address, published_at=moment, author=clean_line(author, 100))


def _read_time(text: str) -> datetime | None:
    """A time as RSS or as ISO has it; None for one without its zone, which could be any hour."""
    text = text.strip()
    try:
        moment = datetime.fromisoformat(text) if text[:4].isdigit() else parsedate_to_datetime(text)
        return moment.astimezone(UTC) if moment.tzinfo is not None else None
    except (ValueError, IndexError, OverflowError):
        return None
