"""The sender in virtual time: when it tries, what it gives up, what it never sends twice."""

import asyncio
from itertools import pairwise

import pytest
from tests.storage.gateway import House, Place

from finclaw.errors import MarkupRefused, SendFailed, SendRefused, SendUnknown
from finclaw.kernel.chunk import ModelRequest
from finclaw.kernel.envelope import Outbound
from finclaw.testing import delay, reply, say
from finclaw.testing.provider import Line

MINUTE, HOUR = 60, 3600


# ── trying again ────────────────────────────────────────────────────────────────────────────────────────────


def test_retries_come_later_each_time_and_end_after_about_a_day(house: House):
    async def main() -> str:
        house.channel.fail_next(SendFailed("the line is down"), times=1000)
        async with house.gateway() as app:
            accepted = await house.channel.write("hello")
            await app.idle()
            record = await app.wait(accepted.id, 0)
            assert record is not None
            return record.delivery

    assert house.clock.run(main()) == "dead"
    tried = house.channel.tried_at
    gaps = [round(later - sooner) for sooner, later in pairwise(tried)]
    assert gaps[:4] == [5, 25, 2 * MINUTE, 10 * MINUTE]
    assert set(gaps[4:]) == {30 * MINUTE}
    assert 23 * HOUR < tried[-1] - tried[0] < 25 * HOUR
    assert house.units() == ["dead"]
    assert house.outcomes() == ["answered"]


def test_a_platform_that_names_a_longer_wait_gets_it(house: House):
    async def main() -> None:
        house.channel.fail_next(SendFailed("slow down", retry_after=60))
        house.channel.fail_next(SendFailed("slow down", retry_after=1))
        async with house.gateway() as app:
            await house.channel.write("hello")
            await app.idle()

    house.clock.run(main())
    assert [round(later - sooner) for sooner, later in pairwise(house.channel.tried_at)] == [60, 25]


def test_retries_used_up_before_a_restart_stay_used(house: House):
    async def main() -> None:
        house.channel.fail_next(SendFailed("down"), times=3)
        async with house.gateway():
            await house.channel.write("hello")
            await house.channel.until_tried(2)
        async with house.gateway() as app:
            await app.idle()

    house.clock.run(main())
    tried = house.channel.tried_at
    assert len(tried) == 4
    assert round(tried[3] - tried[2]) == 2 * MINUTE, "the third failure, also after a restart"
    assert house.channel.said == ["re: hello"]


def test_while_the_channel_is_away_nothing_is_tried_and_no_retry_used(house: House):
    async def main() -> None:
        async with house.gateway() as app:
            house.channel.connected = False
            await house.channel.write("hello")
            await house.clock.sleep(6 * HOUR)
            assert house.channel.attempts == []
            house.channel.connected = True
            await app.idle()

    house.clock.run(main())
    assert house.channel.said == ["re: hello"]
    assert [unit.attempts for unit in house.channel.attempts] == [0]


def test_a_restart_while_the_channel_is_away_puts_nothing_in_doubt(house: House):
    async def main() -> None:
        house.channel.connected = False
        async with house.gateway():
            await house.channel.write("one")
            await house.channel.write("two")
            await house.clock.sleep(MINUTE)
        async with house.gateway() as app:
            house.channel.connected = True
            await app.idle()

    house.clock.run(main())
    assert house.channel.said == ["re: one", "re: two"], "nothing was on its way, so nothing is marked"


def test_refused_for_good_is_dead_at_once_and_holds_up_nobody(house: House):
    async def main() -> tuple[str, str]:
        house.channel.fail_next(SendRefused("you are blocked"))
        async with house.gateway() as app:
            first = await house.channel.write("one")
            second = await house.channel.write("two")
            await app.idle()
            records = [await app.wait(each.id, 0) for each in (first, second)]
            assert records[0] is not None
            assert records[1] is not None
            return records[0].delivery, records[1].delivery

    assert house.clock.run(main()) == ("dead", "delivered")
    assert house.channel.said == ["re: two"]
    assert house.units() == ["dead", "sent"]


@pytest.mark.parametrize(
    ("refusals", "said", "state"), [(1, ["bold & plain", "other"], "sent"), (2, ["other"], "dead")]
)
def test_what_the_platform_cannot_read_is_sent_once_more_as_plain_text(
    house: House, refusals: int, said: list[str], state: str
):
    marked = Outbound(text="**bold** & plain", rendered="<b>bold</b> &amp; plain", plain="bold & plain")

    async def main() -> None:
        house.channel.fail_next(MarkupRefused("can't parse entities"), times=refusals)
        async with house.store() as store:
            await house.left_unsent(store, marked)
            await house.left_unsent(store, Outbound(text="other"))
        async with house.gateway() as app:
            await app.idle()

    house.clock.run(main())
    assert [unit.outbound.formatted for unit in house.channel.attempts] == [marked.rendered, marked.plain, "other"]
    assert [sent.formatted for sent in house.channel.sent] == said
    assert house.units() == [state, "sent"]


