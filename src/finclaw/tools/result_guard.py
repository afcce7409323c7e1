"""The guard of a tool's result: its text, cleaned, without markup, without secrets, and only then cut.

The order matters. A number cut first would show its half; a tag inside a number would hide it from the patterns.
"""

import asyncio
import json
import re
from contextlib import suppress
from functools import cache
from html import unescape
from typing import Any, Final

from msgspec import Struct
from msgspec.json import encode

from finclaw.redaction.clean import clean
from finclaw.redaction.redact import EDGE, LONGEST, Redacted, redact_clean
from finclaw.text import fix_surrogates
from finclaw.tools.control_tokens import neutralize_control_tokens
from finclaw.tools.settings import DEFAULT, GuardOptions, compile_operator_pattern

NO_RESULT: Final = "[No result returned]"
TRUNCATED: Final = "\n[truncated]"

OFF_LOOP_ABOVE: Final = 50_000  # characters; a larger result is guarded in a thread
_READ_ON: Final = "; call read_result to read them"
_MOST_CUTS: Final = 3


class Guarded(Struct, frozen=True):
    content: str  # for the model
    is_error: bool
    was_truncated: bool
    was_redacted: bool
    original_size: int
    guarded_size: int
    full: str | None = None  # all that was cut, guarded, up to the limit stored


def guard(value: Any, options: GuardOptions = DEFAULT, *, is_error: bool = False) -> Guarded:
    """The part of a result that the model may see. Guarding its content again changes nothing."""
    original = as_text(value)
    text = original
    if is_error:
        text = strip_traceback(original)
    safe = _redact_result(text[:LONGEST], options)
    whole = safe.text
    was_all_read = len(text) <= LONGEST
    if not was_all_read:
        whole = whole[:-EDGE]  # a secret that the end of the reading cut in two
    content = _cut_and_redact(whole, options.shown, _READ_ON, options)
    was_cut = content != whole or not was_all_read
    return Guarded(
        content=content,
        is_error=is_error,
        was_truncated=was_cut,
        was_redacted=bool(safe.kinds),
        original_size=len(original),
        guarded_size=len(content),
        full=_cut_and_redact(whole, options.stored, "", options) if was_cut else None,
    )


async def guard_off_loop(value: Any, options: GuardOptions = DEFAULT, *, is_error: bool = False) -> Guarded:
    if isinstance(value, str | bytes | None) and len(value or "") <= OFF_LOOP_ABOVE:
        return guard(value, options, is_error=is_error)
    return await asyncio.to_thread(guard, value, options, is_error=is_error)


def _redact_result(text: str, options: GuardOptions) -> Redacted:
    text = clean(text)
    if not options.allow_html:
        text = strip_markup(text)
    text = neutralize_control_tokens(text)
    return redact_clean(text, options.redact_finance, [compile_operator_pattern(each) for each in options.patterns])


def _cut_and_redact(text: str, limit: int, how_to_read_on: str, options: GuardOptions) -> str:
    """A cut puts words beside each other that were apart, so the short text is redacted until nothing changes."""
    for _ in range(_MOST_CUTS):
        short = cut(text, limit, how_to_read_on)
        if short == text:
            return text
        text = _redact_result(short, options).text
        if text == short:
            return text
    return text[:limit]


# ── a value as text ───────────────────────────────────────────────────────────────────────────────────────


def as_text(value: Any) -> str:
    """A text as it is, None as a phrase, anything else as JSON."""
    if value is None:
        return NO_RESULT
    if isinstance(value, bytes | bytearray):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        if value.lstrip()[:1] in ("{", "[", '"'):
            return _decode_unicode_escapes(value)
        return value
    with suppress(Exception):  # a stranger's object: too large a number, a circle, a __str__ that raises
        return encode(value, enc_hook=str).decode()
    with suppress(Exception):  # the slower encoder takes numbers of any length
        return json.dumps(value, ensure_ascii=False, default=str)
    return f"[A result of type {type(value).__name__} that cannot be written as JSON]"


_UTF16_ESCAPES: Final = r"(?:\\u[0-9a-fA-F]{4})++"
_UTF16_RUN: Final = re.compile(f"({_UTF16_ESCAPES})")
_ANY_ESCAPE: Final = re.compile(rf"({_UTF16_ESCAPES}|\\.)", re.DOTALL)
_STAYS_ESCAPED: Final = re.compile(r"[\"\\\x00-\x1f\x7f]")
"""A quote, a backslash or a line end: decoded, it would end the JSON string."""


def _decode_unicode_escapes(text: str) -> str:
    r"""JSON with its `\uac00` decoded, because patterns and models read characters. Its meaning stays the same."""
    if "\\u" not in text:
        return text
    # `\\u0041` is no escape; only a text with an escaped backslash needs the pattern that knows it.
    pieces = (_ANY_ESCAPE if "\\\\" in text else _UTF16_RUN).split(text)
    pieces[1::2] = map(cache(_decode_escape), pieces[1::2])
    return "".join(pieces)


