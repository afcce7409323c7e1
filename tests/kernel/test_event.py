"""Observers see everything, change nothing, and their failures are their own."""

import logging

import pytest

from finclaw.kernel.event import Event, EventStream, StepStarted


def test_everybody_sees_everything_in_order() -> None:
    stream, one, two = EventStream(), list[Event](), list[Event]()
    stream.observe(one.append)
    stream.observe(two.append)
    events = [StepStarted(step=number) for number in range(3)]
    for event in events:
        stream.emit(event)
    assert one == two == events


def test_an_observer_that_fails_is_logged_and_hurts_nobody(caplog: pytest.LogCaptureFixture) -> None:
    stream, heard = EventStream(), list[Event]()

    def broken(event: Event) -> None:
        raise RuntimeError("an observer's bug")

    stream.observe(broken)
    stream.observe(heard.append)
    with caplog.at_level(logging.ERROR):
        stream.emit(StepStarted(step=1))
    assert len(heard) == 1
    assert "observer failed on execution:turn" in caplog.text


def test_who_stops_watching_sees_no_more_and_may_stop_twice() -> None:
    stream, heard = EventStream(), list[Event]()
    stop = stream.observe(heard.append)
    stream.emit(StepStarted(step=1))
    stop()
    stop()
    stream.emit(StepStarted(step=2))
    assert heard == [StepStarted(step=1)]


def test_an_observer_may_stop_itself_while_it_is_told() -> None:
    stream, heard = EventStream(), list[str]()

    def once(event: Event) -> None:
        heard.append("once")
        stop()

    stop = stream.observe(once)
    stream.observe(lambda event: heard.append("other"))
    stream.emit(StepStarted(step=1))
    stream.emit(StepStarted(step=2))
    assert heard == ["once", "other", "other"]


def test_an_event_cannot_be_changed() -> None:
    event = StepStarted(step=1)
    with pytest.raises(AttributeError):
        event.step = 2  # pyright: ignore[reportAttributeAccessIssue]
