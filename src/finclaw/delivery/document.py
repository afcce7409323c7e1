"""A document as a tree of blocks with inline content, each written in several forms at once.

A form is a markup, the plain text to fall back on, or the Markdown that the model wrote.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

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
