"""A fault: what a model's server or the line to it does wrong, as a function of the answer that it spoils."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tests.providers.faulty_server import Play, Spoil
from tests.providers.protocols import Call, Said, Wire

Then = Literal["saved", "taken", "told", "ended", "cut", "wordless", "failed"]
"""What comes of it.

`saved`: asked again, the model answers. `taken`: the answer is as good as any. `told`: the answer stands, its calls
get a result, and the model goes on. `ended`: the answer is the last one. `cut`: it is, and says that it is not whole.
`wordless`: there is none, and the person is told so. `failed`: the sender gets a notice.
"""

FOR_GOOD = 99
EXTRA = Call("call_extra", "look", '{"text": "extra"}')
WAIT = Said("잠시만요 🙂. ", (EXTRA,))
"""What the model says when its calls are at fault."""


@dataclass(frozen=True)
class Fault:
    name: str
    spoil: Spoil
    then: Then = "saved"
    times: int = 1
    only: Literal["anthropic", "openai"] | None = None
    runs: tuple[tuple[str, str], ...] = ()
    """Which tools the spoiled answer runs all the same."""
    waits: float = 0.0
    """Seconds before it may be asked again."""
    more: tuple[Spoil, ...] = ()
    """What goes wrong after that."""

    @property
    def spoils(self) -> Sequence[Spoil]:
        return (*[self.spoil] * self.times, *self.more)


def always(play: Play) -> Spoil:
    def spoil(wire: Wire, said: Said) -> Play:
        return play

    return spoil


def with_call(said: Said) -> Said:
    return said if said.calls else replace(said, calls=(EXTRA,))


def byte_by_byte(event: bytes) -> list[bytes]:
    return [event[at : at + 1] for at in range(len(event))]
