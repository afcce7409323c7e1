"""A mock model server and a database that others wrote. Their tests are collected only for `make opinion`."""

from collections.abc import Generator
from pathlib import Path

import pytest
from tests.second_opinion.aimock import Aimock, running


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`make test` needs python3 alone, and a test that skips itself for want of a server would prove nothing."""
    asked = str(config.getoption("markexpr"))
    return None if "aimock" in asked or "postgres" in asked else True


@pytest.fixture(scope="session")
def running_aimock() -> Generator[Aimock]:
    with running() as server:
        yield server


@pytest.fixture
def aimock(running_aimock: Aimock) -> Aimock:
    running_aimock.reset()
    return running_aimock
