"""`finclaw memory`: what is remembered of whom, forgetting it, and handing it out."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.cli.terminal import finclaw

from finclaw.builtins.memory.notes import MIGRATIONS, NoteStore
from finclaw.cli.main import main
from finclaw.storage.sqlite.extension import ExtensionDatabase

NOW = datetime(2026, 11, 15, tzinfo=UTC)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    async def fill() -> None:
        database = ExtensionDatabase(tmp_path / "extensions", "memory", MIGRATIONS, threaded=False)
        notes = NoteStore(database)
        await notes.save("web:local:ada", "증권사는 키움", NOW)
        await notes.save("web:local:ada", "I like \x1b[31mbonds", NOW)
        await notes.save("web:local:bob", "No tobacco", NOW)
        await database.close()

    asyncio.run(fill())
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], state: Path, *args: str, code: int = 0) -> str:
    assert main(["memory", *args, "--state", str(state)]) == code
    said = capsys.readouterr()
    return said.out if code == 0 else said.err


def test_list(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head, *lines = told(capsys, state, "list").splitlines()
    assert head.split() == ["USER", "ID", "SAVED", "NOTE"]
    assert [line.split()[:2] for line in lines] == [
        ["web:local:ada", "1"],
        ["web:local:ada", "2"],
        ["web:local:bob", "1"],
    ]
    assert "\x1b" not in "".join(lines)
    assert len(told(capsys, state, "list", "--user", "web:local:bob").splitlines()) == 2
    assert told(capsys, state, "list", "--user", "web:local:eve") == "nothing is remembered of web:local:eve\n"
    view = json.loads(told(capsys, state, "list", "--json"))
    assert view["notes"][0] == {
        "id": 1,
        "user": "web:local:ada",
        "text": "증권사는 키움",
        "saved_at": "2026-11-15T00:00:00Z",
        "sources": [],
    }


def test_forget(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, state, "forget", "2", "--user", "web:local:ada") == "1 note of web:local:ada forgotten\n"
    assert "has no note 2" in told(capsys, state, "forget", "2", "--user", "web:local:ada", code=1)
    assert "say which notes" in told(capsys, state, "forget", "--user", "web:local:ada", code=2)
    assert "say which notes" in told(capsys, state, "forget", "1", "--all", "--user", "web:local:ada", code=2)
    assert "is no note's number" in told(capsys, state, "forget", "١", "--user", "web:local:ada", code=2)
    gone = json.loads(told(capsys, state, "forget", "--all", "--user", "web:local:ada", "--json"))
    assert gone == {"user": "web:local:ada", "forgotten": 1, "missing": []}
    assert [each["user"] for each in json.loads(told(capsys, state, "list", "--json"))["notes"]] == ["web:local:bob"]


def test_export(state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "ada.json"
    said = told(capsys, state, "export", "--user", "web:local:ada", "-o", str(file))
    assert said == f"2 notes written to {file}\n"
    assert [each["id"] for each in json.loads(file.read_text())["notes"]] == [1, 2]
    assert file.stat().st_mode & 0o777 == 0o600
    assert "there already" in told(capsys, state, "export", "-o", str(file), code=2)
    assert len(json.loads(told(capsys, state, "export"))["notes"]) == 3


def test_asking_makes_nothing(tmp_path: Path) -> None:
    said = finclaw("memory", "list", "--state", tmp_path / "new")
    assert (said.code, said.out) == (0, "nothing is remembered\n")
    assert not (tmp_path / "new").exists()


async def test_beside_a_running_gateway_both_see_the_same(state: Path) -> None:
    database = ExtensionDatabase(state / "extensions", "memory", MIGRATIONS)
    notes = NoteStore(database)
    assert len(await notes.search("web:local:bob", "tobacco", 5)) == 1
    forgotten = await asyncio.to_thread(finclaw, "memory", "forget", "1", "--user", "web:local:bob", "--state", state)
    assert forgotten.code == 0
    assert await notes.search("web:local:bob", "tobacco", 5) == ()
    assert (await notes.save("web:local:bob", "No weapons", NOW)).number == 2
    listed = await asyncio.to_thread(finclaw, "memory", "list", "--user", "web:local:bob", "--state", state)
    assert "No weapons" in listed.out
    await database.close()
