"""The package as a program of one's own meets it: its names, its types, its settings."""

from pathlib import Path
from typing import Any, cast

import pytest

import finclaw


def test_looking_around_shows_the_public_names() -> None:
    """User trial C: a notebook showed `Any, TYPE_CHECKING, importlib`."""
    assert set(dir(finclaw)) == {*finclaw.__all__, "__version__"}
    for name in finclaw.__all__:
        assert getattr(finclaw, name) is not None


def test_its_types_are_for_everybody() -> None:
    """User trial M16: checkers took the package for untyped."""
    assert (Path(finclaw.__file__).parent / "py.typed").is_file()


def test_the_state_may_be_a_text(tmp_path: Path) -> None:
    settings = finclaw.Settings(state=cast("Any", str(tmp_path)))
    assert settings.state == tmp_path


def test_settings_are_loaded_as_the_command_line_loads_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FINCLAW_HOME", str(tmp_path))
    monkeypatch.setenv("FINCLAW_WEB__PORT", "9001")
    settings = finclaw.load_settings()
    assert (settings.state, settings.web.port) == (tmp_path, 9001)


def test_an_extension_is_listed_with_its_settings_from_here(tmp_path: Path) -> None:
    ref = finclaw.ExtensionRef("timing", {"level": "debug"})
    assert finclaw.Settings(state=tmp_path).agent.extensions == ()
    assert (ref.use, ref.settings) == ("timing", {"level": "debug"})
