"""Every attack gets a house of its own, and can read what the house would log, in both forms."""

import io
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.builtins.mcp.bench import Bench
from tests.walks.house import House

from finclaw.diagnostics.log import PlainLines, start_logging
from finclaw.redaction.redact import redact_for_display


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What a gateway writes to its log, once as JSON and once as plain text, down to the last detail."""
    root = logging.getLogger("finclaw")
    before = (root.handlers[:], root.level, root.propagate)
    start_logging("debug", "json", redact_for_display)
    stream = io.StringIO()
    (handler,) = root.handlers
    assert isinstance(handler, logging.StreamHandler)
    handler.setStream(stream)  # pyright: ignore[reportUnknownMemberType]
    plain = logging.StreamHandler(stream)
    plain.setFormatter(PlainLines(redact_for_display))
    root.addHandler(plain)
    yield stream
    root.handlers[:], root.level, root.propagate = before


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)
