"""`finclaw sessions delete` and `finclaw forget`: what was said is in no file of the state, gateway or not.

User trial B6: nothing younger than 30 days could be erased, and sessions could not be deleted.
"""

import asyncio
import json
import shutil
from collections.abc import Callable, Generator
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.cli.gateway_process import serving
from tests.cli.in_process import typed
from tests.cli.kept_file import keep_file
from tests.cli.terminal import Ended, finclaw
from tests.ports.state_search import found_in

from finclaw.builtins.memory.notes import MIGRATIONS, NoteStore
from finclaw.storage.sqlite.extension import ExtensionDatabase

WORDS = "zebra7 얼룩말을 산다"
MAIN = "main:web:owner:direct:main+owner"
SETTINGS = "storage: {{kind: {kind}}}\nagent:\n  extensions: [memory]\n"


@pytest.fixture(params=["sqlite", "jsonl"], scope="module")
def said(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state in which the owner has said something in two chats, has a note, and has typed a line in `chat`."""
    state = tmp_path_factory.mktemp("said")
    (state / "finclaw.yaml").write_text(SETTINGS.format(kind=request.param), encoding="utf-8")
    for session in ("main", "other"):
        assert finclaw("ask", f"Remember that {WORDS}", "--session", session, "--state", state).code == 0
    asyncio.run(save_note(state / "extensions"))
    (state / "chat_history").write_text(json.dumps(WORDS) + "\n")
    (state / "chat_history").chmod(0o600)
    return state


@pytest.fixture
def spoken(said: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(said, tmp_path / "state"))


async def save_note(directory: Path) -> None:
    database = ExtensionDatabase(directory, "memory", MIGRATIONS)
    await NoteStore(database).save("web:owner:owner", WORDS, datetime(2026, 1, 2, tzinfo=UTC))
    await database.close()


Run = Callable[..., Ended]


@pytest.fixture(params=["here", "gateway"])
def run(request: pytest.FixtureRequest, spoken: Path) -> Generator[Run]:
    with serving(spoken) if request.param == "gateway" else nullcontext():
        yield lambda *args: typed(*args, "--state", spoken)


@pytest.mark.parametrize("running", [False, True], ids=["here", "gateway"])
@pytest.mark.parametrize(
    "command", [("forget", "web:owner:owner"), ("sessions", "delete", MAIN)], ids=["forget", "delete"]
)
def test_files_that_a_person_sent_go_too(spoken: Path, running: bool, command: tuple[str, ...]) -> None:
    name = keep_file(spoken, MAIN, "a hidden okapi")
    assert found_in(spoken, "okapi")
    with serving(spoken) if running else nullcontext():
        looked = typed(*command, "--dry-run", "--state", spoken)
        assert (looked.code, looked.err) == (0, "")
        assert (spoken / "blobs" / name).exists()
        done = typed(*command, "--yes", "--state", spoken)
        assert (done.code, done.err) == (0, "")
        assert found_in(spoken, "okapi") == []
        assert found_in(spoken, name) == []
    assert list((spoken / "blobs").iterdir()) == []


def test_forget_leaves_none_of_a_persons_words(run: Run, spoken: Path) -> None:
    assert found_in(spoken, WORDS)
    done = run("forget", "web:owner:owner", "--yes")
    assert (done.code, done.err) == (0, "")
    assert "2 messages with their answers in 2 conversations were erased" in done.out
    assert found_in(spoken, WORDS) == []
    assert found_in(spoken, "zebra7") == []
    assert json.loads(run("turns", "--json").out)["items"] == []
    assert json.loads(run("memory", "list", "--json").out) == {"notes": []}
    assert "there are no sessions" in run("sessions", "list").out


def test_deleting_a_session_leaves_the_others(run: Run, spoken: Path) -> None:
    done = run("sessions", "delete", "other", "--yes", "--json")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out)["sessions"] == ["main:web:owner:direct:other+owner"]
    assert [each["key"] for each in json.loads(run("sessions", "list", "--json").out)["items"]] == [MAIN]
    assert run("sessions", "show", "main").code == 0
    assert not (spoken / "chat_history").exists()


def test_nothing_is_erased_without_a_yes(run: Run, spoken: Path) -> None:
    for command in (("forget", "web:owner:owner"), ("sessions", "delete", "main")):
        refused = run(*command)
        assert refused.code == 2
        assert "--yes" in refused.err
        looked = json.loads(run(*command, "--dry-run", "--json").out)
        assert looked["dry_run"]
        assert MAIN in looked["sessions"]
    assert found_in(spoken, WORDS)


def test_somebody_else_is_somebody_else(run: Run, spoken: Path) -> None:
    done = run("forget", "telegram:bot:owner", "--yes")
    assert "0 messages" in done.out
    assert found_in(spoken, WORDS)
    assert run("forget", "owner", "--yes").code == 2
    assert run("sessions", "delete", "nobody", "--yes").code == 1
