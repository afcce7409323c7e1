"""Feeds of headlines, RSS and Atom, read strictly: a title, a link and a time, and nothing of the text behind them.

A feed is a stranger's document. One that declares a document type is refused, because entities of it can grow without
bound, and so is a link that is no web address.
"""

import html
import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from itertools import islice
from typing import Final
from xml.etree import ElementTree as ET

from msgspec import Struct

from finclaw.finance.sources.xml_elements import CHUNK, iterate_elements

_ATOM: Final = "{http://www.w3.org/2005/Atom}"
_DC: Final = "{http://purl.org/dc/elements/1.1/}"
_MOST: Final = 200
"""Entries that are read; feeds list a hundred at most."""
_MOST_ELEMENTS: Final = 100_000
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
    """The entries in the feed's order, without those that lack a time or lie ahead. Raises DataMalformed.

    For a worker thread: a feed may have megabytes.
    """
    chunks = (body[start : start + CHUNK] for start in range(0, len(body), CHUNK))
    items = iterate_elements(chunks, {"rss": "item", f"{_ATOM}feed": f"{_ATOM}entry"}, source, _MOST_ELEMENTS)
    read = (_read_item(each) if each.tag == "item" else _read_entry(each) for each in islice(items, _MOST))
    return [each for each in read if each is not None and each.published_at <= now + _AHEAD]


def clean_line(text: str, longest: int = _LONGEST_TITLE) -> str:
    """Words on one line, without markup and without signs that nobody sees."""
    plain = html.unescape(_TAGS.sub("", html.unescape(text[: 10 * longest])))
    return " ".join(_UNSEEN.sub(" ", plain).split())[:longest]


def _read_item(item: ET.Element) -> FeedEntry | None:
    moment = _read_time(item.findtext("pubDate") or item.findtext(f"{_DC}date") or "")
    author = item.findtext("source") or item.findtext(f"{_DC}creator") or ""
    return _make_entry(item.findtext("title"), item.findtext("link"), moment, author)


def _read_entry(item: ET.Element) -> FeedEntry | None:
    links = item.findall(f"{_ATOM}link")
    link = next((each.get("href") for each in links if each.get("rel", "alternate") == "alternate"), None)
    moment = _read_time(item.findtext(f"{_ATOM}updated") or item.findtext(f"{_ATOM}published") or "")
    author = item.findtext(f"{_ATOM}author/{_ATOM}name") or ""
    return _make_entry(item.findtext(f"{_ATOM}title"), link, moment, author)


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
