"""A disk that fills up while an answer is being made: the person is told why it does not come, and gets it later."""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.cli.chat_terminal import ENTER, at_terminal, chatting, house, reachable
from tests.cli.terminal import finclaw
from tests.support.disk import Disk
from tests.web.gateway import MemoryGateway

from finclaw.errors import StoreFailed
from finclaw.testing import ScriptedProvider, hold, reply, say

ENGLISH = "The gateway cannot record the answer: its disk is full, free some space."
KOREAN = "게이트웨이가 답변을 기록하지 못하고 있습니다: 디스크가 가득 찼습니다"


class Outage:
    """A gateway whose disk fills up when its model has been asked, until `end`."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._released = asyncio.Event()
        self.provider = ScriptedProvider(reply(hold(self._released), say("It is 5.")))

    async def begin(self) -> None:
        async with asyncio.timeout(30):
            while not self.provider.requests:  # noqa: ASYNC110  the asker is another process
                await asyncio.sleep(0.05)
        self._disk.fail(error="full", ops=("write", "sync", "truncate"), forever=True)
        self._released.set()

    def end(self) -> None:
        self._disk.heal()


@asynccontextmanager
async def outage(state: Path) -> AsyncGenerator[Outage]:
    with Disk(f"outage-{state.name}", default=True) as disk:
        trouble = Outage(disk)
        async with house(state, trouble.provider) as app, reachable(state, app):
            yield trouble
            disk.heal()


@pytest.mark.parametrize(("question", "notice"), [("how much?", ENGLISH), ("얼마야?", KOREAN)])
async def test_ask_at_a_terminal_says_why_the_answer_does_not_come(tmp_path: Path, question: str, notice: str) -> None:
    async with outage(tmp_path) as trouble:
        with at_terminal("ask", question, "--state", str(tmp_path), columns=300) as terminal:
            await trouble.begin()
            await terminal.expect(notice)
            trouble.end()
            assert await terminal.ended() == 0
    assert terminal.text.count(notice) == 1
    assert "It is 5." in terminal.text.partition(notice)[2]


async def test_the_chat_says_why_the_answer_does_not_come(tmp_path: Path) -> None:
    async with outage(tmp_path) as trouble:
        with chatting(tmp_path, columns=300) as terminal:
            await terminal.prompt()
            terminal.type("how much?" + ENTER)
            await trouble.begin()
            await terminal.expect(ENGLISH)
            trouble.end()
            await terminal.expect("It is 5.")


@pytest.mark.parametrize(
    ("args", "stdin"), [(("ask", "how much?"), ""), (("chat",), "how much?\n")], ids=["ask", "chat"]
)
async def test_a_script_is_told_once_beside_the_answer(tmp_path: Path, args: tuple[str, ...], stdin: str) -> None:
    async with outage(tmp_path) as trouble:
        asking = asyncio.create_task(asyncio.to_thread(finclaw, *args, "--state", tmp_path, stdin=stdin))
        await trouble.begin()
        await asyncio.sleep(2.5)  # several tries to record it
        trouble.end()
        ended = await asking
    assert ended.code == 0
    assert ended.out.startswith("It is 5.")
    assert ended.err.count(ENGLISH) == ended.err.count("finclaw:") == 1


async def test_status_and_doctor_say_that_nothing_can_be_recorded(tmp_path: Path) -> None:
    gateway = MemoryGateway(unwritable=StoreFailed("the disk of '/x' is full; free some space", why="full"))
    async with reachable(tmp_path, gateway):
        status = await asyncio.to_thread(finclaw, "status", "--state", tmp_path)
        found = await asyncio.to_thread(finclaw, "status", "--state", tmp_path, "--json")
        doctor = await asyncio.to_thread(finclaw, "doctor", "--state", tmp_path)
    assert "is not ready: the disk of '/x' is full; free some space" in status.out.splitlines()[0]
    assert '"ready":false,"problem":"the disk' in found.out
    assert doctor.code == 1
    assert re.search(r"bad +gateway .* is not ready: the disk of '/x' is full", doctor.out)
