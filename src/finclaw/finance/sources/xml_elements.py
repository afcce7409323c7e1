"""Vendors' XML, parsed incrementally: within limits, without document types, and in encodings that hide nothing."""

import codecs
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, cast
from xml.etree import ElementTree as ET
from xml.parsers import expat

from finclaw.finance.market_data.errors import DataMalformed

CHUNK: Final = 65_536
_DECLARED: Final = re.compile(r"""\s{0,9}<\?xml[^<>]{0,100}\sencoding\s{0,9}=\s{0,9}["']([^"'<>]{0,40})["']""")
_ENCODINGS: Final = {"utf-8": "utf-8", "us-ascii": "utf-8", "iso-8859-1": "iso-8859-1"}
"""EDGAR declares ISO-8859-1. In any other encoding a document type could hide from the check."""
_DEEPEST: Final = 50


def iterate_elements(
    chunks: Iterable[bytes], wanted: Mapping[str, str], source: str, most: int
) -> Iterator[ET.Element]:
    """Yield the elements that are wanted in a document with this root, by the root's tag. All others are forgotten.

    Raises DataMalformed for another root, more than `most` elements in all, and for what cannot be parsed.
    """
    prolog = _parser_without_document_type(source)
    parser: ET.XMLPullParser[ET.Element] = ET.XMLPullParser(("start", "end"))
    open_elements: list[ET.Element] = []
    tag: str | None = None
    inside = count = 0
    try:
        for text in _decode(chunks, source):
            if tag is None:
                prolog.Parse(text)
            parser.feed(text)
            for event, element in cast("Iterator[tuple[str, ET.Element]]", parser.read_events()):
                if event == "start":
                    open_elements.append(element)
                    count += 1
                    tag = wanted.get(element.tag) if count == 1 else tag
                    if tag is None or count > most or len(open_elements) > _DEEPEST:
                        raise DataMalformed(f"{source} answered another document than expected", source=source)
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
        raise DataMalformed(f"{source} answered a document that cannot be parsed: {error}", source=source) from error


def _parser_without_document_type(source: str) -> expat.XMLParserType:
    """A parser for the text up to the root element: no document type can stand behind that."""

    def refuse(*_: object) -> None:
        raise DataMalformed(f"{source} answered a page or a document type, not a feed", source=source)

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    return parser


def _decode(chunks: Iterable[bytes], source: str) -> Iterator[str]:
    """The text, whose declared encoding the parser ignores because it is given text."""
    decoder: codecs.IncrementalDecoder | None = None
    for chunk in chunks:
        if decoder is None:
            declared = _DECLARED.match(chunk[:400].decode("ascii", "replace"))
            encoding = _ENCODINGS.get(declared[1].lower() if declared else "utf-8")
            if encoding is None:
                raise DataMalformed(f"{source} answered a document in another encoding than UTF-8", source=source)
            decoder = codecs.getincrementaldecoder(encoding)()
        text = decoder.decode(chunk)
        # By a NUL the parser would recognise UTF-16, whatever it is given.
        if "\0" in text:
            raise DataMalformed(f"{source} answered a document in UTF-16", source=source)
        if len(chunk) >= CHUNK and ">" not in text:
            raise DataMalformed(f"{source} answered a document with an endless tag", source=source)
        yield text
    if decoder is not None:
        yield decoder.decode(b"", final=True)
