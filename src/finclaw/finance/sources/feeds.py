"""Headlines, and the feeds, XML and archives that vendors answer with, read within limits.

The words of a headline belong to its publisher: of a feed, RSS or Atom, a title, a link and a time are read, and no
text after them. A feed is untrusted: a document type is refused, because its entities can grow without bound, and so is
a link that is no web address.
"""

import asyncio
import codecs
import html
import io
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from itertools import islice
from typing import Final, cast
from xml.etree import ElementTree as ET
from xml.parsers import expat

from msgspec import Struct

from finclaw.finance.instrument import Instrument, key_of
from finclaw.finance.instruments.vendor_symbols import own_symbol
from finclaw.finance.market_data import errors
from finclaw.finance.market_data.port import NewsItem
from finclaw.finance.market_data.source import DataKind, DataSource, SourceClient
from finclaw.finance.market_data.source_info import SOURCES

_WINDOW: Final = timedelta(days=7)
_XML: Final = {"Accept": "application/rss+xml, application/atom+xml, application/xml, text/xml"}
_BANKS: Final = {
    "fed": ("feeds/press_all.xml", "Federal Reserve"),
    "ecb": ("rss/press.html", "European Central Bank"),
    "bok": ("portal/bbs/P0000559/news.rss", "Bank of Korea"),
}
_PRESS_WINDOW: Final = timedelta(days=14)


class GoogleNews(DataSource):
    info = SOURCES["google_news"]

    def has(self, instrument: Instrument, kind: DataKind) -> bool:
        return kind == "news"

    async def read_news(self, client: SourceClient, instrument: Instrument | None, limit: int) -> Sequence[NewsItem]:
        if instrument is None:
            raise errors.DataUnsupported("is asked about companies")
        if instrument.exchange == "KRX":
            name = instrument.name_ko
            edition = {"hl": "ko", "gl": "KR", "ceid": "KR:ko"}
        else:
            name = instrument.name_en
            edition = {"hl": "en-US", "gl": "US", "ceid": "US:en"}
        query = {"q": f'"{name}" when:{_WINDOW.days}d', **edition}
        entries = await read_feed(client, "rss/search", query)
        # The publisher has an element of its own.
        items = [
            each.as_news(client, each.author, each.title.removesuffix(f" - {each.author}"), (instrument.symbol,))
            for each in entries
        ]
        return newest(items, client, _WINDOW, limit)


class CentralBanks(DataSource):
    info = SOURCES["central_banks"]

    def has(self, instrument: Instrument, kind: DataKind) -> bool:
        return False

    async def read_news(self, client: SourceClient, instrument: Instrument | None, limit: int) -> Sequence[NewsItem]:
        if instrument is not None:
            raise errors.DataUnsupported("publish nothing about one company")
        answers = await asyncio.gather(*(self._read_bank(client, bank) for bank in _BANKS))
        items = [item for answer in answers if not isinstance(answer, errors.DataError) for item in answer]
        failures = [answer for answer in answers if isinstance(answer, errors.DataError)]
        if len(failures) == len(answers):
            raise failures[0]
        return newest(items, client, _PRESS_WINDOW, limit)

    async def _read_bank(self, client: SourceClient, bank: str) -> list[NewsItem] | errors.DataError:
        """One bank that does not answer leaves the others."""
        path, publisher = _BANKS[bank]
        try:
            entries = await read_feed(client, path, api=bank)
        except errors.DataError as error:
            return error
        return [each.as_news(client, publisher) for each in entries]


def newest(items: Iterable[NewsItem], client: SourceClient, window: timedelta, limit: int) -> list[NewsItem]:
    """Newest first, each once, none of the future and none older than was asked for, even where a source lists it."""
    oldest = client.now() - window
    latest = client.now() + _AHEAD
    seen: set[str] = set()
    kept: list[NewsItem] = []
    for item in sorted(items, key=lambda each: each.published_at, reverse=True):
        keys = {key_of(item.title), item.url.partition("?")[0].partition("#")[0]}
        if oldest <= item.published_at <= latest and not keys & seen:
            kept.append(item)
        seen |= keys
    return kept[:limit]


