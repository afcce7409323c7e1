"""`finclaw models list`, and what `finclaw ask` says when the model cannot be had."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.terminal import finclaw

SETTINGS = """\
agent: {model: fast}
providers: {box: {kind: openai, base_url: "http://127.0.0.1:9/v1"}}
models:
  box/qwen3: {window: 32768}
  openai/gpt-5: {input_price: 2, output_price: 9}
aliases: {fast: box/qwen3}
"""


def listed(state: Path) -> dict[str, dict[str, Any]]:
    return {
        each["model"]: each for each in json.loads(finclaw("models", "list", "--json", "--state", state).out)["models"]
    }


@pytest.mark.spec("N-02")
def test_the_list_for_people(tmp_path: Path) -> None:
    ended = finclaw("models", "list", "--state", tmp_path)
    assert (ended.code, ended.err) == (0, "")
    rows = {line.split()[1 if line.startswith("*") else 0]: line for line in ended.out.splitlines()}
    assert rows["offline/demo"].startswith("*")
    assert rows["anthropic/claude-sonnet-4-6"].split()[1:6] == ["1,000,000", "128,000", "3", "15", "0.3"]
    assert "tools images thinking caching" in rows["anthropic/claude-sonnet-4-6"]
    assert "catalog of 2026" in rows["openai/gpt-5"]
    assert finclaw("models", "--state", tmp_path).out == ended.out


def test_what_the_settings_say_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "finclaw.yaml").write_text(SETTINGS)
    models = listed(tmp_path)
    own = models["box/qwen3"]
    assert (own["chosen"], own["window"], own["price"], own["aliases"]) == (True, 32_768, None, ["fast"])
    assert own["from"] == "your settings"
    changed = models["openai/gpt-5"]
    assert changed["price"] == {"input": "2", "output": "9", "cache_read": "0.2", "cache_write": "2.50"}
    assert changed["from"].endswith("with your settings")
    assert not changed["chosen"]
    words = finclaw("models", "list", "--state", tmp_path).out.splitlines()
    (row,) = [line for line in words if "box/qwen3" in line]
    assert row.split()[:7] == ["*", "box/qwen3", "32,768", "4,096", "-", "-", "-"]


@pytest.mark.parametrize("model", ["nothing", "box/zzzz"])
def test_a_chosen_one_that_is_not_there_is_told(tmp_path: Path, model: str) -> None:
    (tmp_path / "finclaw.yaml").write_text(f"agent: {{model: {model}}}\n")
    ended = finclaw("models", "list", "--state", tmp_path)
    assert ended.code == 0
    assert ended.out.splitlines()[-1] == f"agent.model is {model}, which is not in this list"


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("sonet", "agent.model: 'sonet' names no model and no alias (did you mean sonnet?)"),
        ("sonnet", "set the environment variable ANTHROPIC_API_KEY"),
        ("openai/gpt-5", "set the environment variable OPENAI_API_KEY"),
        ("openai/gpt-55", "did you mean openai/gpt-5"),
    ],
)
def test_a_model_that_cannot_be_asked_is_one_line_before_anything_else(tmp_path: Path, model: str, said: str) -> None:
    (tmp_path / "finclaw.yaml").write_text(f"agent: {{model: {model}}}\n")
    ended = finclaw("ask", "hello", "--state", tmp_path, ANTHROPIC_API_KEY="", OPENAI_API_KEY="")
    assert ended.code == 2
    assert said in ended.line()
