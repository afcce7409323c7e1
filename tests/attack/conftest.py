"""Every attack gets a house of its own."""

from pathlib import Path

import pytest
from tests.walks.house import House


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)
