"""Every test of the web may have a site of its own."""

from collections.abc import AsyncGenerator

import pytest
from tests.fetch.site import Site, opened_site


@pytest.fixture
async def site() -> AsyncGenerator[Site]:
    async with opened_site() as opened:
        yield opened
