"""The state directory is its owner's alone, whichever command makes it and whatever the umask is."""

import logging
import os
import stat
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from tests.cli.in_process import typed

from finclaw.cli.parser import Parser, build_parser
from finclaw.errors import ConfigError
from finclaw.finance.instruments.added import AddedInstruments
from finclaw.storage.locks import StateLock
from finclaw.transcript.conversation_file import write_conversation

CSV = "symbol,market,name_en\nZZZQ,NASDAQ,Zed\n"
SKILL = "---\nname: tax\ndescription: Taxes\n---\nAsk.\n"
NOT_RUN = {("serve",), ("chat",), ("mcp", "serve"), ("instruments", "refresh")}
"""The first start a gateway as `ask` does, and run until they are stopped; the last writes as `import` does."""
MCP = "agent: {extensions: [{use: mcp, settings: {servers: {desk: {command: [nothing]}}}}]}\nmarket: live\n"


def actions(parser: Parser, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, command in parser.commands.items():
        yield from actions(command, (*above, name)) if command.commands else ((*above, name),)


@pytest.fixture
def open_umask() -> Generator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "mine.csv").write_text(CSV)
    (tmp_path / "tax").mkdir()
    (tmp_path / "tax" / "SKILL.md").write_text(SKILL)
    (tmp_path / "talk.jsonl").write_bytes(write_conversation("main:web:owner:direct:main+owner", []))
    (tmp_path / "mcp.yaml").write_text(MCP)
    return tmp_path


def words(action: tuple[str, ...], place: Path) -> tuple[str | Path, ...]:
    """Arguments with which the command does something where nothing is there yet."""
    given: dict[tuple[str, ...], tuple[str | Path, ...]] = {
        ("ask",): ("What is AAPL trading at?",),
        ("instruments", "import"): (place / "mine.csv",),
        ("skills", "add"): (place / "tax",),
        ("sessions", "import"): (place / "talk.jsonl", "--as", "main"),
        ("mcp", "pins"): ("--config", place / "mcp.yaml"),
        ("extensions", "new"): ("price-alarm", "--dir", place),
    }
    return given.get(action, ("x",) if action[0] in ("forget", "explain", "trace", "replay", "turns") else ())


MAKE_A_STATE = {
    ("init",),
    ("ask",),
    ("instruments", "import"),
    ("skills", "add"),
    ("sessions", "import"),
    ("mcp", "pins"),
}


@pytest.mark.parametrize("action", sorted({*actions(build_parser())} - NOT_RUN), ids=" ".join)
@pytest.mark.usefixtures("open_umask")
def test_command_makes_a_private_state(action: tuple[str, ...], place: Path) -> None:
    state = place / "new" / "state"
    done = typed(*action, *words(action, place), "--state", state)
    assert state.exists() or action not in MAKE_A_STATE, done.err
    paths = (state.parent, state, *state.rglob("*")) if state.exists() else ()
    loose = {str(each): oct(each.stat().st_mode) for each in paths if each.stat().st_mode & 0o077}
    assert not loose


@pytest.mark.parametrize("mode", [0o777, 0o755, 0o770])
def test_open_state_is_closed_at_start_and_logged(mode: int, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    (tmp_path / "skills" / "tax").mkdir(parents=True)
    for each in (tmp_path, tmp_path / "skills", tmp_path / "skills" / "tax"):
        each.chmod(mode)
    StateLock(tmp_path).release()
    assert {stat.S_IMODE(Path(each).stat().st_mode) for each, *_ in os.walk(tmp_path)} == {0o700}
    tmp_path.chmod(mode)
    AddedInstruments(tmp_path).add_imported([])
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700
    assert caplog.text.count(f"other users could open {tmp_path}") == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize(
    ("mode", "name"),
    [*((mode, "finclaw.yaml") for mode in (0o777, 0o1777, 0o775)), (0o755, "extensions/memory.db"), (0o755, "")],
)
def test_state_with_files_of_others_is_refused(mode: int, name: str, tmp_path: Path) -> None:
    (tmp_path / "extensions").mkdir()
    (tmp_path / name).touch()
    os.chown(tmp_path / name, 65_534, 65_534)
    tmp_path.chmod(mode)
    for _ in range(2):  # the lock is given back
        with pytest.raises(ConfigError, match=f"run: sudo chown -R 0 {tmp_path} && sudo chmod 700 {tmp_path}"):
            StateLock(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize(
    "command", [("doctor",), ("config", "check"), ("channels", "list"), ("tools", "list"), ("backup", "x")]
)
def test_extension_of_another_user_in_an_open_state_is_not_run(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    (tmp_path / "finclaw.yaml").write_text("agent: {extensions: [./evil.py]}\n")
    for name in ("evil.py", "finclaw.yaml"):
        os.chown(tmp_path / name, 65_534, 65_534)
    tmp_path.chmod(0o777)
    done = typed(*command, "--state", tmp_path)
    assert done.code != 0
    assert "sudo chown" in done.out + done.err
    assert not (tmp_path / "ran").exists()
