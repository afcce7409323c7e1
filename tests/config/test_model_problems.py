"""What is wrong with the models that the settings name: everything at once, before anything starts."""

import json
from pathlib import Path

import pytest
from tests.cli.terminal import finclaw

from finclaw.config.load import load_settings
from finclaw.config.problems import problems_of_models

BASE = """\
agent: {model: anthropic/claude-sonnet-5-5, fallbacks: [%s]}
providers: {box: {kind: openai, base_url: "http://127.0.0.1:9/v1"}, mute: {}}
models: {box/qwen3: {window: 32768}, mute/x: {window: 8000}, nobody/x: {window: 8000}}
aliases: {fast: box/qwen3, mine: sonnet, round: about, about: round}
"""
NO_LOOP = BASE.replace(", round: about, about: round", "")


def problems(state: Path, text: str) -> tuple[str, ...]:
    (state / "finclaw.yaml").write_text(text, encoding="utf-8")
    return problems_of_models(load_settings(state=state, environ={"ANTHROPIC_API_KEY": "x"}))


@pytest.mark.spec("RT-06")
@pytest.mark.parametrize(
    ("fallbacks", "said"),
    [
        ("claude-haiku-4-5", "did you mean anthropic/claude-haiku-4-5"),
        ("anthropic/claude-haiku-9", "the model anthropic/claude-haiku-9 is not in the catalog"),
        ("nobody/x", "there is no provider 'nobody'"),
        ("mute/x", "providers.mute does not say what it speaks"),
        ("openai/gpt-5", "openai wants a key, and there is none; set the environment variable OPENAI_API_KEY"),
        ("anthropic/claude-sonnet-5-5", "anthropic/claude-sonnet-5-5 is agent.model itself; name another model"),
        ("mine", "mine (anthropic/claude-sonnet-5-5) is agent.model itself; name another model, or leave it out"),
    ],
)
def test_a_fallback_that_could_not_answer_is_told_with_what_to_do(tmp_path: Path, fallbacks: str, said: str) -> None:
    (problem,) = problems(tmp_path, NO_LOOP % fallbacks)
    assert problem.startswith("agent.fallbacks[1]: ")
    assert said in problem


def test_good_ones_are_no_problem(tmp_path: Path) -> None:
    assert problems(tmp_path, NO_LOOP % "haiku, fast") == ()


def test_one_that_stands_there_twice(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, NO_LOOP % "fast, haiku, box/qwen3")
    assert problem == "agent.fallbacks[3]: box/qwen3 stands there twice; it is asked once, so leave one of them out"


@pytest.mark.spec("DX-49")
def test_one_without_a_price_under_a_budget(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, NO_LOOP % "haiku, fast" + "budget: {turn_usd: 1}\n")
    assert problem.startswith("agent.fallbacks[2]: there is a budget, but no price is known of box/qwen3; declare")
    assert "models.box/qwen3.input_price" in problem


def test_an_alias_that_leads_nowhere_is_told_though_nobody_uses_it(tmp_path: Path) -> None:
    found = problems(tmp_path, BASE.replace("fast: box/qwen3", "fast: fsat") % "")
    assert [each.partition(":")[0] for each in found] == ["aliases.fast", "aliases.round", "aliases.about"]
    assert "leads back to itself: round → about → round; give it a `provider/model`" in found[1]
    assert "'fsat' names no model and no alias" in found[0]


def test_a_loop_that_is_used_is_told_where_it_is_used_and_where_it_is(tmp_path: Path) -> None:
    found = problems(tmp_path, BASE % "round")
    assert [each.partition(":")[0] for each in found] == ["agent.fallbacks[1]", "aliases.round", "aliases.about"]


def test_every_problem_at_once_on_the_command_line(tmp_path: Path) -> None:
    text = BASE.replace("anthropic/claude-sonnet-5-5", "sonet") % "nobody/x, openai/gpt-5"
    (tmp_path / "finclaw.yaml").write_text(text, encoding="utf-8")
    ended = finclaw("config", "check", "--json", "--state", tmp_path, ANTHROPIC_API_KEY="x")
    assert ended.code == 1
    assert [each.partition(":")[0] for each in json.loads(ended.out)["problems"]] == [
        "agent.model",
        "agent.fallbacks[1]",
        "agent.fallbacks[2]",
        "aliases.round",
        "aliases.about",
    ]
