"""Every test gets a bench, and a file with the words of the honest server's tool."""

from pathlib import Path

import pytest
from tests.builtins.mcp.bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def words(tmp_path: Path) -> Path:
    file = tmp_path / "words.txt"
    file.write_text("Greets somebody.")
    return file
