"""Conformance with seed 002 §5.3: the stream's states, its moves, and what is told about them."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.stream_states import LEGAL, SEED, STATES, machine_in

from finclaw.agent.turn_state.state import MOVES, InvalidMove, State, StateMachine
from finclaw.diagnostics.event_stream import EventStream
from finclaw.errors import FinclawError
from finclaw.kernel.event import Event, StateChanged


@pytest.mark.spec("S-01", "DX-51")
def test_the_states_are_the_seeds_with_failed_and_aborted():
    assert set(STATES) == SEED.keys() | {"failed", "aborted"}
    assert StateMachine(lambda before, after: None).state == "idle"


@pytest.mark.spec("S-02")
def test_the_seeds_table_is_part_of_ours():
    for before, moves in SEED.items():
        assert moves <= set(MOVES[before])


@pytest.mark.spec("S-02", "DX-51")
def test_whatever_runs_may_fail_or_be_aborted_and_whatever_ended_may_be_reset():
    for running in ("idle", "streaming", "tool_use", "executing"):
        assert {"failed", "aborted"} <= set(MOVES[running])
    for ended in ("done", "failed", "aborted"):
        assert MOVES[ended] == ("idle",)


@pytest.mark.spec("S-02", "S-04", "S-08")
@pytest.mark.parametrize(("before", "after"), sorted(LEGAL))
def test_a_legal_move_is_made_and_announced(before: State, after: State):
    machine, told = machine_in(before)
    machine.move(after)
    assert machine.state == after
    assert told == [(before, after)]


@pytest.mark.spec("S-03", "S-08")
@pytest.mark.parametrize(("before", "after"), sorted(set(product(STATES, STATES)) - LEGAL))
def test_an_illegal_move_raises_naming_the_allowed_ones_and_changes_nothing(before: State, after: State):
    machine, told = machine_in(before)
    with pytest.raises(InvalidMove) as caught:
        machine.move(after)
    message = str(caught.value)
    assert message.startswith(f"a stream cannot go from {before} to {after}; allowed: ")
    assert set(message.partition("allowed: ")[2].split(", ")) == {to for start, to in LEGAL if start == before}
    assert (machine.state, told) == (before, [])
    assert (caught.value.before, caught.value.after) == (before, after)


@pytest.mark.spec("S-03")
def test_an_illegal_move_is_a_bug_and_not_a_deliberate_error():
    assert not issubclass(InvalidMove, FinclawError)


@pytest.mark.spec("S-02")
def test_nobody_can_change_the_table():
    with pytest.raises(TypeError):
        MOVES["tool_use"] = ("done",)  # pyright: ignore[reportIndexIssue]


@pytest.mark.spec("S-04", "S-07", "DX-51")
@pytest.mark.parametrize("state", STATES)
def test_reset_comes_back_to_idle_from_anywhere_and_every_move_of_it_is_announced(state: State):
    machine, told = machine_in(state)
    running = machine.running
    machine.reset()
    assert (machine.state, machine.running) == ("idle", False)
    if state == "idle":
        assert told == []
    elif running:
        assert told == [(state, "aborted"), ("aborted", "idle")]
    else:
        assert told == [(state, "idle")]
    machine.reset()
    machine.move("streaming")


@pytest.mark.spec("S-01")
def test_what_runs_is_what_lies_between_idle_and_the_end():
    assert {state for state in STATES if machine_in(state)[0].running} == {"streaming", "tool_use", "executing"}


@pytest.mark.spec("S-04", "S-06")
def test_listeners_see_state_change_until_they_stop_listening_and_cannot_break_the_run():
    stream, heard = EventStream(), list[Event]()

    def broken(event: Event) -> None:
        raise ValueError("a listener's own trouble")

    stream.observe(broken)
    stop = stream.observe(heard.append, "stream:state_change")
    machine = StateMachine(lambda before, after: stream.emit(StateChanged(before=before, after=after, turn_id="t")))
    machine.move("streaming")
    machine.move("done")
    stop()
    stop()
    machine.reset()
    assert machine.state == "idle"
    assert heard == [
        StateChanged(before="idle", after="streaming", turn_id="t"),
        StateChanged(before="streaming", after="done", turn_id="t"),
    ]


@pytest.mark.parametrize(
    "run",
    [
        ("streaming", "done"),
        ("streaming", "tool_use", "executing", "streaming", "done"),
        ("streaming", "streaming", "streaming", "done"),  # two retries
        ("tool_use", "executing", "streaming", "done"),  # resumed
        ("streaming", "tool_use", "executing", "done"),  # a person must decide, or a loop was ended
        ("done",),
        ("failed",),
        ("aborted",),
    ],
)
@pytest.mark.spec("S-02")
def test_the_ways_of_a_turn(run: tuple[State, ...]):
    machine, told = machine_in("idle")
    for state in run:
        machine.move(state)
    machine.reset()
    assert [after for _, after in told] == [*run, "idle"]


@pytest.mark.spec("S-04", "S-08")
@given(st.lists(st.sampled_from([*STATES, "reset"]), max_size=60))
def test_what_is_announced_is_one_unbroken_chain_of_legal_moves(wishes: list[State]):
    machine, told = machine_in("idle")
    for wish in wishes:
        if wish not in STATES:
            machine.reset()
        elif (machine.state, wish) in LEGAL:
            machine.move(wish)
        else:
            with pytest.raises(InvalidMove):
                machine.move(wish)
    assert set(told) <= LEGAL
    chain: list[State] = ["idle", *(after for _, after in told)]
    assert [before for before, _ in told] == chain[:-1]
    assert machine.state == chain[-1]
