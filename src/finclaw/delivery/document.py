"""A document as a tree of blocks with inline content, each written in several forms at once.

A form is a markup, the plain text to fall back on, or the Markdown that the model wrote. `Writing` knows the forms of
one document, the marks of each, and how much of a part marks may take.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple, TypeVar

from finclaw.delivery.markup import Dialect, Marks
from finclaw.text import LengthUnit, text_length

T = TypeVar("T")

CodeStyle = Literal["fenced", "indented"]

Forms = tuple[str, ...]
"""The same words in every form; those that the channel counts are the first."""

Escapes = tuple[Callable[[str], str], ...]
"""How words are written in each form."""


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

    gap: Forms
    """White space before it, left out where a part begins."""
    inlines: Sequence[Inline] = ()
    children: "Sequence[Block]" = ()
    wrapper: Wrapper | None = None
    keep: bool = False
    resume: Forms | None = None
    """What the wrapper around it is opened with where a part begins with it: a numbered list goes on counting."""


def join_forms(pieces: Sequence[Forms], nothing: Forms) -> Forms:
    return tuple(map("".join, zip(*pieces, strict=True))) if pieces else nothing


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
        self.counted = 2 if len(self.dialects) == 2 and self.dialects[1].counts_marks else 1
        """How many of the forms have the limit. Where tags are not counted the plain text is never the shorter one."""
        self.words: Escapes = self.each(lambda dialect: dialect.escape)
        self.code: Escapes = self.each(lambda dialect: dialect.escape_code)
        self.nothing: Forms = ("",) * len(self.dialects)
        self.top = DocumentPlace(self.nothing)

    def each(self, get: Callable[[Dialect], T]) -> tuple[T, ...]:
        return tuple([get(dialect) for dialect in self.dialects])

    def get_size(self, forms: Forms) -> int:
        return max([text_length(form, self.unit) for form in forms[: self.counted]])

    def write(self, block: Block) -> Forms:
        """A block as if there were no limit."""
        return join_forms(list(write_block(block)), self.nothing)

    # ── wrappers ────────────────────────────────────────────────────────────────────────────────────────────

    def wrap(self, get_marks: Callable[[Dialect], Marks]) -> Wrapper:
        marks = self.each(get_marks)
        opening, closing = tuple([each[0] for each in marks]), tuple([each[1] for each in marks])
        return Wrapper(opening, closing, closing, opening)

    def get_cost(self, wrapper: Wrapper) -> int:
        """What the wrapper takes of every part that it reaches into."""
        opening = max(self.get_size(wrapper.open), self.get_size(wrapper.resume))
        return opening + max(self.get_size(wrapper.close), self.get_size(wrapper.pause))

    def has_room_for(self, overhead: int) -> bool:
        """Whether marks may take so much of a part: at most half of it. The packer leaves out what takes more."""
        return 2 * overhead <= self.limit

    # ── lines ───────────────────────────────────────────────────────────────────────────────────────────────

    def break_line(self, place: DocumentPlace, count: int = 1) -> Forms:
        return tuple(
            [
                dialect.newline * count
                if dialect.has_blocks
                else f"\n{prefix.rstrip(' ')}" * (count - 1) + f"\n{prefix}"
                for dialect, prefix in zip(self.dialects, place.prefix, strict=True)
            ]
        )

    def break_code_line(self, place: DocumentPlace) -> Forms:
        return tuple([f"\n{prefix}" for prefix in place.prefix])

    def separate(self, place: DocumentPlace, lines: int, before: Block, block: Block) -> Forms:
        """The gap between two blocks. One that has tags of its own needs none."""
        broken = self.break_line(place, lines)
        has_tags = self.dialects[-1].has_blocks and (before.wrapper is not None or block.wrapper is not None)
        return (*broken[:-1], "") if has_tags else broken

    def indent(self, place: DocumentPlace, prefix: str) -> DocumentPlace:
        """Deeper by so much where lines are all there is."""
        return place._replace(
            prefix=tuple(
                [
                    old if dialect.has_blocks else old + prefix
                    for dialect, old in zip(self.dialects, place.prefix, strict=True)
                ]
            )
        )