def test_a_repeat_as_plain_text_says_that_it_is_one(house: House):
    marked = Outbound(text="**a**", rendered="<b>a</b>", plain="a")

    async def main() -> None:
        house.channel.fail_next(SendUnknown("the line broke"))
        house.channel.fail_next(MarkupRefused("can't parse entities"))
        house.channel.fail_next(SendFailed("not now"))
        async with house.store() as store:
            await house.left_unsent(store, marked)
        async with house.gateway() as app:
            await app.idle()

    house.clock.run(main())
    assert [sent.formatted for sent in house.channel.sent] == ["(re-sent) a"]
    assert [round(later - sooner) for sooner, later in pairwise(house.channel.tried_at)] == [1, 0, 5]


def test_parts_behind_a_refused_one_die_with_it(house: House):
    async def main() -> None:
        house.channel.fail_next(SendFailed("not now"))
        house.channel.fail_next(SendRefused("never"))
        async with house.store() as store:
            await house.left_unsent(store, Outbound(text="1"), Outbound(text="2"), Outbound(text="3"))
            await house.left_unsent(store, Outbound(text="other"))
        async with house.gateway() as app:
            await app.idle()

    house.clock.run(main())
    assert house.channel.said == ["other"]
    assert house.units() == ["dead", "dead", "dead", "sent"]


# ── order ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_tried_again_keeps_its_place(house: House):
    async def main() -> None:
        house.channel.fail_next(SendFailed("not now"), times=3)
        async with house.gateway() as app:
            for text in ("one", "two", "three"):
                await house.channel.write(text)
            await app.idle()

    house.clock.run(main())
    assert house.channel.said == ["re: one", "re: two", "re: three"]
    assert [unit.outbound.text for unit in house.channel.attempts[:4]] == ["re: one"] * 4


def test_another_place_does_not_wait(house: House):
    async def main() -> float:
        async with house.gateway() as app:
            house.channel.fail_next(SendFailed("not now"), times=4)
            await house.channel.write("one")
            await house.channel.until_tried(4)
            began = house.clock.monotonic()
            await house.channel.write("two", conversation="other", sender="bob")
            await house.channel.until_sent(1)
            took = house.clock.monotonic() - began
            await app.idle()
            return took

    assert house.clock.run(main()) < 1
    assert house.channel.said == ["re: two", "re: one"]


@pytest.mark.parametrize("parts", [1, 3])
def test_order_and_parts_hold_over_a_restart_in_the_middle(house: House, parts: int):
    async def main() -> None:
        async with house.store() as store:
            for number in range(3):
                await house.left_unsent(store, *(Outbound(text=f"{number}.{part}") for part in range(parts)))
        house.channel.fail_next(SendFailed("not now"))
        async with house.gateway():
            await house.channel.until_tried(1)
        async with house.gateway() as app:
            await app.idle()

    house.clock.run(main())
    assert house.channel.said == [f"{number}.{part}" for number in range(3) for part in range(parts)]


# ── in doubt ────────────────────────────────────────────────────────────────────────────────────────────────


def left_in_doubt(house: House, outbound: Outbound, *behind: Outbound) -> list[str]:
    """The process died while this was being sent. What people read after the next start."""

    async def main() -> None:
        async with house.store() as store:
            await house.left_unsent(store, outbound, *behind, state="sending")
        async with house.gateway() as app:
            await app.idle()

    house.clock.run(main())
    return house.channel.said


def test_a_platform_that_knows_repeats_gets_it_again_silently(house: House):
    house.channel = Place(house.clock, idempotent=True)
    assert left_in_doubt(house, Outbound(text="190")) == ["190"]
    assert house.units() == ["sent"]


def test_any_other_gets_it_again_with_a_mark_on_it_alone(house: House):
    assert left_in_doubt(house, Outbound(text="190"), Outbound(text="more")) == ["(re-sent) 190", "more"]
    assert house.units() == ["sent", "sent"]


def test_a_confirmation_in_doubt_is_never_sent_again(house: House):
    assert left_in_doubt(house, Outbound(text="bought 100", kind="confirmation")) == []
    assert house.channel.attempts == []
    assert house.units() == ["dead"]


def test_a_confirmation_goes_again_where_a_repeat_is_recognised(house: House):
    house.channel = Place(house.clock, idempotent=True)
    assert left_in_doubt(house, Outbound(text="bought 100", kind="confirmation")) == ["bought 100"]


def test_a_confirmation_that_was_only_planned_is_sent(house: House):
    async def main() -> None:
        async with house.store() as store:
            await house.left_unsent(store, Outbound(text="bought 100", kind="confirmation"))
        async with house.gateway() as app:
            await app.idle()

    house.clock.run(main())
    assert house.channel.said == ["bought 100"]


def test_a_line_that_breaks_while_sending_is_a_doubt_too(house: House):
    async def main() -> None:
        house.channel.fail_next(SendUnknown("the socket closed"), arrives=True)
        async with house.gateway() as app:
            await house.channel.write("hello")
            await app.idle()

    house.clock.run(main())
    assert house.channel.said == ["re: hello", "(re-sent) re: hello"]
    assert house.units() == ["sent"]


