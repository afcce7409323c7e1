"""A long session as the model's server sees it: each request begins with the very bytes of the one before it."""

from itertools import pairwise
from pathlib import Path

import pytest
from tests.providers.faulty_server import FaultyServer
from tests.providers.protocols import WIRES, Call, Said, Wire
from tests.walks.fault_tools import Tools, anybody
from tests.walks.house import FOREVER
from tests.walks.tools import Desk

import finclaw
from finclaw.agent.settings import AgentSettings
from finclaw.kernel.context import Context
from finclaw.kernel.extension import ExtensionApi
from finclaw.providers.anthropic.request import MARK
from finclaw.testing import FakeClock, MemoryChannel

TURNS = 50
_END = b"]}"
"""Of the list of messages, and of the request; in Anthropic's, that of a message's blocks comes before."""


class Remembers:
    """Tells the model something else in every turn, as the moment and the memory do."""

    name = "remembers"

    def __init__(self) -> None:
        self._asked = 0

    def register(self, api: ExtensionApi) -> None:
        api.context.provide("memory", self.recall)

    async def recall(self, context: Context) -> str:
        self._asked += 1
        return f"asked {self._asked} times"


async def bodies_of(wire: Wire, state: Path, clock: FakeClock, *, notes: bool) -> list[bytes]:
    """A question, a call, its result and an answer, an hour later the next. Two requests for each."""
    server, channel = FaultyServer(wire), MemoryChannel(clock)
    async with (
        server.serving() as url,
        finclaw.build(
            finclaw.Settings(state=state, agent=AgentSettings(model=f"{wire.name}/some-model")),
            channels=[channel],
            provider=wire.provider(url, clock),
            extensions=[Tools(Desk()), *([Remembers()] if notes else [])],
            consent=anybody,
            clock=clock,
            threaded=False,
        ) as app,
    ):
        for turn in range(TURNS):
            call = Call(f"call_{turn}", "look", f'{{"text": "목록 {turn}"}}')
            server.expect(Said("찾아봅니다 🙂. ", (call,)), Said(f"답 {turn}입니다."))
            record = await app.wait((await channel.write(_question(turn))).id, FOREVER)
            assert record is not None
            assert record.outcome is not None
            assert record.outcome.kind == "answered"
            await clock.sleep(3_600)
    return [body.replace(MARK, b"") for body in server.bodies]


def _question(turn: int) -> str:
    return f"질문 {turn}, 있나요?"


@pytest.mark.spec("PC-01", "PC-02", "DX-42", "DX-51b")
@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
def test_fifty_turns_begin_with_the_same_bytes(wire: Wire, tmp_path: Path) -> None:
    clock = FakeClock()
    bodies = clock.run(bodies_of(wire, tmp_path, clock, notes=False))
    assert len(bodies) == 2 * TURNS
    for earlier, later in pairwise(bodies):
        assert later.startswith(earlier.removesuffix(_END).removesuffix(_END))


@pytest.mark.spec("PC-01", "DX-42", "DX-77", "DX-51b")
@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
def test_what_changes_with_every_turn_stands_behind_all_that_lasts(wire: Wire, tmp_path: Path) -> None:
    """The one declared point: a note is in its own turn's requests only, and behind that turn's question."""
    clock = FakeClock()
    bodies = clock.run(bodies_of(wire, tmp_path, clock, notes=True))
    for place, (earlier, later) in enumerate(pairwise(bodies)):
        turn, step = divmod(place, 2)
        note = earlier.index(f"asked {turn + 1} times".encode())
        question = earlier.index(_question(turn).encode()) + len(_question(turn).encode())
        assert question < note
        assert later.startswith(earlier[:question])
        if step == 0:
            assert later.startswith(earlier.removesuffix(_END).removesuffix(_END)), "within a turn nothing moves"
        else:
            assert f"asked {turn + 1} times".encode() not in later
