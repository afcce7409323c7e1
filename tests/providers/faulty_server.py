"""A model on this machine that says what it was told to say, and whose line and server do what a test wants.

It is an obedient model: asked to go on with an answer that was cut, it says the rest of it and nothing else.
"""

import asyncio
import json
import socket
import struct
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

from tests.providers.protocols import Json, Said, Wire

from finclaw.agent.model.retry import GO_ON

_NO_HEADERS: Mapping[str, str] = {}


@dataclass(frozen=True)
class Play:
    """One reply. Every piece is written by itself; `pause` are seconds between two."""

    pieces: Sequence[bytes] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: _NO_HEADERS)
    end: Literal["whole", "closed", "cut", "reset", "silence"] = "whole"
    """`closed`: whole, and the connection is not kept. The others come without the end of the response."""
    pause: float = 0.0
    raw: bool = False
    """The pieces are all that is written, the head of the response included."""
    hurry: bool = False
    """The pieces come together."""


Spoil = Callable[[Wire, Said], Play]


class FaultyServer:
    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.requests: list[Json] = []
        self.bodies: list[bytes] = []
        """The same as they came."""
        self.complaints: list[str] = []
        """Why the API would have refused what was asked."""
        self.talking = 0
        """Connections that are open."""
        self._answers: deque[Said] = deque()
        self._faults: deque[Spoil] = deque()
        self._instead: Said | None = None
        self._step = 0
        self._taken = False

    def expect(
        self,
        *answers: Said,
        faults: Sequence[Spoil] = (),
        step: int = 0,
        taken: bool = False,
        instead: Said | None = None,
    ) -> None:
        """From now on these answers, one for each request. The one at `step` fails in these ways before it comes;
        if a fault is `taken` it counts as the answer. `instead` is what the model says when it fails.
        """
        self._answers, self._faults = deque(answers), deque(faults)
        self._step, self._taken, self._instead = step, taken, instead

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[str]:
        server = await asyncio.start_server(self._talk, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.talking += 1
        try:
            while (body := await _request(reader)) is not None:
                self.bodies.append(body)
                play = self._decide(json.loads(body))
                await _write(play, writer)
                if play.end == "silence":
                    await reader.read()
                if play.end != "whole":
                    break
        except ConnectionError:
            pass  # the other side has heard enough
        finally:
            self.talking -= 1
            writer.close()

    def _decide(self, body: Json) -> Play:
        self.requests.append(body)
        self.complaints += self.wire.refuses(body)
        if not self._answers:
            self.complaints.append("more was asked than there is to say")
            return Play(status=500)
        if self._step == 0 and self._faults:
            fault = self._faults.popleft()
            said = self._instead or self._rest(body)
            if self._taken:
                self._next()
            return fault(self.wire, said)
        said = self._rest(body)
        self._next()
        return Play(self.wire.parts(said).events)

    def _next(self) -> None:
        self._answers.popleft()
        self._step -= 1

    def _rest(self, body: Json) -> Said:
        """The answer, without what the model is told to have said of it."""
        said = self._answers[0]
        conversation = self.wire.conversation(body)
        last = conversation[-1]
        if last["role"] != "user" or not self.wire.words(last).endswith(GO_ON):
            return said
        heard = self.wire.words(conversation[-2])
        if not said.text.startswith(heard):
            self.complaints.append(f"asked to go on behind {heard!r}, which it never said")
        return replace(said, text=said.text[len(heard) :])


async def _request(reader: asyncio.StreamReader) -> bytes | None:
    """The body of the next request; None when there is none."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        return await reader.readexactly(int(length.partition(b":")[2]))
    except asyncio.IncompleteReadError:
        return None


async def _write(play: Play, writer: asyncio.StreamWriter) -> None:
    if not play.raw:
        writer.write(_head(play))
    for piece in [b"".join(play.pieces)] if play.hurry else play.pieces:
        writer.write(piece if play.raw else b"%x\r\n%b\r\n" % (len(piece), piece))
        await writer.drain()
        await asyncio.sleep(play.pause)
    if play.end in ("whole", "closed") and not play.raw:
        writer.write(b"0\r\n\r\n")
    if play.end == "reset":
        sock: socket.socket = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
    else:
        await writer.drain()


def _head(play: Play) -> bytes:
    headers = {"content-type": "text/event-stream", "transfer-encoding": "chunked", **play.headers}
    lines = [f"HTTP/1.1 {play.status} So", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()
