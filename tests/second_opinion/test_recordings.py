"""The streams that are kept for tests without the mock are what it still says."""

import pytest
from tests.second_opinion.aimock import Aimock
from tests.second_opinion.record import FOLDER, record

pytestmark = pytest.mark.aimock


def test_recordings_are_what_it_says(aimock: Aimock) -> None:
    kept = {path.name: path.read_bytes() for path in FOLDER.glob("*.sse")}
    assert record(aimock) == kept, "write them again with python -m tests.second_opinion.record"
