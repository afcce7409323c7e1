"""Busy conversations: twenty messages of two people fall into a turn, in every mode and at every phase of it."""

import gc
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.walks.busy_checks import find_faults
from tests.walks.busy_rooms import PHASES, BusyMode, BusyRooms
from tests.walks.house import House

MODES: tuple[BusyMode, ...] = ("steer", "followup", "queue", "collect", "interrupt", "steer-backlog", "auto", "mixed")
ROOMS = 30
"""Interleavings in one gateway."""
SOAK, PIECE = 1_000, 50
"""Interleavings of a mode and phase in the soak, and how many of them are one test."""


@pytest.fixture(autouse=True)
def garbage_is_left() -> Generator[None]:
    """A run makes much that stays until its end: looking for garbage meanwhile is an eighth of its time."""
    gc.disable()
    yield
    gc.enable()


def run_rooms(house: House, mode: BusyMode, phase: str, seeds: range) -> None:
    async def run() -> None:
        rooms = BusyRooms(house, mode, phase, seeds)
        async with rooms.run() as gateway:
            assert await find_faults(rooms, gateway) == []

    house.clock.run(run())


@pytest.mark.spec("Q-16", "Q-19")
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("mode", MODES)
def test_twenty_messages_while_busy(tmp_path: Path, mode: BusyMode, phase: str) -> None:
    run_rooms(House(tmp_path), mode, phase, range(ROOMS))


@pytest.mark.soak
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("first", [pytest.param(first, id=f"seed{first}") for first in range(0, SOAK, PIECE)])
def test_twenty_messages_while_busy_at_length(tmp_path: Path, mode: BusyMode, phase: str, first: int) -> None:
    """Every mode and phase with the first seeds, then with the next: `-k "seed200- or seed250-"` runs some of it."""
    house = replace(House(tmp_path), kind="jsonl" if first % 200 == 150 else "sqlite")
    run_rooms(house, mode, phase, range(first, first + PIECE))
