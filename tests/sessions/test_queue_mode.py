"""The choice of a queue mode: who is asked first, and what the gateway chooses by itself."""

import pytest

from finclaw.kernel.envelope import QueueMode
from finclaw.sessions.lane import ChosenMode, ModeOrigin, WaitingMode
from finclaw.sessions.steering import SessionMoment, choose_automatically, choose_mode

BUSY = SessionMoment(has_conversation=True, is_running=True)


@pytest.mark.spec("DX-18")
def test_message_session_channel_and_settings_come_before_what_goes_on() -> None:
    said: dict[ModeOrigin, QueueMode | None] = {
        "message": "collect",
        "session": "queue",
        "channel": "followup",
        "settings": "interrupt",
    }
    chosen = list[ChosenMode]()
    for origin in list(said):
        chosen.append(choose_mode(said, BUSY))
        said[origin] = None
    assert chosen == [
        ChosenMode("collect", "message"),
        ChosenMode("queue", "session"),
        ChosenMode("followup", "channel"),
        ChosenMode("interrupt", "settings"),
    ]
    assert choose_mode(said, BUSY) == ChosenMode("steer", "auto")
    assert choose_mode({"channel": "auto", "settings": "interrupt"}, BUSY) == ChosenMode("steer", "auto")


@pytest.mark.spec("Q-08", "Q-09", "Q-10", "Q-11", "Q-12", "Q-13", "Q-14", "DX-16b")
@pytest.mark.parametrize(
    ("moment", "mode"),
    [
        (SessionMoment(), "steer"),
        (SessionMoment(waiting=3), "steer"),
        (SessionMoment(has_conversation=True), "followup"),
        (SessionMoment(has_conversation=True, waiting=2), "followup"),
        (SessionMoment(has_conversation=True, waiting=3), "queue"),
        (SessionMoment(has_conversation=True, is_running=True), "steer"),
        (SessionMoment(has_conversation=True, is_running=True, waiting=2), "steer"),
        (SessionMoment(has_conversation=True, is_running=True, waiting=3), "queue"),
        (SessionMoment(has_conversation=True, is_running=True, is_direct=False), "queue"),
    ],
)
def test_the_automatic_choice(moment: SessionMoment, mode: WaitingMode) -> None:
    assert choose_automatically(moment) == mode
