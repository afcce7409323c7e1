"""Rendering of Markdown in a platform's own markup, and as plain text. What it does not know stays as it is."""

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from finclaw.kernel.envelope import Markup

_SIGNS: Final = re.compile(r"[*_`~\[<>&#|\\]")
"""A text without any of these looks the same in every markup but HTML."""
_INLINE: Final = re.compile(
    r"`(?P<code>[^`\n]+)`"
    r"|\[(?P<label>[^\]\n]{1,300})\]\((?P<url>https?://[^\s()<>]{1,2000})\)"
    r"|(?<![*\d])\*\*(?=[^\s*])(?P<bold>.{1,500}?)(?<=[^\s*])\*\*(?![*\d])"
    r"|(?<!\w)__(?=[^\s_])(?P<bold_too>.{1,500}?)(?<=[^\s_])__(?![\w.])"
    r"|(?<![\w*])\*(?=[^\s*])(?P<italic>[^*\n]{1,500}?)(?<=[^\s*])\*(?![*0-9A-Za-z])"
    r"|(?<!\w)_(?=[^\s_])(?P<italic_too>[^_\n]{1,500}?)(?<=[^\s_])_(?!\w)"
    r"|~~(?=[^\s~])(?P<strike>[^~\n]{1,500}?)(?<=[^\s~])~~"
)
"""A star between digits is a sign of arithmetic, and an underscore inside a word belongs to a name."""
_HEADING: Final = re.compile(r"#{1,6} +(?P<words>.+?)[ #]*")
_FENCE: Final = re.compile(r" {0,3}(?:```|~~~)[^`]*")
_MARKDOWN: Final = re.compile(r"([\\*_~`|>\[\]#])")


class _Dialect(NamedTuple):
    """How a markup writes what Markdown can say; `{}` is where the words go."""

    escape: Callable[[str], str]
    bold: str
    italic: str
    strike: str
    code: str
    block: str
    link: str
    """`{url}` is the address."""
    bullet: str
    newline: str = "\n"


def _escape_html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def _escape_mrkdwn(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


_HTML: Final = _Dialect(
    _escape_html,
    "<b>{}</b>",
    "<i>{}</i>",
    "<s>{}</s>",
    "<code>{}</code>",
    "<pre>{}</pre>",
    '<a href="{url}">{}</a>',
    "• ",
)
_DIALECTS: Final[dict[Markup, _Dialect]] = {
    "plain": _Dialect(str, "{}", "{}", "{}", "{}", "{}", "{} ({url})", "• "),
    "inline_html": _HTML,
    "html": _HTML._replace(newline="<br/>"),
    "mrkdwn": _Dialect(_escape_mrkdwn, "*{}*", "_{}_", "~{}~", "`{}`", "```\n{}\n```", "<{url}|{}>", "• "),
}


def render(text: str, markup: Markup) -> str:
    """Markdown in that markup. The very same text where nothing changes."""
    dialect = _DIALECTS.get(markup)
    if dialect is None or (markup != "html" and _SIGNS.search(text) is None):
        return text
    return dialect.newline.join(_blocks(text, dialect))


def escape(text: str, markup: Markup) -> str:
    """A text that is no Markdown, such as a card's, so that it is shown to the letter."""
    if markup == "markdown":
        return _MARKDOWN.sub(r"\\\1", text)
    dialect = _DIALECTS.get(markup)
    return text if dialect is None else dialect.escape(text).replace("\n", dialect.newline)


def _blocks(text: str, dialect: _Dialect) -> Iterator[str]:
    """Line by line, but code as one; a fence that nobody closed reaches to the end."""
    lines, code = iter(text.split("\n")), list[str]()
    for line in lines:
        if _FENCE.fullmatch(line):
            for inside in lines:
                if _FENCE.fullmatch(inside):
                    break
                code.append(inside)
            yield dialect.block.format(dialect.escape("\n".join(code)))
            code.clear()
        else:
            yield _line(line, dialect)


def _line(line: str, dialect: _Dialect) -> str:
    heading = _HEADING.fullmatch(line)
    if heading is not None:
        return dialect.bold.format(_inline(heading["words"], dialect._replace(bold="{}")))
    stripped = line.lstrip(" ")
    indent = line[: len(line) - len(stripped)]
    if stripped.startswith("* "):
        return f"{indent}{dialect.bullet}{_inline(stripped[2:], dialect)}"
    return indent + _inline(stripped, dialect)


def _inline(text: str, dialect: _Dialect) -> str:
    parts: list[str] = []
    at = 0
    for found in _INLINE.finditer(text):
        parts += (dialect.escape(text[at : found.start()]), _span(found, dialect))
        at = found.end()
    return "".join((*parts, dialect.escape(text[at:])))


def _span(found: re.Match[str], dialect: _Dialect) -> str:
    kind, words = next((name, words) for name, words in found.groupdict().items() if words is not None)
    if kind == "code":
        return dialect.code.format(dialect.escape(words))
    if kind == "label":
        return dialect.link.format(_inline(words, dialect), url=dialect.escape(found["url"]))
    form = {"bold": dialect.bold, "italic": dialect.italic, "strike": dialect.strike}[kind.removesuffix("_too")]
    return form.format(_inline(words, dialect))
