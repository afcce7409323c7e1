"""A channel that breaks its promises while sending neither loses a unit nor lets the next one overtake."""

import asyncio
from pathlib import Path
from typing import cast

import pytest

import finclaw
from finclaw.delivery.format import RESENT_MARK
from finclaw.kernel.envelope import Inbound, Receipt, Sender
from finclaw.kernel.record import OutboxItem
from finclaw.testing import FakeClock, MemoryChannel, ScriptedProvider


class SurprisingChannel(MemoryChannel):
    """Its first send raises what no channel may raise."""

    surprise: BaseException | None = None

    async def send(self, unit: OutboxItem) -> Receipt:
        if self.surprise is not None:
            surprise, self.surprise = self.surprise, None
            raise surprise
        return await super().send(unit)


@pytest.mark.parametrize("surprise", [KeyError("bug"), asyncio.CancelledError()], ids=repr)
def test_a_surprise_is_a_doubt_and_not_the_end(tmp_path: Path, surprise: BaseException) -> None:
    clock = FakeClock()

    async def main() -> list[str]:
        channel = SurprisingChannel(clock)
        channel.surprise = surprise
        provider = ScriptedProvider("one", "two")
        settings = finclaw.Settings(state=tmp_path)
        async with finclaw.build(settings, channels=[channel], provider=provider, clock=clock, threaded=False) as app:
            for text in ("1", "2"):
                await app.handle(Inbound(text=text, channel="memory", sender=Sender("ada")))
            await app.idle()
        return [sent.text for sent in channel.sent]

    assert clock.run(main()) == [f"{RESENT_MARK}one", "two"]


class EmptyHandedChannel(MemoryChannel):
    """Its first send gives no receipt at all."""

    gives_none = True

    async def send(self, unit: OutboxItem) -> Receipt:
        receipt = await super().send(unit)
        if self.gives_none:
            self.gives_none = False
            return cast("Receipt", None)
        return receipt


def test_a_sender_that_stops_says_so_and_the_next_unit_gets_another(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = FakeClock()

    async def main() -> list[str]:
        channel = EmptyHandedChannel(clock)
        provider = ScriptedProvider("one", "two")
        settings = finclaw.Settings(state=tmp_path)
        async with finclaw.build(settings, channels=[channel], provider=provider, clock=clock, threaded=False) as app:
            for text in ("1", "2"):
                await app.handle(Inbound(text=text, channel="memory", sender=Sender("ada")))
                await app.idle()
        return [sent.text for sent in channel.sent]

    assert clock.run(main()) == ["one", "two"]
    (stopped,) = [record for record in caplog.records if record.levelname == "CRITICAL"]
    assert "its units wait on disk" in stopped.getMessage()
    assert stopped.exc_info is not None
