"""Assembly of streamed tool calls: which piece belongs to which call.

Servers leave out, repeat or never change the index, the id and the name.

Nothing says that a call is over before the answer is, so all calls stay open until then.
"""

from typing import Any, Final

import msgspec
from msgspec import Struct

from finclaw.kernel.chunk import Chunk, ToolInputDelta, ToolUseEnd, ToolUseStart

_LONGEST: Final = 256
"""Characters of an id or a name. No API takes longer ones, and a server may repeat itself without end."""

_encode: Final = msgspec.json.Encoder().encode


class FunctionDelta(Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None
    """JSON text in pieces; some servers send the object itself."""


_UNNAMED: Final = FunctionDelta()


class ToolCallDelta(Struct):
    index: int | None = None
    id: str | None = None
    function: FunctionDelta | None = None


class _Call:
    """A call is told of with the first piece of its arguments: by then its name is whole."""

    def __init__(self, block: int) -> None:
        self.block = block
        self.id = ""
        self.name = ""
        self.told = False
        self.looks_whole = False
        """Its arguments so far end like an object."""
        self._held: list[str] = []
        """Arguments that came before the name."""

    def feed(self, id: str, name: str, arguments: str) -> list[Chunk]:
        if not self.told:
            self._learn(id, name, alone=not (name or arguments))
        if not arguments:
            return []
        self.looks_whole = arguments.rstrip().endswith("}")
        if self.told:
            return [ToolInputDelta(arguments, self.block)]
        self._held.append(arguments)
        if not self.name:
            return []
        return self.tell()

    def tell(self) -> list[Chunk]:
        """The start of the call and what was held back, if that has not been told."""
        if self.told or not (self.name or self._held):
            return []
        self.told = True
        start = ToolUseStart(self.id, self.name, self.block)
        if not self._held:
            return [start]
        return [start, ToolInputDelta("".join(self._held), self.block)]

    def _learn(self, id: str, name: str, *, alone: bool) -> None:
        """What comes again is known already, what differs is the next part; an id is only split when sent alone."""
        if id and (not self.id or (alone and id != self.id)):
            self.id = (self.id + id)[:_LONGEST]
        if name != self.name:
            self.name = (self.name + name)[:_LONGEST]


class ToolCallAssembler:
    """The calls of one answer. Their blocks are numbered from `first_block` on, in the order in which they began."""

    def __init__(self, first_block: int) -> None:
        self._first_block = first_block
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}

    def __bool__(self) -> bool:
        return any(call.told for call in self._calls)

    def feed(self, piece: ToolCallDelta) -> list[Chunk]:
        function = piece.function or _UNNAMED
        name = function.name or ""
        arguments = _text(function.arguments)
        call = self._find(piece, name, arguments) or self._begin(piece)
        return call.feed(piece.id or "", name, arguments)

    def close(self, *, cut: bool, sure: bool) -> list[Chunk]:
        """What was held back, and the ends: none when the answer was cut, for nobody knows which call was hit.

        If it is not sure that the model had said all, a call is over only when it looks so.
        """
        chunks: list[Chunk] = []
        for call in self._calls:
            chunks += call.tell()
            if call.told and not cut and (sure or call.looks_whole):
                chunks.append(ToolUseEnd(call.block))
        return chunks

    def _find(self, piece: ToolCallDelta, name: str, arguments: str) -> _Call | None:
        """The call that this piece goes on with; None when it begins another."""
        if piece.index is not None:
            known = self._by_index.get(piece.index)
        else:
            known = self._by_id.get(piece.id or "")
            if known is None and self._calls:
                known = self._calls[-1]
        if known is not None and name and _is_another(known, piece, name, arguments):
            return None
        return known

    def _begin(self, piece: ToolCallDelta) -> _Call:
        place = len(self._calls)
        call = _Call(self._first_block + place)
        self._calls.append(call)
        self._by_index[place if piece.index is None else piece.index] = call
        if piece.id:
            self._by_id[piece.id] = call
        return call


def _is_another(known: _Call, piece: ToolCallDelta, name: str, arguments: str) -> bool:
    """A name came, though the call at this place may have one: is it told again, or does another call begin?"""
    if piece.id and known.id:
        return piece.id != known.id
    if known.looks_whole and arguments.lstrip().startswith("{"):
        return True
    return piece.index is None and name != known.name


def _text(arguments: str | dict[str, Any] | None) -> str:
    if isinstance(arguments, dict):
        return _encode(arguments).decode()
    return arguments or ""
