"""A model that is never silent and never done: the whole of its answer has a limit, and then another one is asked."""

from pathlib import Path

import pytest
from tests.providers.faulty_server import FaultyServer, Play
from tests.providers.protocols import WIRES, Said, Wire
from tests.walks.house import FOREVER

import finclaw
from finclaw.agent.settings import AgentSettings
from finclaw.kernel.event import Event, ModelFellBack, ModelRetried
from finclaw.providers.settings import ModelSettings, ProviderSettings
from finclaw.testing import FakeClock, MemoryChannel


def slowly(wire: Wire, said: Said) -> Play:
    return Play([wire.think("흠, ")] * 100, pause=20.0)


@pytest.mark.spec("RT-06", "R-19")
def test_a_model_that_only_crawls_is_given_up_and_the_next_one_answers(tmp_path: Path) -> None:
    clock = FakeClock()
    clock.run(_walk(tmp_path, clock))


async def _walk(state: Path, clock: FakeClock) -> None:
    server, channel, events = FaultyServer(WIRES[1]), MemoryChannel(clock), list[Event]()
    async with server.serving() as url:
        settings = finclaw.Settings(
            state=state,
            agent=AgentSettings(model="box/one", fallbacks=("box/two",)),
            providers={"box": ProviderSettings(kind="openai", base_url=url, total_s=45.0)},
            models={f"box/{name}": ModelSettings(window=100_000) for name in ("one", "two")},
        )
        async with finclaw.build(settings, channels=[channel], clock=clock, threaded=False) as app:
            app.events.observe(events.append)
            server.expect(Said("다 됐습니다."), faults=[slowly] * 3)
            record = await app.wait((await channel.write("되나요?")).id, FOREVER)
    assert record is not None
    assert record.outcome is not None
    assert (record.outcome.kind, [body["model"] for body in server.requests]) == ("answered", ["one"] * 3 + ["two"])
    assert "다 됐습니다." in (record.outcome.reply or "")
    assert [type(each) for each in events if isinstance(each, ModelRetried | ModelFellBack)] == [
        *[ModelRetried] * 2,
        ModelFellBack,
    ]