def test_a_line_that_always_breaks_is_given_up(house: House):
    async def main() -> None:
        house.channel.fail_next(SendUnknown("the socket closed"), times=1000)
        async with house.gateway() as app:
            await house.channel.write("hello")
            await app.idle()

    house.clock.run(main())
    assert house.units() == ["dead"]
    assert len(house.channel.attempts) <= 5


# ── too old ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_stale_market_answer_is_not_sent_but_asked_again(house: House):
    house.perishable = True
    house.script = lambda request: say(f"answer {len(house.asked)}")

    async def main() -> None:
        async with house.gateway() as app:
            house.channel.connected = False
            await house.channel.write("AAPL?")
            await house.clock.sleep(11 * MINUTE)
            house.channel.connected = True
            await app.idle()
            await house.clock.sleep(1)
            await app.idle()

    house.clock.run(main())
    assert house.channel.said == ["answer 2"]
    assert house.units() == ["expired", "sent"]
    assert house.outcomes() == ["answered", "answered"]
    first, again = house.links()
    assert first is None
    assert again is not None
    assert again.endswith("-1")


def test_a_stale_market_answer_that_may_have_arrived_is_not_asked_again(house: House):
    house.perishable = True
    house.channel.fail_next(SendUnknown("cut"), arrives=True)
    house.channel.fail_next(SendFailed("busy", retry_after=11 * MINUTE))

    async def main() -> None:
        async with house.gateway() as app:
            await house.channel.write("AAPL?")
            await app.idle()

    house.clock.run(main())
    assert house.channel.said == ["re: AAPL?", "(re-sent) re: AAPL?"]
    assert house.asked == ["AAPL?"]


def test_one_that_is_not_yet_ten_minutes_old_is_sent(house: House):
    house.perishable = True

    async def main() -> None:
        async with house.gateway() as app:
            house.channel.connected = False
            await house.channel.write("AAPL?")
            await house.clock.sleep(9 * MINUTE)
            house.channel.connected = True
            await app.idle()

    house.clock.run(main())
    assert house.channel.said == ["re: AAPL?"]
    assert house.asked == ["AAPL?"]


def test_an_answer_that_keeps_is_sent_however_late(house: House):
    async def main() -> None:
        async with house.gateway() as app:
            house.channel.connected = False
            await house.channel.write("a poem")
            await house.clock.sleep(12 * HOUR)
            house.channel.connected = True
            await app.idle()

    house.clock.run(main())
    assert house.channel.said == ["re: a poem"]


def test_what_was_asked_again_and_is_stale_again_is_not_asked_a_third_time(house: House):
    house.perishable = True

    def script(request: ModelRequest) -> Line:
        house.channel.connected = False
        return say("answer")

    house.script = script

    async def main() -> None:
        async with house.gateway():
            await house.channel.write("AAPL?")
            for _ in range(5):
                await house.clock.sleep(11 * MINUTE)
                house.channel.connected = True
                await house.clock.sleep(2)

    house.clock.run(main())
    assert house.asked == ["AAPL?", "AAPL?"]
    assert house.units() == ["expired", "expired"]


def test_a_stale_answer_from_before_a_restart_is_asked_again_in_its_turn(house: House):
    """Behind a message of the same session that was accepted earlier and not answered yet, and not beside it."""
    running: list[str] = []
    beside: list[str] = []

    async def main() -> None:
        async with house.store() as store:
            await house.left_unsent(store, Outbound(text="old price", perishable=True))
            await house.left_unfinished(store, "second")
            house.clock.advance(20 * MINUTE)
        async with house.gateway() as app:
            await app.idle()
            await house.clock.sleep(1)
            await app.idle()

    def script(request: ModelRequest) -> Line:
        text = request.messages[-1].text
        beside.extend(running)
        running.append(text)
        asyncio.get_running_loop().call_later(0.5, running.remove, text)
        return reply(delay(1), say(f"re: {text}"))

    house.script = script
    house.clock.run(main())
    assert house.asked == ["second", "asked for old price"]
    assert beside == []
    assert house.channel.said == ["re: second", "re: asked for old price"]


def test_messages_older_than_an_hour_expire_after_a_restart_with_a_line_each(house: House):
    async def main() -> None:
        async with house.store() as store:
            await house.left_unfinished(store, "old")
            await house.left_unfinished(store, "오래된 질문")
            house.clock.advance(HOUR + 1)
            await house.left_unfinished(store, "fresh")
        async with house.gateway() as app:
            await app.idle()

    house.clock.run(main())
    assert house.asked == ["fresh"]
    assert house.outcomes() == ["expired", "expired", "answered"]
    english, korean, answered = house.channel.said
    assert "Please ask again" in english
    assert "다시 물어봐" in korean
    assert answered == "re: fresh"
    assert all("\n" not in line for line in (english, korean))
