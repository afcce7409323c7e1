"""The sequencer of one reply: order, phases, pauses, errors, idle and cancel, on a virtual clock."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest

from finclaw.pipeline.reply_sequencer import MOST_WAITING, SEND_SECONDS, ReplySequencer, sequence_reply
from finclaw.testing import FakeClock


def run(main: Callable[[FakeClock], Coroutine[Any, Any, None]]) -> None:
    clock = FakeClock()
    clock.run(main(clock))


class Chat:
    """What a person sees, and when."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.seen: list[tuple[float, str]] = []
        self.sending = 0

    @property
    def texts(self) -> list[str]:
        return [text for _, text in self.seen]

    def part(self, text: str, *, seconds: float = 0.5, gives: bool | Exception = True) -> Callable[[], Awaitable[bool]]:
        async def send() -> bool:
            self.sending += 1
            assert self.sending == 1, "one part after the other"
            try:
                await self.clock.sleep(seconds)
            finally:
                self.sending -= 1
            if isinstance(gives, Exception):
                raise gives
            if gives:
                self.seen.append((self.clock.monotonic(), text))
            return gives

        return send


@pytest.mark.spec("D-01", "D-02", "D-06")
def test_notes_blocks_and_the_final_leave_one_after_the_other(caplog: pytest.LogCaptureFixture) -> None:
    async def main(clock: FakeClock) -> None:
        chat, sequencer = Chat(clock), ReplySequencer(clock)
        assert sequencer.send_tool_note(chat.part("note", seconds=3))
        assert sequencer.send_block(chat.part("block 1", seconds=2))
        assert sequencer.send_block(chat.part("block 2", seconds=0))
        assert not sequencer.send_tool_note(chat.part("late note")), "a block came before it"
        await clock.sleep(10)
        await sequencer.send_final(chat.part("final"))
        assert not sequencer.send_block(chat.part("late block"))
        assert not sequencer.send_tool_note(chat.part("later note"))
        sequencer.mark_complete()
        await sequencer.wait_for_idle()
        assert chat.texts == ["note", "block 1", "block 2", "final"]

    with caplog.at_level(logging.INFO):
        run(main)
    late = [record.message for record in caplog.records if "too late" in record.message]
    assert late == [f"a {kind} came too late and is dropped" for kind in ("tool note", "block", "tool note")]


@pytest.mark.spec("D-03", "D-07")
@pytest.mark.parametrize("pause", [(800, 2_500), (500, 1_500)])
def test_further_blocks_wait_a_moment_as_the_setting_says(pause: tuple[int, int]) -> None:
    async def main(clock: FakeClock) -> None:
        chat, sequencer = Chat(clock), ReplySequencer(clock, pause=pause)
        for n in range(20):
            sequencer.send_block(chat.part(str(n), seconds=0))
        sequencer.mark_complete()
        await sequencer.wait_for_idle()
        times = [at for at, _ in chat.seen]
        gaps = [later - sooner for sooner, later in pairwise(times)]
        assert times[0] == 0, "the first one does not wait"
        assert all(pause[0] / 1000 <= gap <= pause[1] / 1000 for gap in gaps)
        assert len({round(gap, 3) for gap in gaps}) > 5, "nobody writes like a clock"

    run(main)


@pytest.mark.spec("D-03")
def test_without_a_setting_there_is_no_pause() -> None:
    async def main(clock: FakeClock) -> None:
        chat, sequencer = Chat(clock), ReplySequencer(clock)
        for n in range(3):
            sequencer.send_block(chat.part(str(n), seconds=0))
        sequencer.mark_complete()
        await sequencer.wait_for_idle()
        assert [at for at, _ in chat.seen] == [0, 0, 0]

    run(main)


@pytest.mark.spec("D-04", "DX-53")
def test_a_failing_send_is_told_with_its_kind_and_the_rest_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    async def main(clock: FakeClock) -> None:
        chat, sequencer = Chat(clock), ReplySequencer(clock)
        sequencer.send_tool_note(chat.part("bad", gives=ValueError("no note")))
        sequencer.send_tool_note(chat.part("note"))
        sequencer.send_block(chat.part("bad", gives=ValueError("no block")))
        await clock.sleep(10)
        assert not sequencer.send_block(chat.part("block")), "behind a hole nothing is sent but the final"
        with pytest.raises(ValueError, match="no final"):
            await sequencer.send_final(chat.part("bad", gives=ValueError("no final")))
        await sequencer.send_final(chat.part("final"))
        assert chat.texts == ["note", "final"]

    run(main)
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert told == [
        "a tool note was not sent: no note",
        "a block was not sent: no block",
        "a final was not sent: no final",
    ]


