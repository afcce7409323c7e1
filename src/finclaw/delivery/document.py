"""A document as a tree of blocks with inline content, each written in several markups at once.

A form is a markup, the plain text to fall back on, or the Markdown that the model wrote. `Writing` knows the forms of
one document, the marks of each, and how much of a part marks may take.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal, NamedTuple, TypeVar
from urllib.parse import quote

from finclaw.kernel.envelope import Markup
from finclaw.text import LengthUnit, text_length

Marks = tuple[str, str]  # what stands before and behind the words
NO_MARKS: Final[Marks] = ("", "")
_MARKDOWN: Final = re.compile(r"([\\*_~`|>\[\]#<])")
_RUNS: Final = re.compile("`+")
_LANGUAGE: Final = re.compile(r"[A-Za-z0-9_+#.-]{1,24}")


def _always(marks: Marks) -> Callable[..., Marks]:
    """Return a function that gives these marks whatever they stand around."""

    def get_marks(*_: object) -> Marks:
        return marks

    return get_marks


class Dialect(NamedTuple):
    """A way to write formatted text. Where it has no marks for something, the words stand for themselves."""

    escape: Callable[[str], str] = str
    escape_code: Callable[[str], str] = str
    escape_address: Callable[[str], str] = str
    """Of an address that stands in the text, which the platform makes a link by itself."""
    bold: Marks = NO_MARKS
    italic: Marks = NO_MARKS
    strike: Marks = NO_MARKS
    heading: Callable[[int], Marks] = _always(NO_MARKS)
    code: Callable[[str], Marks] = _always(NO_MARKS)
    """Around code in a line: the marks depend on it."""
    fence: Callable[[str, str], Marks] = _always(NO_MARKS)
    """Around lines of code, which may have a language."""
    link: Callable[[str], Marks] = _always(NO_MARKS)
    """Without marks, the address stands behind the label."""
    quote: Marks = NO_MARKS
    quote_prefix: str = "> "
    joint: str = ""
    """What must stand between a mark and a letter, where a mark inside a word is none."""
    bullet: str = "• "
    rule: str = "———"
    newline: str = "\n"
    counts_marks: bool = True
    """The platform counts the marks too, and not only what is left when it has read them."""
    has_blocks: bool = False  # paragraphs, lists and tables have marks of their own


def get_dialect(markup: Markup) -> Dialect:
    return _DIALECTS[markup]


def escape(text: str, markup: Markup) -> str:
    """A text that is no Markdown, such as a card's, so that it is shown to the letter."""
    dialect = _DIALECTS[markup]
    return dialect.escape(text).replace("\n", dialect.newline)


def _escape_html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def _tag(name: str) -> Marks:
    return f"<{name}>", f"</{name}>"


def _html_heading(level: int) -> Marks:
    return _tag(f"h{level}")


def _html_fence(_code: str, language: str) -> Marks:
    known = _LANGUAGE.match(language)
    if known is None:
        return _tag("pre")
    return f'<pre><code class="language-{known[0]}">', "</code></pre>"


def _html_link(url: str) -> Marks:
    return f'<a href="{_escape_html(url)}">', "</a>"


def _escape_markdown(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", text)


def _markdown_heading(level: int) -> Marks:
    """Discord knows three."""
    if level > 3:
        return "**", "**"
    return f"{'#' * level} ", ""


def _markdown_code(code: str) -> Marks:
    marks = "`" * (_longest_run(code) + 1)
    if code.startswith("`") or code.endswith("`"):
        return f"{marks} ", f" {marks}"
    return marks, marks


def _markdown_fence(code: str, language: str) -> Marks:
    marks = "`" * max(3, _longest_run(code) + 1)
    known = _LANGUAGE.match(language)
    return f"{marks}{known[0] if known else ''}\n", f"\n{marks}"


def _longest_run(code: str) -> int:
    return max(map(len, _RUNS.findall(code)), default=0)


def _markdown_link(url: str) -> Marks:
    return "[", f"]({quote(url, safe=_IN_ADDRESS)})"


_IN_ADDRESS: Final = ":/?#[]@!$&'*+,;=%~|{}^" + "".join(map(chr, range(0xA0, 0x250)))
"""What stays in an address as it is: everything but white space, parentheses and angle brackets."""


def _escape_mrkdwn(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _escape_mrkdwn_code(text: str) -> str:
    """Three backticks would end the code, and there is no escape for them."""
    return _escape_mrkdwn(text).replace("```", "`\u200b`\u200b`")


def _mrkdwn_code(code: str) -> Marks:
    if "`" in code:
        return NO_MARKS
    return "`", "`"


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
        heading=_always(_tag("b")),
        code=_always(_tag("code")),
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
        code=_always(_tag("code")),
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
        heading=_always(("*", "*")),
        code=_mrkdwn_code,
        fence=_always(("```\n", "\n```")),
        joint="\u200b",
        link=_mrkdwn_link,
    ),
}

T = TypeVar("T")

CodeStyle = Literal["fenced", "indented"]
Forms = tuple[str, ...]
"""The same words in every form; those that the channel counts are the first."""
Escapes = tuple[Callable[[str], str], ...]  # how words are written in each form


class Wrapper(NamedTuple):
    """Marks around words. Where a part ends inside they are closed by `pause`, and the next part has `resume`."""

    open: Forms
    close: Forms
    pause: Forms
    resume: Forms


class TextRun(NamedTuple):
    """Words of a line. A link is one that is not `breakable`: it is cut only if no part can hold it."""

    text: str
    escapes: Escapes
    breakable: bool = True


