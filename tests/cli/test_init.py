"""`finclaw init`: everything is made once, nothing is ever replaced, and what it writes is what it says."""

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.chat_terminal import at_terminal
from tests.cli.terminal import clean_environment, finclaw

from finclaw.cli.commands.init import example
from finclaw.config.load import load_settings
from finclaw.config.schema import Settings


def test_everything_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    state = tmp_path / "new" / "state"
    ended = finclaw("init", "--state", state)
    assert (ended.code, ended.err) == (0, "")
    modes = {path.name: path.stat().st_mode & 0o777 for path in (state, *state.iterdir())}
    assert modes == {"state": 0o700, "finclaw.yaml": 0o600, "token": 0o600}
    assert [line.split()[0] for line in ended.out.splitlines()[:3]] == ["made"] * 3
    typed = f"{Path(sys.executable).name} -m finclaw"  # as it was started here
    assert ended.out.splitlines()[3:] == [
        f"start it:  {typed} serve --state {state}",
        f'then ask:  {typed} ask "What is AAPL trading at?" --state {state}',
        f"a model:   set agent.model in {state / 'finclaw.yaml'}, and its key; "
        f"`{typed} models --state {state}` lists them with prices",
    ]
    assert (state / "token").read_text().strip() not in ended.out
    assert finclaw("config", "check", "--state", state).code == 0


def test_again_changes_nothing(tmp_path: Path) -> None:
    finclaw("init", "--state", tmp_path)
    (tmp_path / "finclaw.yaml").write_text("market: demo\n")
    token = (tmp_path / "token").read_text()
    ended = finclaw("init", "--state", tmp_path)
    assert ended.code == 0
    assert [line.split()[0] for line in ended.out.splitlines()[:3]] == ["kept"] * 3
    assert (tmp_path / "finclaw.yaml").read_text() == "market: demo\n"
    assert (tmp_path / "token").read_text() == token


def test_a_directory_for_everybody_stays_one_and_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert f"chmod 700 {tmp_path}" in finclaw("init", "--state", tmp_path).out
    assert tmp_path.stat().st_mode & 0o777 == 0o755


def test_elsewhere_by_the_environment_and_with_another_file(tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    ended = finclaw("init", "--config", file, FINCLAW_HOME=str(tmp_path / "s"))
    assert ended.code == 0
    assert file.read_text() == example()
    assert f"--config {file}" in ended.out


def test_the_defaults_in_the_file_are_the_defaults(tmp_path: Path) -> None:
    text = re.sub(r"^( *)#(\w+: )", r"\1\2", example(), flags=re.MULTILINE)
    (tmp_path / "finclaw.yaml").write_text(text)
    assert load_settings(state=tmp_path, environ={}) == Settings(state=tmp_path)
    assert text.count("\n") == example().count("\n")
    (tmp_path / "finclaw.yaml").write_text(example())
    assert load_settings(state=tmp_path, environ={}) == Settings(state=tmp_path)


def test_what_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "--state DIR" in finclaw("init", "--state", tmp_path / "file").line()
    assert "--state DIR" in finclaw("init", "--state", tmp_path / "file" / "x").line()
    assert "--config FILE" in finclaw("init", "--state", tmp_path, "--config", tmp_path / "no" / "x.yaml").line()


def test_a_full_disk_leaves_no_half_file(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "finclaw", "init", "--state", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=clean_environment(),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, 1_000)),
    )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("typed", "market", "said"),
    [
        ("live", "live", "prices:    live;"),
        ("실시간", "live", "prices:    live;"),
        ("", "demo", ""),
        ("x\rd", "demo", ""),
    ],
)
async def test_at_a_terminal_one_question_is_asked(tmp_path: Path, typed: str, market: str, said: str) -> None:
    with at_terminal("init", "--state", str(tmp_path)) as terminal:
        await terminal.expect("demo or live? / demo 또는 live? [demo]")
        terminal.type(f"{typed}\r")
        assert await terminal.ended() == 0
        assert ("prices:    live;" in terminal.text) == (market == "live")
        assert ("Type demo or live." in terminal.text) == typed.startswith("x")
    assert load_settings(state=tmp_path, environ={}).market == market
    with at_terminal("init", "--state", str(tmp_path)) as terminal:
        assert await terminal.ended() == 0
        assert "demo or live?" not in terminal.text, "the file is there: nothing is left to ask"


def test_a_script_says_which_market_it_wants(tmp_path: Path) -> None:
    ended = finclaw("init", "--live", "--state", tmp_path)
    assert "doctor --state" in ended.out
    assert load_settings(state=tmp_path, environ={}).market == "live"
    assert finclaw("config", "check", "--state", tmp_path).code == 0
    again = finclaw("init", "--demo", "--state", tmp_path)
    assert "write there: market: demo" in again.out
    assert load_settings(state=tmp_path, environ={}).market == "live"
