"""What the guides to memory and skills show is loaded, read and run."""

import re
from pathlib import Path

import pytest

from finclaw.builtins.memory import MemorySettings
from finclaw.builtins.skills import SkillSettings
from finclaw.builtins.skills.skill import read_skill
from finclaw.cli.parser import build_parser
from finclaw.config.load import load_settings

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
PAGES = {name: (GUIDES / f"{name}.md").read_text(encoding="utf-8") for name in ("memory", "skills")}
KINDS = {"memory": MemorySettings, "skills": SkillSettings}


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGES[page], re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_every_settings_example_loads_and_fits(tmp_path: Path, page: str) -> None:
    examples = blocks(page, "yaml")
    assert len(examples) == 2
    for text in examples:
        (tmp_path / "finclaw.yaml").write_text(text, encoding="utf-8")
        agent = load_settings(state=tmp_path, environ={}).agent
        if "default_extensions" in text:
            assert agent.default_extensions == (page,)
            continue
        (ref,) = agent.extensions
        assert not isinstance(ref, str)
        assert ref.use == page
        KINDS[page](**ref.settings)


def test_the_settings_shown_are_those_there_are_without_them() -> None:
    shown = {name: int(value) for name, value in re.findall(r"(recall|characters): (\d+)", blocks("memory", "yaml")[1])}
    assert MemorySettings(**shown) == MemorySettings()


@pytest.mark.parametrize("page", PAGES)
def test_every_command_can_be_typed(page: str) -> None:
    lines = [line.partition("#")[0].split() for block in blocks(page, "sh") for line in block.splitlines()]
    assert len(lines) == 3
    for program, *words in lines:
        assert program == "finclaw"
        assert build_parser().parse_args(words).command == page


def test_the_skill_can_be_read() -> None:
    (text,) = blocks("skills", "markdown")
    skill = read_skill("dividend-tax", text)
    assert skill.fits("배당소득세는?")
    assert [each.name for each in skill.commands] == ["tax"]
