"""Markups of the platforms: how each writes what Markdown can say, and how words are escaped in it."""

import re
from collections.abc import Callable
from typing import Final, NamedTuple
from urllib.parse import quote

from finclaw.kernel.envelope import Markup

Marks = tuple[str, str]
"""What stands before and behind the words."""
NO_MARKS: Final[Marks] = ("", "")

_MARKDOWN: Final = re.compile(r"([\\*_~`|>\[\]#<])")
_RUNS: Final = re.compile("`+")
_LANGUAGE: Final = re.compile(r"[A-Za-z0-9_+#.-]{1,24}")


def _no_heading(_level: int) -> Marks:
    return NO_MARKS


def _no_code(_code: str) -> Marks:
    return NO_MARKS


def _no_fence(_code: str, _language: str) -> Marks:
    return NO_MARKS


class Dialect(NamedTuple):
    """A way to write formatted text. Where it has no marks for something, the words stand for themselves."""

    escape: Callable[[str], str] = str
    escape_code: Callable[[str], str] = str
    escape_address: Callable[[str], str] = str
    """Of an address that stands in the text, which the platform makes a link by itself."""
    bold: Marks = NO_MARKS
    italic: Marks = NO_MARKS
    strike: Marks = NO_MARKS
    heading: Callable[[int], Marks] = _no_heading
    code: Callable[[str], Marks] = _no_code
    """Around code in a line: the marks depend on it."""
    fence: Callable[[str, str], Marks] = _no_fence
    """Around lines of code, which may have a language."""
    link: Callable[[str], Marks] | None = None
    """None: the address stands behind the label."""
    quote: Marks = NO_MARKS
    quote_prefix: str = "> "
    """Before every line of a quote."""
    joint: str = ""
    """What must stand between a mark and a letter, where a mark inside a word is none."""
    bullet: str = "• "
    rule: str = "———"
    newline: str = "\n"
    counts_marks: bool = True
    """The platform counts the marks too, and not only what is left when it has read them."""
    has_blocks: bool = False
    """Paragraphs, lists and tables have marks of their own."""


def get_dialect(markup: Markup) -> Dialect:
    return _DIALECTS[markup]


def escape(text: str, markup: Markup) -> str:
    """A text that is no Markdown, such as a card's, so that it is shown to the letter."""
    dialect = _DIALECTS[markup]
    escaped = dialect.escape(text)
    return escaped if dialect.newline == "\n" else escaped.replace("\n", dialect.newline)


# ── HTML ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _escape_html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def _tag(name: str) -> Marks:
    return f"<{name}>", f"</{name}>"


def _bold_heading(_level: int) -> Marks:
    return _tag("b")


def _html_heading(level: int) -> Marks:
    return _tag(f"h{level}")


def _html_code(_code: str) -> Marks:
    return _tag("code")


def _html_fence(_code: str, language: str) -> Marks:
    known = _LANGUAGE.match(language)
    return (f'<pre><code class="language-{known[0]}">', "</code></pre>") if known else _tag("pre")


def _html_link(url: str) -> Marks:
    return f'<a href="{_escape_html(url)}">', "</a>"


# ── Markdown ────────────────────────────────────────────────────────────────────────────────────────────────────


def _escape_markdown(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", text)


def _markdown_heading(level: int) -> Marks:
    """Discord knows three."""
    return (f"{'#' * level} ", "") if level <= 3 else ("**", "**")


def _markdown_code(code: str) -> Marks:
    marks = "`" * (max((len(run) for run in _RUNS.findall(code)), default=0) + 1)
    space = " " if code[:1] == "`" or code[-1:] == "`" else ""
    return marks + space, space + marks


def _markdown_fence(code: str, language: str) -> Marks:
    marks = "`" * max(3, max((len(run) for run in _RUNS.findall(code)), default=0) + 1)
    known = _LANGUAGE.match(language)
    return f"{marks}{known[0] if known else ''}\n", f"\n{marks}"


def _markdown_link(url: str) -> Marks:
    return "[", f"]({quote(url, safe=_IN_ADDRESS)})"


_IN_ADDRESS: Final = ":/?#[]@!$&'*+,;=%~|{}^" + "".join(map(chr, range(0xA0, 0x250)))
"""What stays in an address as it is: everything but white space, parentheses and angle brackets."""


# ── Slack ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _escape_mrkdwn(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _escape_mrkdwn_code(text: str) -> str:
    """Three backticks would end the code, and there is no escape for them."""
    return _escape_mrkdwn(text).replace("```", "`\u200b`\u200b`")


def _mrkdwn_heading(_level: int) -> Marks:
    return "*", "*"


def _mrkdwn_fence(_code: str, _language: str) -> Marks:
    return "```\n", "\n```"


def _mrkdwn_code(code: str) -> Marks:
    return NO_MARKS if "`" in code else ("`", "`")


def _mrkdwn_link(url: str) -> Marks:
    return f"<{_escape_mrkdwn(url).replace('|', '%7C')}|", ">"


_PLAIN: Final = Dialect()
_DIALECTS: Final[dict[Markup, Dialect]] = {
    "plain": _PLAIN,
    "source": _PLAIN,
    "inline_html": Dialect(
        escape=_escape_html,
        escape_code=_escape_html,
        escape_address=_escape_html,
        bold=_tag("b"),
        italic=_tag("i"),
        strike=_tag("s"),
        heading=_bold_heading,
        code=_html_code,
        fence=_html_fence,
        link=_html_link,
        quote=_tag("blockquote"),
        quote_prefix="",
        counts_marks=False,
    ),
    "html": Dialect(
        escape=_escape_html,
        escape_code=_escape_html,
        escape_address=_escape_html,
        bold=_tag("strong"),
        italic=_tag("em"),
        strike=_tag("del"),
        heading=_html_heading,
        code=_html_code,
        fence=_html_fence,
        link=_html_link,
        quote=_tag("blockquote"),
        quote_prefix="",
        rule="<hr/>",
        newline="<br/>",
        has_blocks=True,
    ),
    "markdown": Dialect(
        escape=_escape_markdown,
        bold=("**", "**"),
        italic=("*", "*"),
        strike=("~~", "~~"),
        heading=_markdown_heading,
        bullet="- ",
        code=_markdown_code,
        fence=_markdown_fence,
        link=_markdown_link,
    ),
    "mrkdwn": Dialect(
        escape=_escape_mrkdwn,
        escape_code=_escape_mrkdwn_code,
        escape_address=_escape_mrkdwn,
        bold=("*", "*"),
        italic=("_", "_"),
        strike=("~", "~"),
        heading=_mrkdwn_heading,
        code=_mrkdwn_code,
        fence=_mrkdwn_fence,
        joint="\u200b",
        link=_mrkdwn_link,
    ),
}
