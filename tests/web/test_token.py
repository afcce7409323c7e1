"""The token's file."""

import os
import stat
from pathlib import Path

import pytest

from finclaw.errors import ConfigError
from finclaw.web.token import obtain_token, read_token


def test_it_is_made_once_and_only_for_its_owner(tmp_path: Path) -> None:
    token, made = obtain_token(tmp_path)
    again, made_again = obtain_token(tmp_path)
    assert (made, made_again) == (True, False)
    assert token == again
    assert len(token.reveal()) == 43
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["token"]


def test_the_umask_does_not_matter(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        obtain_token(tmp_path)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600


def test_none_is_made_by_reading(tmp_path: Path) -> None:
    assert read_token(tmp_path) is None
    assert not (tmp_path / "token").exists()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o610])
def test_one_that_others_can_open_is_refused(tmp_path: Path, mode: int) -> None:
    obtain_token(tmp_path)
    (tmp_path / "token").chmod(mode)
    with pytest.raises(ConfigError, match="chmod 600"):
        obtain_token(tmp_path)


@pytest.mark.parametrize("text", ["", "short", "x" * 40 + "!", "\0" * 43, "é" * 43])
def test_a_file_without_a_token_is_refused_without_showing_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "token"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="does not hold a token") as caught:
        obtain_token(tmp_path)
    assert not text or text not in str(caught.value)


def test_a_link_or_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "token").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "b" / "token").mkdir(parents=True)
    for place in ("a", "b"):
        with pytest.raises(ConfigError, match="plain file"):
            read_token(tmp_path / place)
