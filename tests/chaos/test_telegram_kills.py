"""A gateway on Telegram that is killed all the time: nothing lost, nothing overtaken, repeats only in doubt."""

import re
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

import pytest
from tests.chaos.child import words
from tests.chaos.harness import PATIENT, Run
from tests.chaos.telegram_platform import FIRST_CHAT, MARK, TelegramPlatform
from tests.fork_server import GATEWAY
from tests.support.history import History

from finclaw.delivery.format import RESENT_MARK
from finclaw.diagnostics.crash_points import CRASH_POINTS

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(3_600)]

CHILD = ("-m", "tests.chaos.telegram_child")
MODULES = (*GATEWAY, "finclaw.channels.telegram.channel")


@pytest.fixture
def kills(pytestconfig: pytest.Config) -> int:
    return {"short": 2, "full": 60, "soak": 300}[str(pytestconfig.getoption("--chaos"))]


async def test_kills_on_telegram(tmp_path: Path, kills: int) -> None:
    """Every third life ends at a crash point, the others at any instant; one of six has caught up before."""
    async with Run(
        tmp_path, max_attempts=PATIENT, platform=TelegramPlatform, child=CHILD, modules=MODULES, conversations=8
    ) as run:
        run.platform.fault = run.moods
        async with run.load(10):
            for life in range(kills):
                point = f"{run.dice.choice(CRASH_POINTS)}:{run.dice.randint(1, 4)}"
                if life % 3 != 1:
                    await run.live_for(run.dice.uniform(0.1, 1.5))
                elif life % 6 == 1:
                    await run.die_at(point)
                else:
                    await run.die_later_at(point)
        found = await run.drain()
        assert found.clean, str(found)
        assert found.answered == found.messages
        assert found.blobs, "no picture was kept, so nothing was proved about them"
        assert run.kills == kills


@pytest.mark.soak  # as above, while answers grow in one message: what people see at the end is read, not the books
async def test_kills_while_answers_grow_in_one_message(tmp_path: Path, kills: int) -> None:
    child, chats = (*CHILD, "--edits"), 8
    platforms: list[TelegramPlatform] = []

    def open_platform(history: History) -> TelegramPlatform:
        platforms.append(TelegramPlatform(history))
        return platforms[0]

    async with Run(
        tmp_path, max_attempts=PATIENT, platform=open_platform, child=child, modules=MODULES, conversations=chats
    ) as run:
        run.platform.fault = run.moods
        async with run.load(10):
            for _ in range(max(2, kills // 3)):
                await run.live_for(run.dice.uniform(0.3, 2.5))
        run.platform.fault = lambda _: None
        gateway = await run.start()
        await run.all_told(gateway)
        await gateway.stop()
    api = platforms[0].api
    for chat in range(FIRST_CHAT, FIRST_CHAT + chats):
        said = [each.text.rpartition(MARK)[0] for each in api.shown_in(chat)]
        told = {number: " ".join(drop_doubtful(texts)) for number, texts in groupby(said, number_of)}
        assert list(told) == platforms[0].numbers[chat], f"chat {chat} was not told all in order"
        for number, text in told.items():
            assert text.split() == words(number).split(), [each for each in said if number_of(each) == number]
    assert sum(each.edits for each in api.world.shown) > run.written // 4


def number_of(text: str) -> int:
    """The message that these words answer; every part of an answer names it."""
    found = re.search(r"of (\d+)\.|<(\d+)|(\d+)>", text)
    assert found is not None, text
    return int(found[1] or found[2] or found[3])


def drop_doubtful(texts: Iterable[str]) -> list[str]:
    """What was shown, but for that of which nobody knew whether it was, and which was therefore sent again, marked."""
    kept: list[str] = []
    for text in texts:
        whole = text.removeprefix(RESENT_MARK)
        if whole != text and kept and whole.startswith(kept[-1]):
            kept.pop()
        kept.append(whole)
    return kept
