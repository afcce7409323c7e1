"""A model that somebody picks for one message: by its own keys, within the budget, and nobody in its place."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path

import pytest
from tests.walks.house import Gateway

import finclaw
from finclaw.agent.budget.settings import BudgetSettings
from finclaw.agent.settings import AgentSettings
from finclaw.errors import AuthFailed
from finclaw.kernel.envelope import Limits, TurnOptions
from finclaw.kernel.event import ModelFellBack
from finclaw.providers.settings import ModelSettings, ProviderSettings
from finclaw.testing import FakeClock, MemoryChannel, ScriptedProvider, fails
from finclaw.testing.provider import Line

PRICED = ModelSettings(window=8_192, input_price=Decimal(1), output_price=Decimal(1))


@asynccontextmanager
async def opened(state: Path, clock: FakeClock, *script: Line, budget: BudgetSettings) -> AsyncGenerator[Gateway]:
    channel, provider = MemoryChannel(clock), ScriptedProvider(*script, clock=clock)
    settings = finclaw.Settings(
        state=state,
        agent=AgentSettings(model="house/chosen", fallbacks=("offline/demo",)),
        providers={"box": ProviderSettings(kind="openai", base_url="http://127.0.0.1:1/v1")},
        models={"house/chosen": PRICED, "box/free": ModelSettings(window=8_192), "box/dear": PRICED},
        budget=budget,
    )
    async with finclaw.build(settings, channels=[channel], provider=provider, clock=clock, threaded=False) as app:
        gateway = Gateway(app, channel, provider)
        app.events.observe(gateway.events.append)
        yield gateway


def picking(model: str) -> Limits:
    return Limits(wishes=TurnOptions(model=model))


def fallbacks(gateway: Gateway) -> list[str]:
    return [event.instead for event in gateway.events if isinstance(event, ModelFellBack)]


@pytest.mark.spec("CO-02")
def test_a_model_of_unknown_price_is_refused_under_a_budget(tmp_path: Path) -> None:
    clock = FakeClock()

    async def main() -> None:
        budget = BudgetSettings(turn_usd=Decimal(10))
        async with opened(tmp_path, clock, "from the chosen one", budget=budget) as gateway:
            outcome = await gateway.ask("hello", limits=picking("box/free"))
            assert outcome.kind == "failed"
            assert "no price is known of box/free" in (outcome.reason or "")
            assert fallbacks(gateway) == [], "whoever picked a model wants that one"
            assert (await gateway.ask("hello")).reply == "from the chosen one"

    clock.run(main())


def test_a_picked_model_that_does_not_answer_has_nobody_in_its_place(tmp_path: Path) -> None:
    clock = FakeClock()

    async def main() -> None:
        async with opened(tmp_path, clock, fails(AuthFailed("no")), budget=BudgetSettings()) as gateway:
            assert (await gateway.ask("hello", limits=picking("box/dear"))).kind == "failed"
            assert (await gateway.ask("hello", limits=picking("house/chosen"))).kind == "failed"
            assert fallbacks(gateway) == []
            assert (await gateway.ask("hello")).kind == "answered"

    clock.run(main())
