"""Every settings example of the MCP guide is a file that loads, and every command in it can be typed."""

import re
from pathlib import Path

import pytest

from finclaw.agent.settings import LocatedRef
from finclaw.builtins.mcp.settings import McpSettings
from finclaw.cli.parser import build_parser
from finclaw.config.load import load_settings
from finclaw.extensions.settings import read_settings

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "mcp.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = re.findall(r"^ *finclaw (mcp .*?)(?: {2,}#.*)?$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("text", EXAMPLES)
def test_the_example_loads(tmp_path: Path, text: str) -> None:
    (tmp_path / "finclaw.yaml").write_text(text, encoding="utf-8")
    settings = load_settings(state=tmp_path, environ={"DESK_TOKEN": "Bearer x"})
    for ref in settings.agent.extensions:
        assert isinstance(ref, LocatedRef)
        assert ref.use == "mcp"
        assert ref.follow is not None
        read_settings(ref.settings, McpSettings, ref.follow).check()


@pytest.mark.parametrize("words", COMMANDS)
def test_the_command_can_be_typed(words: str) -> None:
    assert build_parser().parse_args(words.split()).command == "mcp"


def test_there_are_examples() -> None:
    assert (len(EXAMPLES), len(COMMANDS)) == (3, 2)
