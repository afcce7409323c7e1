"""Completion, in the shells themselves."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.cli.terminal import finclaw

from finclaw.cli.commands.completion import SHELLS, script
from finclaw.cli.parser import build_parser

COMMANDS = sorted(build_parser().commands)

needs_zsh = pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
needs_fish = pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")


def bash(*words: str, cwd: Path | None = None) -> list[str]:
    """What bash offers when Tab is pressed after the last word."""
    typed = " ".join(f"'{word}'" for word in words)
    ask = f"COMP_WORDS=(finclaw {typed}); COMP_CWORD={len(words)}; _finclaw; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(
        ["bash", "--norc", "-c", f'eval "$1"; {ask}', "-", script("bash")],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        cwd=cwd,
    )
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1] if done.stdout.strip() else []


def test_bash_knows_the_commands() -> None:
    assert sorted(word for word in bash("") if not word.startswith("-")) == COMMANDS
    assert bash("do") == ["doctor"]
    assert bash("--ver") == ["--version"]


def test_bash_knows_what_follows_a_command() -> None:
    assert set(bash("config", "")) >= {"check", "show", "--json"}
    assert bash("config", "ch") == ["check"]
    assert bash("completion", "f") == ["fish"]
    assert bash("serve", "--p") == ["--port"]
    assert bash("serve", "--demo", "--po") == ["--port"]
    assert bash("serve", "--port", "") == []
    assert bash("ask", "serve", "--js") == ["--json"]  # a word of the question is no command


def test_bash_knows_the_actions_of_a_command(tmp_path: Path) -> None:
    assert bash("sessions", "") == [*build_parser().commands["sessions"].commands, "-h", "--help"]
    assert bash("sessions", "ex") == ["export"]
    assert bash("sessions", "export", "main", "--f") == ["--force"]
    assert bash("sessions", "list", "--c") == ["--config", "--containing"]
    assert bash("sessions", "reset", "--force") == []
    (tmp_path / "my file.jsonl").write_text("")
    assert bash("sessions", "import", "my", cwd=tmp_path) == ["my file.jsonl"]
    assert bash("sessions", "export", "main", "-o", "my", cwd=tmp_path) == ["my file.jsonl"]
    assert bash("sessions", "import", "--a", cwd=tmp_path) == ["--as"]


def test_bash_knows_what_follows_a_choice() -> None:
    """User trial C: behind `models show` it offered list and show again, and nothing for a turn."""
    offered = bash("models", "show", "")
    assert {"sonnet", "openai/gpt-5-mini", "--json"} <= set(offered)
    assert not {"list", "show"} & set(offered)
    assert bash("models", "show", "son") == ["sonnet"]
    assert bash("trace", "l") == bash("replay", "l") == ["last"]
    assert "check" not in bash("config", "check", "")
    assert bash("approvals", "ap") == ["approve"]


def test_bash_knows_files_and_directories(tmp_path: Path) -> None:
    (tmp_path / "my state").mkdir()
    (tmp_path / "my.yaml").write_text("")
    assert bash("serve", "--state", "m", cwd=tmp_path) == ["my state"]
    assert sorted(bash("serve", "--config", "m", cwd=tmp_path)) == ["my state", "my.yaml"]
    assert bash("serve", "--config", "=", "my.", cwd=tmp_path) == ["my.yaml"]


@pytest.mark.parametrize("shell", SHELLS)
def test_the_command_prints_what_the_shell_can_read(shell: str, tmp_path: Path) -> None:
    ended = finclaw("completion", shell)
    assert (ended.code, ended.out) == (0, script(shell) + "\n")
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "script").write_text(ended.out)
    done = subprocess.run([shell, "-n", str(tmp_path / "script")], capture_output=True, check=True, timeout=60)
    assert done.stderr == b""


@needs_fish
def test_fish_offers_them(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()

    def fish(typed: str) -> list[str]:
        done = subprocess.run(
            ["fish", "--no-config", "-c", f"{script('fish')}\ncomplete -C '{typed}'"],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
            cwd=tmp_path,
            env=os.environ | {"HOME": str(tmp_path)},
        )
        assert done.stderr == ""
        return [line.split("\t")[0] for line in done.stdout.splitlines()]

    assert sorted(fish("finclaw ")) == COMMANDS
    assert fish("finclaw doc") == ["doctor"]
    assert fish("finclaw config ") == ["check", "show"]
    assert fish("finclaw serve --po") == ["--port"]
    assert sorted(fish("finclaw sessions ")) == sorted(build_parser().commands["sessions"].commands)
    assert fish("finclaw sessions export main --fo") == ["--force"]
    assert fish("finclaw sessions import st") == ["state/"]
    assert fish("finclaw serve --state st") == ["state/"]


class Zsh:
    """An interactive zsh at a terminal of its own: its completion runs nowhere else."""

    def __init__(self, home: Path) -> None:
        (home / ".zshrc").write_text(
            "PROMPT='READY> '; unsetopt zle_bracketed_paste; autoload -Uz compinit; compinit -u\n"
            f"zstyle ':completion:*' list-colors ''; LISTMAX=0\n{script('zsh')}\n"
        )
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.environ.update(ZDOTDIR=str(home), HOME=str(home), TERM="dumb", COLUMNS="200")
            os.chdir(home)
            os.execvp("zsh", ["zsh", "-i"])
        self.until("READY> ")

    def until(self, text: str) -> str:
        seen, give_up = "", time.monotonic() + 60
        while text not in seen:
            assert time.monotonic() < give_up, seen
            if select.select([self._terminal], [], [], 1)[0]:
                seen += os.read(self._terminal, 65_536).decode(errors="replace")
        return seen

    def type(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def close(self) -> None:
        os.close(self._terminal)
        os.waitpid(self._pid, 0)


@needs_zsh
@pytest.mark.skipif(sys.platform != "linux", reason="the terminal of another system behaves differently")
def test_zsh_completes_them(tmp_path: Path) -> None:
    (tmp_path / "only-state").mkdir()
    zsh = Zsh(tmp_path)
    try:
        for typed, completed in (
            ("finclaw doct", "finclaw doctor "),
            ("finclaw config sh", "finclaw config show "),
            ("finclaw serve --po", "finclaw serve --port "),
            ("finclaw sessions exp", "finclaw sessions export "),
            ("finclaw sessions export main --fo", "finclaw sessions export main --force "),
            ("finclaw sessions import only", "finclaw sessions import only-state/"),
            ("finclaw init --state only", "finclaw init --state only-state/"),
        ):
            zsh.type(f"{typed}\t")
            zsh.until(completed[len(typed) :])
            zsh.type("\x15")  # away with the line
    finally:
        zsh.close()
