"""Fixtures of the tests of the command line."""

import importlib.util

import pytest

EDITORS = [
    "readline",
    pytest.param(
        "toolkit",
        marks=pytest.mark.skipif(not importlib.util.find_spec("prompt_toolkit"), reason="needs the extra `chat`"),
    ),
]


@pytest.fixture(params=EDITORS)
def toolkit(request: pytest.FixtureRequest) -> bool:
    return request.param == "toolkit"