class JsonHeadline(Struct):
    headline: str
    url: str
    source: str = ""


def make_headline(
    client: SourceClient, found: JsonHeadline, published_at: datetime, symbols: Iterable[str]
) -> NewsItem:
    """`symbols` are the vendor's."""
    return NewsItem(
        title=clean_line(found.headline),
        url=found.url,
        publisher=clean_line(found.source, 100),
        published_at=published_at,
        source=client.name,
        symbols=tuple(filter(None, map(own_symbol, symbols))),
    )


_ATOM: Final = "{http://www.w3.org/2005/Atom}"
_DC: Final = "{http://purl.org/dc/elements/1.1/}"
_MOST: Final = 200  # entries that are read; feeds list a hundred at most
_MOST_ELEMENTS: Final = 100_000
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

    def as_news(self, client: SourceClient, publisher: str, title: str = "", symbols: tuple[str, ...] = ()) -> NewsItem:
        return NewsItem(
            title=title or self.title,
            url=self.url,
            publisher=publisher,
            published_at=self.published_at,
            source=client.name,
            symbols=symbols,
        )


async def read_feed(
    client: SourceClient,
    path: str,
    query: Mapping[str, str] | None = None,
    *,
    api: str = "api",
    headers: Mapping[str, str] = _XML,
) -> list[FeedEntry]:
    """The entries in the feed's order, without those that lack a time or lie ahead. Raises DataError."""
    body = await client.get_body(path, query, api=api, headers=headers)
    return await asyncio.to_thread(_parse_feed, body, client.now())  # a feed may have megabytes


def _parse_feed(body: bytes, now: datetime) -> list[FeedEntry]:
    chunks = (body[start : start + CHUNK] for start in range(0, len(body), CHUNK))
    items = iterate_elements(chunks, {"rss": "item", f"{_ATOM}feed": f"{_ATOM}entry"}, _MOST_ELEMENTS)
    readers = {"item": _read_item, f"{_ATOM}entry": _read_entry}
    read = (readers[each.tag](each) for each in islice(items, _MOST))
    return [each for each in read if each is not None and each.published_at <= now + _AHEAD]


def is_web_address(text: str) -> bool:
    return text.startswith(("https://", "http://"))


def clean_line(text: str, longest: int = 300) -> str:
    """Words on one line, without markup and without signs that nobody sees."""
    plain = html.unescape(_TAGS.sub("", html.unescape(text[: 10 * longest])))
    return " ".join(_UNSEEN.sub(" ", plain).split())[:longest]


def _read_item(item: ET.Element) -> FeedEntry | None:
    published = item.findtext("pubDate") or item.findtext(f"{_DC}date")
    author = item.findtext("source") or item.findtext(f"{_DC}creator")
    return _make_entry(item.findtext("title"), item.findtext("link"), published, author)


def _read_entry(item: ET.Element) -> FeedEntry | None:
    links = item.findall(f"{_ATOM}link")
    link = next((each.get("href") for each in links if each.get("rel", "alternate") == "alternate"), None)
    published = item.findtext(f"{_ATOM}updated") or item.findtext(f"{_ATOM}published")
    return _make_entry(item.findtext(f"{_ATOM}title"), link, published, item.findtext(f"{_ATOM}author/{_ATOM}name"))


def _make_entry(title: str | None, url: str | None, published: str | None, author: str | None) -> FeedEntry | None:
    address = (url or "").strip()
    line = clean_line(title or "")
    moment = _read_time((published or "").strip())
    if moment is None or not line or not is_web_address(address) or len(address) > 2_000:
        return None
    return FeedEntry(title=line, url=address, published_at=moment, author=clean_line(author or "", 100))


def _read_time(text: str) -> datetime | None:
    """A time as RSS or as ISO has it; None for one without its zone, which could be any hour."""
    read = datetime.fromisoformat if text[:4].isdigit() else parsedate_to_datetime
    with suppress(ValueError, IndexError, OverflowError):
        moment = read(text)
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
    return None