class Fixed(NamedTuple):
    """A sign that no cut divides, such as a bullet, or the end of a line, after which a cut is good."""

    forms: Forms
    is_line_end: bool = False


class Leave(NamedTuple):
    """The end of the wrapper that was opened last."""


Inline = TextRun | Fixed | Wrapper | Leave


class Block(NamedTuple):
    """Inline content, or blocks inside a wrapper. `keep`: it is not torn if one part can hold it."""

    gap: Forms  # white space before it, left out where a part begins
    inlines: Sequence[Inline] = ()
    children: "Sequence[Block]" = ()
    wrapper: Wrapper | None = None
    keep: bool = False
    resume: Forms | None = None
    """What the wrapper around it is opened with where a part begins with it: a numbered list goes on counting."""


def join_forms(pieces: Sequence[Forms], nothing: Forms) -> Forms:
    if not pieces:
        return nothing
    return tuple(map("".join, zip(*pieces, strict=True)))


def escape_forms(word: str, escapes: Escapes) -> Forms:
    return tuple([escape(word) for escape in escapes])


def write_block(block: Block) -> Iterator[Forms]:
    """A block with all that is in it, as if there were no limit."""
    if block.wrapper is not None:
        yield block.wrapper.open
    for place, child in enumerate(block.children):
        if place:
            yield child.gap
        yield from write_block(child)
    opened = list[Wrapper]()
    for each in block.inlines:
        if isinstance(each, TextRun):
            yield escape_forms(each.text, each.escapes)
        elif isinstance(each, Fixed):
            yield each.forms
        elif isinstance(each, Wrapper):
            opened.append(each)
            yield each.open
        else:
            yield opened.pop().close
    if block.wrapper is not None:
        yield block.wrapper.close


class DocumentPlace(NamedTuple):
    """A place in a document: what stands before each of its lines, and what the marks around it take of a part."""

    prefix: Forms
    overhead: int = 0
    is_quoted: bool = False


class Writing:
    """The forms of one document: plain text, and the channel's markup where that is another."""

    def __init__(
        self, dialects: Sequence[Dialect], limit: int, unit: LengthUnit, code_style: CodeStyle = "fenced"
    ) -> None:
        self.dialects = tuple(dialects)
        self.limit = limit
        self.unit: LengthUnit = unit
        self.code_style: CodeStyle = code_style
        self.counted = 1
        """How many of the forms have the limit. Where tags are not counted the plain text is never the shorter one."""
        if len(self.dialects) == 2 and self.dialects[1].counts_marks:
            self.counted = 2
        self.words: Escapes = self.each(lambda dialect: dialect.escape)
        self.code: Escapes = self.each(lambda dialect: dialect.escape_code)
        self.nothing: Forms = ("",) * len(self.dialects)
        self.top = DocumentPlace(self.nothing)

    def each(self, get: Callable[[Dialect], T]) -> tuple[T, ...]:
        return tuple([get(dialect) for dialect in self.dialects])

    def get_size(self, forms: Forms) -> int:
        return max([text_length(form, self.unit) for form in forms[: self.counted]])

    def write(self, block: Block) -> Forms:
        return join_forms(list(write_block(block)), self.nothing)

    def wrap(self, get_marks: Callable[[Dialect], Marks]) -> Wrapper:
        marks = self.each(get_marks)
        opening = tuple([before for before, _ in marks])
        closing = tuple([behind for _, behind in marks])
        return Wrapper(opening, closing, closing, opening)

    def get_cost(self, wrapper: Wrapper) -> int:
        """What the wrapper takes of every part that it reaches into."""
        opening = max(self.get_size(wrapper.open), self.get_size(wrapper.resume))
        return opening + max(self.get_size(wrapper.close), self.get_size(wrapper.pause))

    def has_room_for(self, overhead: int) -> bool:
        """Whether marks may take so much of a part: at most half of it. The packer leaves out what takes more."""
        return 2 * overhead <= self.limit

    def break_line(self, place: DocumentPlace, count: int = 1) -> Forms:
        lines = list[str]()
        for dialect, prefix in zip(self.dialects, place.prefix, strict=True):
            if dialect.has_blocks:
                lines.append(dialect.newline * count)
            else:
                lines.append(f"\n{prefix.rstrip(' ')}" * (count - 1) + f"\n{prefix}")
        return tuple(lines)

    def break_code_line(self, place: DocumentPlace) -> Forms:
        return tuple([f"\n{prefix}" for prefix in place.prefix])

    def add_prefix(self, wrapper: Wrapper, place: DocumentPlace) -> Wrapper:
        """Return the wrapper with what stands before each line of this place."""
        gap = self.break_code_line(place)
        opening = tuple([mark.replace("\n", line) for mark, line in zip(wrapper.open, gap, strict=True)])
        closing = tuple([mark.replace("\n", line) for mark, line in zip(wrapper.close, gap, strict=True)])
        return Wrapper(opening, closing, closing, opening)

    def separate(self, place: DocumentPlace, lines: int, before: Block, block: Block) -> Forms:
        """The gap between two blocks. One that has tags of its own needs none."""
        broken = self.break_line(place, lines)
        has_tags = self.dialects[-1].has_blocks and (before.wrapper is not None or block.wrapper is not None)
        return (*broken[:-1], "") if has_tags else broken

    def indent(self, place: DocumentPlace, prefix: str) -> DocumentPlace:
        """Deeper by so much where lines are all there is."""
        deeper = list(place.prefix)
        for at, dialect in enumerate(self.dialects):
            if not dialect.has_blocks:
                deeper[at] += prefix
        return place._replace(prefix=tuple(deeper))
