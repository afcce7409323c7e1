"""The choice of a queue mode, and the preferences of sessions that are one of its sources."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.ports.bench import OPENERS, BenchClock

from finclaw.kernel.store_port import Store
from finclaw.kernel.turn_options import QueueMode, TurnOptions
from finclaw.sessions.preferences import NAME, SessionPreferences
from finclaw.sessions.queue_mode import ChosenMode, SessionMoment, choose_automatically, choose_mode

BUSY = SessionMoment(has_conversation=True, is_running=True)


@pytest.fixture(params=OPENERS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Store]:
    store = OPENERS[str(request.param)](tmp_path, BenchClock())
    yield store
    await store.close()


@pytest.mark.spec("DX-18")
def test_message_session_channel_and_settings_come_before_what_goes_on() -> None:
    assert choose_mode("collect", "queue", "followup", "steer", BUSY) == ChosenMode("collect", "message")
    assert choose_mode(None, "queue", "followup", "steer", BUSY) == ChosenMode("queue", "session")
    assert choose_mode(None, None, "followup", "steer", BUSY) == ChosenMode("followup", "channel")
    assert choose_mode(None, None, None, "interrupt", BUSY) == ChosenMode("interrupt", "settings")
    assert choose_mode(None, None, None, "auto", BUSY) == ChosenMode("steer", "auto")
    assert choose_mode(None, None, "auto", "interrupt", BUSY) == ChosenMode("steer", "auto"), "the channel says so"


@pytest.mark.spec("Q-08", "Q-09", "Q-10", "Q-11", "Q-12", "Q-13", "Q-14")
@pytest.mark.parametrize(
    ("moment", "mode"),
    [
        (SessionMoment(), "steer"),
        (SessionMoment(waiting=3), "steer"),
        (SessionMoment(has_conversation=True, idle_s=30.0), "followup"),
        (SessionMoment(has_conversation=True, idle_s=30.0, waiting=2), "followup"),
        (SessionMoment(has_conversation=True, idle_s=1.0, waiting=3), "queue"),
        (SessionMoment(has_conversation=True, is_running=True, idle_s=1.0), "steer"),
        (SessionMoment(has_conversation=True, is_running=True, waiting=2), "steer"),
        (SessionMoment(has_conversation=True, is_running=True, waiting=3), "queue"),
        (SessionMoment(has_conversation=True, is_running=True, is_direct=False, idle_s=1.0), "queue"),
        (SessionMoment(has_conversation=True, idle_s=31.0), "followup"),
        (SessionMoment(has_conversation=True, idle_s=None), "followup"),
    ],
)
def test_the_automatic_choice(moment: SessionMoment, mode: QueueMode) -> None:
    assert choose_automatically(moment) == mode


async def test_preferences_of_a_session_outlive_the_process(store: Store) -> None:
    preferences = SessionPreferences(store)
    await preferences.save("s", TurnOptions(queue="collect", thinking="high"))
    await preferences.save("t", TurnOptions(queue="steer"))
    await preferences.save("t", TurnOptions())
    await store.remember(NAME, "u", {"queue": "a mode of another release"})
    later = SessionPreferences(store)
    await later.load()
    assert later.read("s") == preferences.read("s") == TurnOptions(queue="collect", thinking="high")
    assert later.read("t") == later.read("u") == TurnOptions()
