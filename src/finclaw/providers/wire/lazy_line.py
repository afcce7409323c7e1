"""A line that is opened with the first question: the HTTP client takes a fifth of a second to import."""

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from finclaw.kernel.port import Clock
from finclaw.providers.wire.failure import Kinds

if TYPE_CHECKING:
    from finclaw.providers.wire.line import Body, Line
    from finclaw.providers.wire.reply import Reply


class LazyLine:
    """To one address. `headers` are asked for when it opens, so that no key lies open before; whoever asks a line
    that was closed opens it again. `first_byte` and `idle` are as in `Line.post`.
    """

    def __init__(
        self,
        url: str,
        headers: Callable[[], Mapping[str, str]],
        *,
        name: str,
        kinds: Kinds,
        clock: Clock,
        first_byte: float,
        idle: float,
    ) -> None:
        self._url = url
        self._headers = headers
        self._name = name
        self._kinds = kinds
        self._clock = clock
        self._first_byte = first_byte
        self._idle = idle
        self._open: Line | None = None

    def post(self, write: "Callable[[], Body]") -> "Coroutine[Any, Any, Reply]":
        """The reply to read from; the caller releases it. Raises ProviderError."""
        line = self._open or self._opened()
        return line.post(write, first_byte=self._first_byte, idle=self._idle)

    async def close(self) -> None:
        line, self._open = self._open, None
        if line is not None:
            await line.close()

    def _opened(self) -> "Line":
        from finclaw.providers.wire.line import Line  # noqa: PLC0415  only whoever speaks pays for it

        self._open = Line(self._url, self._headers(), name=self._name, kinds=self._kinds, clock=self._clock)
        return self._open
