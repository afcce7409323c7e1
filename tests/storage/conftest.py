"""A house for the tests that start gateways."""

from pathlib import Path

import pytest
from tests.storage.gateway import House, Place

from finclaw.testing import FakeClock


@pytest.fixture
def house(tmp_path: Path) -> House:
    clock = FakeClock()
    return House(tmp_path / "state", clock, Place(clock))