CHUNK: Final = 65_536
_DECLARED: Final = re.compile(r"""\s{0,9}<\?xml[^<>]{0,100}\sencoding\s{0,9}=\s{0,9}["']([^"'<>]{0,40})["']""")
_ENCODINGS: Final = {"utf-8": "utf-8", "us-ascii": "utf-8", "iso-8859-1": "iso-8859-1"}
"""EDGAR declares ISO-8859-1. In any other encoding a document type could hide from the check."""
_DEEPEST: Final = 50


def iterate_elements(chunks: Iterable[bytes], wanted: Mapping[str, str], most: int) -> Iterator[ET.Element]:
    """Yield the wanted elements by the root's tag. Raises DataMalformed for another root or over `most` elements."""
    prolog = _parser_without_document_type()
    parser: ET.XMLPullParser[ET.Element] = ET.XMLPullParser(("start", "end"))
    open_elements: list[ET.Element] = []
    tag: str | None = None
    inside = 0
    count = 0
    try:
        for text in _decode(chunks):
            if tag is None:
                prolog.Parse(text)
            parser.feed(text)
            for event, element in cast("Iterator[tuple[str, ET.Element]]", parser.read_events()):
                if event == "start":
                    open_elements.append(element)
                    count += 1
                    tag = tag or wanted.get(element.tag)
                    if tag is None or count > most or len(open_elements) > _DEEPEST:
                        raise errors.DataMalformed("answered another document than expected")
                    if not inside and element.tag == tag:
                        inside = len(open_elements)
                    continue
                if inside == len(open_elements):
                    yield element
                    inside = 0
                open_elements.pop()
                if not inside and open_elements:
                    open_elements[-1].clear()
        parser.close()
    except (ET.ParseError, expat.ExpatError, ValueError) as error:
        raise errors.DataMalformed(f"answered a document that cannot be parsed: {error}") from error


def _parser_without_document_type() -> expat.XMLParserType:
    """A parser for the text up to the root element: no document type can stand behind that."""

    def refuse(*_: object) -> None:
        raise errors.DataMalformed("answered a page or a document type, not a feed")

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    return parser


def _decode(chunks: Iterable[bytes]) -> Iterator[str]:
    """The text, whose declared encoding the parser ignores because it is given text."""
    decoder: codecs.IncrementalDecoder | None = None
    for chunk in chunks:
        if decoder is None:
            encoding: str | None = "utf-8"
            if declared := _DECLARED.match(chunk[:400].decode("ascii", "replace")):
                encoding = _ENCODINGS.get(declared[1].lower())
            if encoding is None:
                raise errors.DataMalformed("answered a document in another encoding than UTF-8")
            decoder = codecs.getincrementaldecoder(encoding)()
        text = decoder.decode(chunk)
        # By a NUL the parser would recognise UTF-16, whatever it is given.
        if "\0" in text:
            raise errors.DataMalformed("answered a document in UTF-16")
        if len(chunk) >= CHUNK and ">" not in text:
            raise errors.DataMalformed("answered a document with an endless tag")
        yield text
    if decoder is not None:
        yield decoder.decode(b"", final=True)


_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Other methods do not bound the size of a decompressed chunk."""


def read_archived_file(body: bytes, most_bytes: int) -> Iterator[bytes]:
    """Yield the archive's only file in chunks. Raises ValueError for anything else, and for a longer file."""
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            (entry,) = archive.infolist()
            if entry.compress_type not in _METHODS:
                raise ValueError("the archive is packed in an unusual way")
            with archive.open(entry) as file:
                left = most_bytes
                while chunk := file.read(CHUNK):
                    left -= len(chunk)
                    if left < 0:
                        raise ValueError(f"the archive holds more than {most_bytes:,} bytes")
                    yield chunk
    except (zipfile.BadZipFile, EOFError, OSError, RuntimeError, zlib.error) as error:
        raise ValueError(f"the archive cannot be read: {error}") from error