@pytest.mark.spec("BS-04", "DX-54")
def test_a_block_that_takes_too_long_is_cancelled_and_later_ones_wait_for_the_final() -> None:
    async def main(clock: FakeClock) -> None:
        chat, sequencer = Chat(clock), ReplySequencer(clock)
        sequencer.send_block(chat.part("one"))
        sequencer.send_block(chat.part("hangs", seconds=SEND_SECONDS * 10))
        sequencer.send_block(chat.part("three"))
        await clock.sleep(SEND_SECONDS + 5)
        assert chat.sending == 0, "it was cancelled"
        assert not sequencer.send_block(chat.part("four"))
        await sequencer.send_final(chat.part("the rest"))
        assert chat.texts == ["one", "the rest"]

    run(main)


@pytest.mark.spec("D-05", "DX-53")
def test_idle_is_nothing_pending_and_a_complete_turn() -> None:
    async def main(clock: FakeClock) -> None:
        chat, sequencer = Chat(clock), ReplySequencer(clock)
        waiting = asyncio.create_task(sequencer.wait_for_idle())
        await clock.sleep(5)
        assert not waiting.done(), "nothing is pending, but the turn is not complete"
        sequencer.send_block(chat.part("one"))
        await clock.sleep(5)
        assert not waiting.done(), "between two sends nobody is idle"
        sequencer.send_block(chat.part("two", seconds=3))
        sequencer.mark_complete()
        await clock.sleep(1)
        assert not waiting.done(), "complete, but one is on its way"
        await waiting
        assert chat.texts == ["one", "two"]

    run(main)


@pytest.mark.spec("BS-06", "DX-53")
def test_after_a_cancel_nothing_is_sent_but_the_final() -> None:
    async def main(clock: FakeClock) -> None:
        chat, sequencer = Chat(clock), ReplySequencer(clock)
        sequencer.send_block(chat.part("under way", seconds=3))
        sequencer.send_block(chat.part("queued"))
        await clock.sleep(1)
        sequencer.cancel()
        assert not sequencer.send_block(chat.part("later"))
        await clock.sleep(10)
        assert chat.texts == []
        await sequencer.send_final(chat.part("Stopped."))
        assert chat.texts == ["Stopped."]

    run(main)


@pytest.mark.spec("DX-53")
def test_the_queue_has_an_end() -> None:
    async def main(clock: FakeClock) -> None:
        chat, sequencer = Chat(clock), ReplySequencer(clock)
        taken = [sequencer.send_block(chat.part(str(n))) for n in range(MOST_WAITING + 50)]
        assert taken == [True] * MOST_WAITING + [False] * 50
        sequencer.cancel()
        await sequencer.settle()

    run(main)


@pytest.mark.spec("P-58", "D-08")
@pytest.mark.parametrize("fails", [False, True])
def test_one_function_opens_all_three_kinds_of_sequencer(fails: bool) -> None:
    async def main(clock: FakeClock) -> None:
        chat, signs = Chat(clock), list[tuple[float, bool]]()

        @asynccontextmanager
        async def typing() -> AsyncGenerator[None]:
            signs.append((clock.monotonic(), True))
            try:
                yield
            finally:
                signs.append((clock.monotonic(), False))

        given = ReplySequencer(clock)
        async with sequence_reply(clock, sequencer=given) as sequencer:
            assert sequencer is given
            sequencer.send_block(chat.part("given"))
        assert not given.is_idle, "whoever made it says when it is complete"
        given.mark_complete()
        await given.wait_for_idle()

        async with sequence_reply(clock) as sequencer:
            sequencer.send_block(chat.part("fresh", seconds=3))
        assert (sequencer.is_idle, chat.texts) == (True, ["given", "fresh"])

        begun = clock.monotonic()
        try:
            async with sequence_reply(clock, typing=typing()) as sequencer:
                sequencer.send_block(chat.part("typed", seconds=3))
                if fails:
                    raise ValueError("the turn failed")
        except ValueError:
            pass
        assert sequencer.is_idle
        assert [active for _, active in signs] == [True, False]
        assert signs[1][0] - begun == (0 if fails else 3)
        assert chat.texts == ["given", "fresh"] + ([] if fails else ["typed"])

    run(main)
