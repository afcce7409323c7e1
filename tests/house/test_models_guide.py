"""Every settings example of the models guide is a file that loads."""

import re
from pathlib import Path

import pytest

from finclaw.config.load import load_settings
from finclaw.config.routes import model_routes
from finclaw.kernel.clock import SystemClock

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "models.md"
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("text", EXAMPLES)
def test_the_example_loads_and_its_models_can_be_asked(tmp_path: Path, text: str) -> None:
    (tmp_path / "finclaw.yaml").write_text(text, encoding="utf-8")
    settings = load_settings(state=tmp_path, environ={"ANTHROPIC_API_KEY": "x"})
    routes = model_routes(settings, None, SystemClock())
    assert len(routes) == 1 + len(settings.agent.fallbacks)
    assert all(route.model.window > 0 for route in routes)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 4
