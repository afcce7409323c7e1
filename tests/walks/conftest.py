"""Every walk gets a house of its own."""

from pathlib import Path
from typing import Any

import pytest
from tests.walks.house import House, TroubledStore

from finclaw.storage.sqlite.store import open_store


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    house = House(tmp_path)

    def open_troubled(*args: Any, **kwargs: Any) -> TroubledStore:
        return TroubledStore(open_store(*args, **kwargs), house.troubles)

    monkeypatch.setattr("finclaw.app.open_store", open_troubled)
    return house
