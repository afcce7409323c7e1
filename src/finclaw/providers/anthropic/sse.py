"""Server-sent events from bytes. Characters are never looked at, so a read may end in the middle of one."""


class EventReader:
    """Bytes in as they come, the data of whole events out."""

    def __init__(self) -> None:
        self._waiting: list[bytes] = []
        """The pieces of an event that has not ended."""
        self._last = b""
        """The last byte fed: with the next one it may be the end of an event."""
        self._return = False
        """The last byte was a carriage return, and whether a line feed belongs to it is not known yet."""

    def feed(self, data: bytes) -> list[bytes]:
        if self._return or b"\r" in data:
            data = self._plain_ends(data)
        if b"\n\n" not in data and not (self._last == b"\n" and data.startswith(b"\n")):
            if data:
                self._waiting.append(data)
                self._last = data[-1:]
            return []
        if self._waiting:
            self._waiting.append(data)
            data = b"".join(self._waiting)
        *events, rest = data.split(b"\n\n")
        self._waiting = [rest] if rest else []
        self._last = rest[-1:]
        return [payload for event in events if (payload := _payload(event)) is not None]

    def _plain_ends(self, data: bytes) -> bytes:
        """All three kinds of line end as line feeds. A carriage return at the end waits for what follows it."""
        if self._return:
            data = b"\r" + data
        self._return = data.endswith(b"\r")
        if self._return:
            data = data[:-1]
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _payload(event: bytes) -> bytes | None:
    """The data of an event; None for comments and events without any."""
    if event.startswith(b"event: ") and event.count(b"\n") == 1:  # as every known server writes it
        _, found, data = event.partition(b"\ndata: ")
        if found:
            return data
    lines = [_value(line) for line in event.split(b"\n") if line == b"data" or line.startswith(b"data:")]
    return b"\n".join(lines) if lines else None


def _value(line: bytes) -> bytes:
    return line[5:].removeprefix(b" ")