def _decode_escape(escaped: str) -> str:
    if len(escaped) < 6:
        return escaped
    characters = bytes.fromhex(escaped.replace("\\u", "")).decode("utf-16-be", "surrogatepass")
    return _STAYS_ESCAPED.sub(lambda character: f"\\u{ord(character[0]):04x}", characters)


# ── stack traces ──────────────────────────────────────────────────────────────────────────────────────────

_LINE_END: Final = re.compile(r"(\r?\n|\\n)")
_TRACE_HEADING: Final = re.compile(
    r"\s*+(?:\+ )?(?:Exception Group )?"
    r"(?:Traceback \(most recent call last\):|Stack ?trace:|goroutine \d+ \[[\w ,]++\]:|stack backtrace:)\s*+$"
    r"|\s*+(?:During handling of the above exception, another|The above exception was the direct cause of)",
    re.IGNORECASE,
)
_TRACE_FRAME: Final = re.compile(
    r"\s*+\|?\s*+File \"[^\"]*+\", line \d"  # Python
    r"|\s++at (?:.*[(:]|[\w.$<>]++$)"  # JavaScript, Java, C#
    r"|\s*+\.\.\. \d++ more|\s*+\S{1,300}\.(?:go|rs|c|cc|cpp|rb):\d"  # Java, Go, Rust, C, Ruby
)


def strip_traceback(text: str) -> str:
    """The text without stack traces, which name our files; what an error said about itself stays."""
    kept: list[str] = []
    in_frame = False
    pieces = _LINE_END.split(text)
    for line, end in zip(pieces[::2], [*pieces[1::2], ""], strict=True):
        is_frame = line != "" and _TRACE_FRAME.match(line) is not None
        is_heading = line != "" and _TRACE_HEADING.match(line) is not None
        is_source = in_frame and line[:2] in ("  ", "| ") and not is_frame
        in_frame = is_frame or is_source
        if not (is_frame or is_heading or is_source):
            kept.append(line + end)
    if len(kept) * 2 > len(pieces):
        return text
    return "".join(kept).strip("\n")


# ── cutting ───────────────────────────────────────────────────────────────────────────────────────────────

_CONTROL: Final = {code: None for code in range(0x20) if chr(code) not in "\t\n\r"}


def guard_result(text: str | None, limit: int = 100_000) -> str:
    """Text that can be stored and sent, at most `limit` characters long. Guarding it again changes nothing."""
    if text is None:
        return NO_RESULT[:limit]
    clean = neutralize_control_tokens(fix_surrogates(text.translate(_CONTROL)))
    if len(clean) <= limit:
        return clean
    return (clean[: max(0, limit - len(TRUNCATED))] + TRUNCATED)[:limit]


_TAIL_SHARE: Final = 0.3
_SHORTEST_WITH_TAIL: Final = 400
_SEARCHED: Final = 0.2  # how much of a piece may be given up for a better place to cut

_LONGEST_CHARACTER: Final = 64  # code points: a family of emoji has eleven
_ENDS: Final = ("\n", "},", "],", '",', ",", ". ", " ")
"""Where to cut, the best first: a line, a JSON value, a field, a word."""


def cut(text: str, limit: int, how_to_read_on: str = "") -> str:
    """At most `limit` characters, the note included. A text that is short enough is left as it is."""
    if len(text) <= limit:
        return text
    if limit < _SHORTEST_WITH_TAIL:
        return (_cut_head(text, max(0, limit - len(TRUNCATED))) + TRUNCATED)[:limit]
    room = limit - len(_write_note(len(text), how_to_read_on)) - len(TRUNCATED)
    tail = _cut_tail(text, int(room * _TAIL_SHARE))
    head = _cut_head(text, room - len(tail))
    return head + _write_note(len(text) - len(head) - len(tail), how_to_read_on) + tail + TRUNCATED


def _write_note(left_out: int, how_to_read_on: str) -> str:
    return f"\n{LEFT_OUT}{left_out:,} characters left out here{how_to_read_on} …]\n"


def _cut_head(text: str, room: int) -> str:
    lowest = room - int(room * _SEARCHED)
    for end in _ENDS:
        if (found := text.rfind(end, lowest, room)) >= 0:
            return text[: found + len(end)].rstrip("\r\n") if found + len(end) <= room else text[:found]
    return text[: _find_character_border(text, room)]


def _cut_tail(text: str, room: int) -> str:
    start = len(text) - room
    highest = start + int(room * _SEARCHED)
    for end in _ENDS:
        if (found := text.find(end, start, highest)) >= 0:
            return text[found + len(end) :]
    place = _find_character_border(text, highest)
    return text[place if place >= start else highest :]


def _find_character_border(text: str, place: int) -> int:
    """The nearest place at or before this one that does not take apart what is seen as one character."""
    from wcwidth import iter_graphemes  # noqa: PLC0415 - 35 ms of `cold_start`, for a text without a space

    border = max(0, place - _LONGEST_CHARACTER)
    for character in iter_graphemes(text[border : place + _LONGEST_CHARACTER]):
        if border + len(character) > place:
            break
        border += len(character)
    return border


LEFT_OUT: Final = "[… "  # begins the note of a cut; no tag reaches across it

