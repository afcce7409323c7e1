"""Observers see everything, change nothing, and their failures are their own."""

import logging

import pytest

from finclaw.diagnostics.event_stream import EventStream
from finclaw.errors import ExtensionError
from finclaw.kernel.event import Event, StepStarted, all_events


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


# ── names ───────────────────────────────────────────────────────────────────────────────────────────────────

NAMES = [
    "approval:change",
    "budget:exceeded",
    "budget:warning",
    "context:compact",
    "context:compact:fallback",
    "context:window:status",
    "delivery:unit",
    "execution:complete",
    "execution:context_threshold",
    "execution:start",
    "execution:tool_use",
    "execution:turn",
    "message:accepted",
    "message:outcome",
    "message:stage",
    "message:stalled",
    "model:fallback",
    "model:retry",
    "preview_update",
    "queue:change",
    "ring:short_circuit",
    "session:erased",
    "session:event:missing_target",
    "session:lock:acquire",
    "session:lock:release",
    "session:lock:stale",
    "session:repair",
    "store:health",
    "stream:done",
    "stream:error",
    "stream:message_complete",
    "stream:state_change",
    "stream:text_delta",
    "stream:tool_use_end",
    "stream:tool_use_start",
    "stream:usage_update",
    "tool:circuit:change",
    "tool:execute:end",
    "tool:execute:error",
    "tool:execute:start",
    "tool:execute:timeout",
    "tool:loop",
    "tool:policy:deny",
    "tool:policy:verdict",
    "tool:register",
    "tool:unregister",
]


@pytest.mark.spec("DX-43")
def test_every_event_has_one_canonical_name() -> None:
    assert sorted(each.name for each in all_events()) == NAMES


def test_an_observer_may_ask_for_some_names_only() -> None:
    stream, heard = EventStream(), list[Event]()
    stop = stream.observe(heard.append, "execution:turn", "tool:unregister")
    stream.emit(StepStarted(step=1))
    stream.emit(Event())
    stop()
    stream.emit(StepStarted(step=2))
    assert heard == [StepStarted(step=1)]
    with pytest.raises(ExtensionError, match="there is no event 'execution:trun'"):
        stream.observe(heard.append, "execution:trun")
