"""A gateway with live market data, whose vendors are on this machine and can be broken."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.finance.sources.vendors import NOW, Vendors, serving, settings_for
from tests.walks.house import Gateway

import finclaw
from finclaw.agent.settings import AgentSettings
from finclaw.testing import FakeClock, MemoryChannel, ScriptedProvider


@asynccontextmanager
async def opened(
    state: Path, vendors: Vendors, *script: Any, now: datetime = NOW, **settings: Any
) -> AsyncGenerator[Gateway]:
    """With a script the model follows it; without one the offline assistant answers."""
    clock = FakeClock(now)
    channel = MemoryChannel(clock)
    provider = ScriptedProvider(*script, clock=clock)
    async with serving(vendors) as base:
        made = finclaw.Settings(
            state=state,
            market="live",
            market_data=settings_for(base, **settings),
            agent=AgentSettings(model="offline/demo", default_extensions=()),
        )
        given = provider if script else None
        async with finclaw.build(made, channels=[channel], provider=given, clock=clock, threaded=False) as app:
            yield Gateway(app, channel, provider)