_BLOCK: Final = """
    address article aside blockquote body br caption center dd details dialog dir div dl dt fieldset figcaption figure
    footer form h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li main menu nav ol optgroup option p pre section
    select summary table tbody tfoot thead title tr ul
"""
_CELL: Final = "td th"
_INLINE: Final = """
    a abbr acronym applet area audio b base basefont bdi bdo bgsound big blink button canvas cite code col colgroup
    data datalist del dfn em embed font foreignobject frame frameset i iframe image img input ins isindex kbd keygen
    label link listing map mark marquee math meta meter noembed noframes noscript object output param picture
    plaintext portal progress q rb rp rt rtc ruby s samp script slot small source span strike strong style sub sup
    svg template textarea time track tt u use var video wbr xmp
"""
_REPLACEMENTS: Final = {
    **dict.fromkeys(_INLINE.split(), ""),
    **dict.fromkeys(_BLOCK.split(), "\n"),
    **dict.fromkeys(_CELL.split(), "\t"),
}
"""Nothing replaces a tag within a word or number; between two cells there is no number."""
_UNSEEN: Final = frozenset(("script", "style", "template", "noscript", "iframe", "noembed", "noframes"))
"""Elements whose inside nobody sees on a page."""

_LETTER: Final = "A-Za-zİıſ\u212a"
"""As if case were ignored, which would take most of the time if it were."""
_WITH_TAGS: Final = r"""(?:"[^"]{0,300}"|'[^']{0,300}')"""
"""A quoted value that may hold '<': a short one, because it is read again from every '<' in it."""
_ATTRIBUTES: Final = rf"""[^<>=]*+(?:=\s*+(?:"[^"<]*+"|'[^'<]*+'|(?!{_WITH_TAGS}))[^<>=]*+)*+"""
_TAG: Final = (
    rf"<(?:(?P<slash>/?)(?P<name>[{_LETTER}][{_LETTER}0-9:._-]*+)"
    rf"(?P<rest>{_ATTRIBUTES}(?:=\s*+{_WITH_TAGS}{_ATTRIBUTES}){{0,3}}+)(?P<end>>|(?=<)|\Z)"
    r"|(?P<comment>!--)|(?i:!\[CDATA\[|!doctype|\?xml)[^<>]*+>)"
)
_LOADS_OR_RUNS: Final = r"""[\s/"'](?i:on[a-z]+|href|src|srcdoc|style|action|formaction|xlink:href)\s*="""
_ENTITY: Final = r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});"


def strip_markup(text: str) -> str:
    """The words of a page. Doing it again changes nothing."""
    for _ in range(4):
        if "<" not in text and "&" not in text:
            return text
        stripped = re.sub(_ENTITY, _decode_entity, _strip_tags(text))
        if stripped == text:
            return text
        text = stripped
    # Tags within tags within tags are built to outlast the stripping: without '<' and '&' nothing is left to strip.
    return text.replace("<", "").replace("&", "")


def _strip_tags(text: str) -> str:
    in_json = text.lstrip()[:1] in ("{", "[")  # whose strings have no raw line ends
    parts = list[str]()
    missing = set[str]()
    position = 0
    tags = re.compile(_TAG)
    tag = tags.search(text)
    while tag is not None:
        end = _end_of_tag(tag, missing) if _is_tag(tag) else -1
        if end >= 0:
            replacement = _REPLACEMENTS.get((tag["name"] or "").lower(), "")
            if replacement and in_json:
                replacement = " "
            parts += (text[position : tag.start()], replacement)
            position = end
        tag = tags.search(text, max(tag.start() + 1, position))
    return "".join([*parts, text[position:]])


def _is_tag(tag: re.Match[str]) -> bool:
    name, rest, end = tag.group("name", "rest", "end")
    if LEFT_OUT in tag[0]:
        return False
    if name is None:
        return True
    if name.lower() in _REPLACEMENTS and end:
        bare_words = rest[:1].isspace() and not rest.isspace() and re.search(r"""[="'/]""", rest) is None
        return len(name) > 1 or not bare_words  # in 'a<b and c>d' there is no tag
    return re.search(_LOADS_OR_RUNS, rest) is not None  # even if it never ends: a page may end it


def _end_of_tag(tag: re.Match[str], missing: set[str]) -> int:
    """Return the position after a tag, a comment or a hidden element; -1 for a comment without end."""
    name = (tag["name"] or "").lower()
    if tag["comment"]:
        closing = "-->"
    elif name in _UNSEEN and not tag["slash"] and not tag["rest"].endswith("/"):
        closing = rf"</(?i:{name})(?![{_LETTER}0-9])[^<>]*+>?"
    else:
        return tag.end()
    if closing not in missing:
        found = re.compile(closing).search(tag.string, tag.end())
        if found is not None:
            return found.end()
        missing.add(closing)
    return -1 if tag["comment"] else tag.end()


def _decode_entity(entity: re.Match[str]) -> str:
    """The character an entity means, unless that is markup again or would break JSON."""
    meant = unescape(entity[0])
    if meant == entity[0] or any(mark in '<>&"\\;' or (mark.isspace() and mark != "\xa0") for mark in meant):
        return entity[0]
    return clean(meant)
