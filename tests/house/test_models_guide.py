"""Every settings example of the models guide is a file that loads."""

import re
from pathlib import Path

import pytest

from finclaw.clock import SystemClock
from finclaw.config.load import load_settings
from finclaw.config.routes import ModelRoutes

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "models.md"
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("text", EXAMPLES)
def test_the_example_loads_and_its_models_can_be_asked(tmp_path: Path, text: str) -> None:
    (tmp_path / "finclaw.yaml").write_text(text, encoding="utf-8")
    environ = {"ANTHROPIC_API_KEY": "x", "WORK_KEY": "w", "SPARE_KEY": "s"}
    settings = load_settings(state=tmp_path, environ=environ)
    routes = ModelRoutes(settings, None, SystemClock()).default
    spare = sum(len(each.keys) - 1 for each in settings.providers.values() if each.keys)
    assert len(routes) == 1 + spare + len(settings.agent.fallbacks)
    assert all(route.model.window > 0 for route in routes)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 7
