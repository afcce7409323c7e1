"""Somebody sets the wall clock, an hour or a day, either way: nothing is lost, doubled or frozen."""

from datetime import timedelta

import pytest
from tests.storage.gateway import JUMPS, House

from finclaw.errors import SendFailed
from finclaw.kernel.chunk import ModelRequest
from finclaw.kernel.envelope import Outbound
from finclaw.testing import delay, reply, say
from finclaw.testing.provider import Line

HOUR, MINUTE = 3600, 60
both_ways = pytest.mark.parametrize("jump", JUMPS, ids=str)


@both_ways
def test_while_messages_wait_for_their_turn(house: House, jump: timedelta):
    def slow(request: ModelRequest) -> Line:
        return reply(delay(30), say(f"re: {request.messages[-1].text}"))

    house.script = slow

    async def main() -> None:
        async with house.gateway() as app:
            for number in range(3):
                await house.channel.write(str(number))
            await house.clock.sleep(10)
            house.clock.jump(jump)
            await app.idle()
            assert house.clock.monotonic() < 100, "turns take as long as they take"

    house.clock.run(main())
    assert house.channel.said == ["re: 0", "re: 1", "re: 2"]
    assert house.outcomes() == ["answered"] * 3


@both_ways
def test_while_a_unit_waits_for_its_retry(house: House, jump: timedelta):
    async def main() -> None:
        house.channel.fail_next(SendFailed("not now"), times=3)
        async with house.gateway() as app:
            await house.channel.write("hello")
            await house.channel.until_tried(2)
            house.clock.jump(jump)
            await app.idle()

    house.clock.run(main())
    first, *_, last = house.channel.tried_at
    assert round(last - first) == 150, "5 s, 25 s and 2 min, whatever the clock says"
    assert house.channel.said == ["re: hello"]
    assert house.units() == ["sent"]


@both_ways
def test_across_a_restart_with_an_answer_unsent(house: House, jump: timedelta):
    async def main() -> float:
        async with house.store() as store:
            await house.left_unsent(store, Outbound(text="an answer"))
        house.clock.jump(jump)
        began = house.clock.monotonic()
        async with house.gateway() as app:
            await app.idle()
            return house.clock.monotonic() - began

    assert house.clock.run(main()) < 1
    assert house.channel.said == ["an answer"]


@both_ways
def test_across_a_restart_with_a_message_unanswered(house: House, jump: timedelta):
    """Forward, the message looks old and its sender is told; backward it is answered. Lost it is never."""

    async def main() -> None:
        async with house.store() as store:
            await house.left_unfinished(store, "hello")
        house.clock.jump(jump)
        house.clock.advance(1)
        async with house.gateway() as app:
            await app.idle()

    house.clock.run(main())
    assert house.outcomes() == ["answered" if jump < timedelta(0) else "expired"]
    assert len(house.channel.said) == 1


@both_ways
def test_the_order_of_a_session_survives_a_jump_and_a_restart(house: House, jump: timedelta):
    async def main() -> None:
        house.channel.connected = False
        async with house.gateway():
            await house.channel.write("one")
            await house.clock.sleep(1)
            house.clock.jump(jump)
            await house.channel.write("two")
            await house.clock.sleep(1)
        async with house.gateway() as app:
            house.channel.connected = True
            await app.idle()

    house.clock.run(main())
    assert house.channel.said == ["re: one", "re: two"]


@both_ways
def test_a_repeat_is_recognised_whatever_the_clock_says(house: House, jump: timedelta):
    async def main() -> None:
        async with house.gateway() as app:
            first = await house.channel.write("hello", message_id="1")
            await app.idle()
            house.clock.jump(jump)
            again = await house.channel.write("hello", message_id="1")
            await app.idle()
            assert again.duplicate
            assert again.id == first.id

    house.clock.run(main())
    assert house.channel.said == ["re: hello"]


@both_ways
def test_a_market_answer_that_waits_too_long_is_stale_by_any_clock(house: House, jump: timedelta):
    """Set back, the wall clock would call it fresh for another hour or day."""
    house.perishable = True

    async def main() -> None:
        async with house.gateway() as app:
            house.channel.connected = False
            await house.channel.write("AAPL?")
            await house.clock.sleep(MINUTE)
            house.clock.jump(jump)
            await house.clock.sleep(15 * MINUTE)
            house.channel.connected = True
            await app.idle()
            await house.clock.sleep(1)
            await app.idle()

    house.clock.run(main())
    assert house.asked == ["AAPL?", "AAPL?"]
    assert house.channel.said == ["re: AAPL?"]
    assert house.units() == ["expired", "sent"]


@both_ways
def test_a_jump_in_the_middle_of_a_retry_asks_a_market_question_at_most_once_more(house: House, jump: timedelta):
    house.perishable = True

    async def main() -> None:
        house.channel.fail_next(SendFailed("not now"), times=2)
        async with house.gateway() as app:
            await house.channel.write("AAPL?")
            await house.channel.until_tried(1)
            house.clock.jump(jump)
            await app.idle()
            await house.clock.sleep(1)
            await app.idle()

    house.clock.run(main())
    assert house.channel.said == ["re: AAPL?"], "one answer reaches the person"
    assert len(house.asked) == (1 if jump < timedelta(0) else 2)
