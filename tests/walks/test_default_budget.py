"""User trial H6: three dollars a day are the limit unless somebody says otherwise, and nobody is kept from starting."""

from decimal import Decimal
from pathlib import Path

import pytest
from tests.cli.terminal import finclaw
from tests.walks.budgets import SONNET, answer, refusals
from tests.walks.house import House, in_virtual_time

from finclaw.agent.budget.settings import BudgetSettings
from finclaw.agent.settings import AgentSettings
from finclaw.config.load import load_settings
from finclaw.config.problems import problems_of_models, say_budget, warnings_of_models

ALL_BUT_A_CALL = 29
"""Answers of ten cents."""


@in_virtual_time
async def test_after_three_dollars_the_day_is_over(house: House) -> None:
    async with house.open(*[answer()] * ALL_BUT_A_CALL, "never", agent=SONNET) as gateway:
        for number in range(ALL_BUT_A_CALL):
            assert (await gateway.ask("go", conversation=str(number))).kind == "answered"
        assert (await gateway.ask("go", conversation="last")).kind == "failed"
        assert refusals(gateway)[-1].limit_usd == 3


@in_virtual_time
async def test_null_lifts_it(house: House) -> None:
    lifted = BudgetSettings(agent_day_usd=None)
    async with house.open(*[answer()] * 31, agent=SONNET, budget=lifted) as gateway:
        for number in range(31):
            assert (await gateway.ask("go", conversation=str(number))).kind == "answered"


@in_virtual_time
async def test_nothing_is_nothing(house: House) -> None:
    async with house.open(agent=SONNET, budget=BudgetSettings(agent_day_usd=Decimal(0))) as gateway:
        assert (await gateway.ask("go")).kind == "failed"


@in_virtual_time
async def test_a_model_without_a_price_is_used_and_counted_under_the_default(house: House) -> None:
    async with house.open("fine", agent=AgentSettings(model="scripted/secret")) as gateway:
        assert (await gateway.ask("go")).kind == "answered"
        (line,) = await gateway.app.costs(1, "model")
        assert (line.calls, line.cost) == (1, 0)


@pytest.mark.parametrize(
    ("address", "warned"),
    [
        ("http://127.0.0.1:9/v1", False),
        ("http://localhost:9/v1", False),
        ("http://[::1]:9/v1", False),
        ("http://192.168.1.9/v1", True),
        ("https://models.example.com/v1", True),
        ("http://127.0.0.1.example.com/v1", True),
    ],
)
def test_a_warning_where_somebody_else_may_send_a_bill(tmp_path: Path, address: str, warned: bool) -> None:
    text = (
        "agent: {model: box/one}\n"
        f"providers: {{box: {{kind: openai, base_url: '{address}', key: 'env:BOX'}}}}\n"
        "models: {box/one: {window: 32768}}\n"
    )
    (tmp_path / "finclaw.yaml").write_text(text)
    settings = load_settings(state=tmp_path, environ={"BOX": "k"})
    assert problems_of_models(settings) == ()
    told = [each.partition(":")[0] for each in warnings_of_models(settings)]
    assert told == (["budget.agent_day_usd cannot count what box/one costs"] if warned else [])
    said = finclaw("config", "check", "--state", tmp_path, BOX="k")
    assert (said.code, "warning: budget.agent_day_usd" in said.out) == (0, warned)


def test_who_chose_a_limit_or_none_is_not_warned(tmp_path: Path) -> None:
    """A chosen limit is a problem then, as it was; without any there is nothing to count."""
    text = (
        "agent: {model: box/one}\nproviders: {box: {kind: openai, base_url: 'https://a.example/v1', key: 'env:BOX'}}\n"
        "models: {box/one: {window: 32768}}\nbudget: {agent_day_usd: %s}\n"
    )
    for limit, problems in (("3", 1), ("null", 0)):
        (tmp_path / "finclaw.yaml").write_text(text % limit)
        settings = load_settings(state=tmp_path, environ={"BOX": "k"})
        assert (len(problems_of_models(settings)), warnings_of_models(settings)) == (problems, ())


def test_it_is_said_in_a_line(tmp_path: Path) -> None:
    assert say_budget(load_settings(state=tmp_path, environ={})).startswith("$3.00 a day for models")
    lifted = load_settings(state=tmp_path, environ={"FINCLAW_BUDGET__AGENT_DAY_USD": "null"})
    assert say_budget(lifted).startswith("no limit")
