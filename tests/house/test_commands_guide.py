"""The guide to commands lists what the registry holds, in both languages, and its examples do what it says."""

import re
from pathlib import Path

import pytest

from finclaw.commands.declaration import describe_in, directive_of, name_in
from finclaw.composition.extensions import load_registrar
from finclaw.config.load import load_settings
from finclaw.config.schema import Settings
from finclaw.kernel.port import Command

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "commands.md").read_text(encoding="utf-8")
HEADINGS = {"general": "General", "finance": "Markets", "admin": "Administration", "debug": "Diagnostics"}


def row(command: Command) -> str:
    english, korean = (describe_in(language, command.description) for language in ("en", "ko"))
    cells = (f"`{command.usage}`", f"`/{name_in('ko', command)}`", english, korean, ", ".join(command.roles))
    return "| " + " | ".join(cells).rstrip() + " |"


def section(category: str) -> list[str]:
    found = re.search(rf"^### {HEADINGS[category]} .*?\n\n(.*?)(?:\n\n|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, f"there is no section on {category} commands"
    return [line.replace("\\|", "|") for line in found[1].splitlines()[2:]]


@pytest.mark.parametrize("category", HEADINGS)
def test_every_command_has_its_row_and_no_row_is_without_its_command(tmp_path: Path, category: str) -> None:
    commands = [each for each in load_registrar(Settings(state=tmp_path)).commands if each.category == category]
    rows = [row(each) for each in commands]
    assert section(category) == rows, "write these rows into docs/guides/commands.md, with | as \\| in code"


def test_every_directive_is_told_with_its_values(tmp_path: Path) -> None:
    directives = [each for each in load_registrar(Settings(state=tmp_path)).commands if directive_of(each) is not None]
    told = PAGE.partition("## Directives")[2]
    assert {each.name for each in directives} == {"model", "think", "verbose", "queue"}
    for each in directives:
        directive = directive_of(each)
        assert directive is not None
        assert f"`/{each.name}`" in told
        if each.name != "model":
            assert all(f"`{value}`" in told for value in directive.values)


def test_the_settings_shown_are_valid(tmp_path: Path) -> None:
    (example,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "finclaw.yaml").write_text(example, encoding="utf-8")
    commands = load_settings(state=tmp_path, environ={}).commands
    assert (commands.prefix, commands.directives["model"]) == ("/", ("owner", "admin"))
