"""The legal moves of an agent's state, and machines that are in each state."""

from typing import get_args

from finclaw.agent.turn_state.state import State, StateMachine

STATES: tuple[State, ...] = get_args(State)


SEED: dict[State, set[State]] = {
    "idle": {"streaming"},
    "streaming": {"tool_use", "done"},
    "tool_use": {"executing"},
    "executing": {"streaming", "done"},
    "done": {"idle"},
}


ADDED: dict[State, set[State]] = {
    "idle": {"tool_use", "done", "failed", "aborted"},  # resumed with open calls; a layer answers; before the model
    "streaming": {"streaming", "failed", "aborted"},  # the model is called anew
    "tool_use": {"failed", "aborted"},
    "executing": {"failed", "aborted"},
    "failed": {"idle"},
    "aborted": {"idle"},
}


LEGAL = {(before, after) for table in (SEED, ADDED) for before, moves in table.items() for after in moves}


WAYS: dict[State, tuple[State, ...]] = {
    "idle": (),
    "streaming": ("streaming",),
    "tool_use": ("streaming", "tool_use"),
    "executing": ("streaming", "tool_use", "executing"),
    "done": ("streaming", "done"),
    "failed": ("streaming", "failed"),
    "aborted": ("streaming", "aborted"),
}
"""How to get there with a machine that is new."""


def machine_in(state: State) -> tuple[StateMachine, list[tuple[State, State]]]:
    told: list[tuple[State, State]] = []
    machine = StateMachine(lambda before, after: told.append((before, after)))
    for step in WAYS[state]:
        machine.move(step)
    told.clear()
    return machine, told
