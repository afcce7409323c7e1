"""Hostile messages from the door to the disk and back: each one is taken, ended and answered."""

import asyncio

import pytest
from tests.storage.gateway import House

from finclaw.kernel.envelope import Attachment, Inbound, Sender
from finclaw.testing import say

HALF = "a\ud800b"
HOSTILE: dict[str, Inbound] = {
    "nul": Inbound(text="a\0b"),
    "half": Inbound(text=HALF),
    "half everywhere": Inbound(
        text="x",
        account=HALF,
        conversation=HALF,
        message_id=HALF,
        sender=Sender(HALF, HALF, (HALF,)),
        thread=HALF,
        reply_to=HALF,
        attachments=(Attachment(id=HALF, kind="file", mime=HALF, name=HALF),),
    ),
    "a megabyte": Inbound(text="y" * 1_000_000),
    "ids that look like two": Inbound(text="x", message_id="a:b\nc", conversation=":\n\0", thread="::"),
    "sql": Inbound(text="'); DELETE FROM inbound; --", message_id="' OR 1=1"),
    "controls": Inbound(text="\x1b[31m\u202e\u200b\ufeff"),
}


@pytest.mark.parametrize("inbound", HOSTILE.values(), ids=HOSTILE)
def test_it_is_taken_ended_and_answered(house: House, inbound: Inbound):
    async def main() -> None:
        async with house.gateway() as app:
            accepted = await app.accept(inbound)
            assert (await app.accept(inbound)).id == accepted.id
            record = await app.wait(accepted.id, 60)
            assert record is not None
            assert record.outcome is not None
            assert record.outcome.kind == ("refused" if len(inbound.text) > 200_000 else "answered")
            assert record.outcome.reply
        async with house.gateway() as app:
            assert (await app.accept(inbound)).duplicate

    house.clock.run(main())


def test_a_model_that_says_half_a_character_is_heard_all_the_same(house: House):
    house.script = lambda request: say("half \udc00 of it")

    async def main() -> None:
        async with house.gateway() as app:
            for text in ("one", "two"):
                await house.channel.write(text)
                await app.idle()

    house.clock.run(main())
    assert house.channel.said == ["half \ufffd of it"] * 2
    assert house.outcomes() == ["answered", "answered"]


def test_a_hundred_sessions_at_once_do_not_mix(house: House):
    async def main() -> None:
        async with house.gateway() as app:
            await asyncio.gather(
                *(
                    house.channel.write(f"{person}.{turn}", sender=f"p{person}")
                    for turn in range(3)
                    for person in range(100)
                )
            )
            await app.idle()

    house.clock.run(main())
    for person in range(100):
        mine = [text for text in house.channel.said if text.startswith(f"re: {person}.")]
        assert mine == [f"re: {person}.{turn}" for turn in range(3)]
    assert len(house.rows("SELECT * FROM session")) == 100
