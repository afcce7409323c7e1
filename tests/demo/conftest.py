import pytest
from tests.demo.talk import FixedClock


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()
