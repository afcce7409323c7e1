"""`finclaw sessions` and `finclaw prune`, with a gateway and without one: the same words, the same effects."""

import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.cli.gateway_process import serving
from tests.cli.in_process import typed
from tests.cli.terminal import Ended, clean_environment, finclaw

from finclaw.cli.main import main
from finclaw.storage.locks import StateLock
from finclaw.storage.sqlite.database import DATABASE
from finclaw.transcript.conversation_file import read_conversation, write_conversation

MAIN = "main:web:owner:direct:main+owner"
KOREAN = "main:web:owner:direct:%EC%82%BC%EC%84%B1%20%EC%9D%B4%EC%95%BC%EA%B8%B0+owner"

Run = Callable[..., Ended]


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state with two conversations in it."""
    state = tmp_path_factory.mktemp("spoken")
    assert finclaw("ask", "What is AAPL trading at?", "--state", state).code == 0
    assert finclaw("ask", "삼성전자 현재 주가 알려줘", "--session", "삼성 이야기", "--state", state).code == 0
    return state


@pytest.fixture(params=["here", "gateway"])
def run(request: pytest.FixtureRequest, spoken: Path, tmp_path: Path) -> Generator[Run]:
    """Run a command on a copy of that state, which a gateway serves or not."""
    state = tmp_path / "state"
    shutil.copytree(spoken, state)

    def run(*args: str | Path, stdin: bytes = b"") -> Ended:
        # What a turn needs, its log above all, is set up once per process.
        return (finclaw if args[0] == "ask" else typed)(*args, "--state", state, stdin=stdin)

    with serving(state) if request.param == "gateway" else nullcontext():
        yield run


def told(ended: Ended) -> dict[str, Any]:
    assert (ended.code, ended.err) == (0, "")
    return json.loads(ended.out)


def listed(run: Run) -> dict[str, int]:
    return {each["key"]: each["messages"] for each in told(run("sessions", "list", "--json"))["items"]}


# ── looking ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_sessions_are_listed_with_the_latest_first(run: Run) -> None:
    lines = run("sessions", "list").out.splitlines()
    assert [line.split()[0] for line in lines] == ["SESSION", KOREAN, MAIN]
    assert lines[1].endswith("  삼성 이야기")
    assert lines[2].split()[1:3] == ["4", "1"]
    assert list(listed(run)) == [KOREAN, MAIN]


def test_a_list_goes_on_where_it_ended(run: Run) -> None:
    first = run("sessions", "list", "--limit", "1").out
    assert KOREAN in first
    after = first.split("--after ")[1].strip()
    second = run("sessions", "list", "--limit", "1", "--after", after).out
    assert MAIN in second
    assert "--after" not in second
    assert "no place in the list" in run("sessions", "list", "--after", "x").line()


def test_a_list_may_be_narrowed(run: Run) -> None:
    assert [each["key"] for each in told(run("sessions", "list", "--json", "--containing", "%EC%82"))["items"]] == [
        KOREAN
    ]
    assert run("sessions", "list", "--containing", "'; DROP TABLE session").out == "there are no sessions\n"


def test_a_conversation_is_shown(run: Run) -> None:
    out = run("sessions", "show", "삼성 이야기").out
    assert out.splitlines()[0] == f"{KOREAN}  (4 messages)"
    question, call, result, reply = out.split("\n\n", 1)[1].split("\n\n2", 3)
    assert question.endswith("user (owner)\n  삼성전자 현재 주가 알려줘")
    assert '→ market__quote {"symbol":"삼성전자"}' in call
    assert "← market__quote symbol: 005930\n  name:" in result
    assert "assistant\n  **삼성전자 (005930)**" in reply


def test_a_conversation_is_shown_in_pages_of_the_latest(run: Run) -> None:
    shown = told(run("sessions", "show", "main", "--json"))["items"]
    ids = [each["id"] for each in shown]
    page = told(run("sessions", "show", "main", "--json", "--limit", "1"))
    assert [each["id"] for each in page["items"]] == ids[-1:]
    page = told(run("sessions", "show", "main", "--json", "--limit", "2", "--after", ids[0]))
    assert ([each["id"] for each in page["items"]], page["after"]) == (ids[1:3], ids[2])
    out = run("sessions", "show", "main", "--limit", "2", "--after", ids[0]).out
    assert f"2 of 4 messages; --limit N shows more, --after {ids[2]} the next" in out
    assert "--after names no message" in run("sessions", "show", "main", "--after", "x").line()


def test_a_session_is_known_by_key_by_name_and_by_a_part_that_fits_only_one(run: Run) -> None:
    for name in ("main", MAIN):
        assert told(run("sessions", "show", name, "--json"))["session"] == MAIN
    for name in (KOREAN, "삼성 이야기", "삼성", "%EC%82%BC"):
        assert told(run("sessions", "show", name, "--json"))["session"] == KOREAN


def test_an_unknown_session_is_answered_with_near_ones(run: Run) -> None:
    for action, name, words in (
        ("show", "mian", "did you mean main?"),
        ("export", "mian", "did you mean main?"),
        ("reset", "mian", "did you mean main?"),
        ("repair", "mian", "did you mean main?"),
        ("show", "owner", f"part of several: {KOREAN}, {MAIN}; give the whole key"),
        ("show", "nothing like it", "`finclaw sessions list` shows them all"),
        ("show", "", "`finclaw sessions list` shows them all"),
        ("show", "\x1b[31m", "there is no session"),
    ):
        ended = run("sessions", action, name)
        assert ended.code == 1
        assert words in ended.line()
        assert "\x1b" not in ended.err


def test_what_is_no_text_names_nothing(tmp_path: Path) -> None:
    odd = os.fsdecode(b"\xff")
    for args in (["show", odd], ["list", "--containing", odd], ["list", "--after", odd], ["fork", "a", odd]):
        ended = typed("sessions", *args, "--state", tmp_path)
        assert ended.code == 2
        assert "not UTF-8 text" in ended.line()


def test_a_name_may_be_as_long_as_a_name_can_be(run: Run) -> None:
    for name in ("가" * 200, "%" * 200, "x" * 200):
        assert run("sessions", "fork", "main", name).code == 0
        assert len(told(run("sessions", "show", name, "--json"))["items"]) == 4
    assert "longer than any" in run("sessions", "show", "가" * 2_000).line()
    assert "longer than any" in run("sessions", "list", "--containing", "x" * 10_000).line()


def test_a_part_is_for_looking_and_not_for_forgetting(run: Run) -> None:
    before = listed(run)
    for action in ("reset", "repair"):
        assert f"it is part of {KOREAN}; give the whole key" in run("sessions", action, "삼성").line()
    assert listed(run) == before


# ── carrying ────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_exported_conversation_comes_back_the_same(run: Run, tmp_path: Path) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    assert run("sessions", "export", "main", "-o", first).out == f"{first}: 4 messages of {MAIN}\n"
    assert first.stat().st_mode & 0o777 == 0o600
    assert read_conversation(first.read_bytes())[0] == MAIN
    reset = run("sessions", "reset", "main").out
    assert reset.startswith(f"{MAIN} starts anew; what was asked and answered before stays on record")
    assert "finclaw sessions delete main" in reset
    assert listed(run)[MAIN] == 0
    assert f"{MAIN}: 4 messages imported" in run("sessions", "import", first).out
    assert told(run("sessions", "export", "main", "-o", second, "--json"))["messages"] == 4
    assert second.read_bytes() == first.read_bytes()
    assert run("sessions", "export", "main").out.encode() == first.read_bytes()
    assert run("sessions", "import", "-", "--as", "copy", stdin=first.read_bytes()).code == 0
    assert listed(run)["main:web:owner:direct:copy+owner"] == 4


def test_a_file_is_replaced_only_when_told_to(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text("precious")
    assert "--force" in run("sessions", "export", "main", "-o", file).line()
    assert file.read_text() == "precious"
    assert run("sessions", "export", "main", "-o", file, "--force").code == 0
    assert read_conversation(file.read_bytes())[0] == MAIN
    assert "cannot write" in run("sessions", "export", "main", "-o", tmp_path / "no" / "where").line()
    for place in ("/dev/null", tmp_path):
        assert "no plain file" in run("sessions", "export", "main", "-o", place, "--force").line()
    odd = str(tmp_path / os.fsdecode(b"\xff"))
    assert run("sessions", "export", "main", "-o", odd, "--json").code == 0
    Path(odd).unlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.jsonl", "state"]


def test_a_fork_goes_its_own_way(run: Run) -> None:
    out = run("sessions", "fork", "main", "what if").out
    assert "4 messages copied" in out
    assert "finclaw chat --session 'what if'" in out
    run("ask", "--session", "what if", "What is MSFT trading at?")
    counts = listed(run)
    assert (counts["main:web:owner:direct:what%20if+owner"], counts[MAIN]) == (8, 4)
    assert "has 8 messages already" in run("sessions", "fork", "main", "what if").line()
    assert "has 4 messages already" in run("sessions", "fork", "삼성", "main").line()


def test_what_is_imported_is_checked_before_anything_is_written(run: Run, tmp_path: Path) -> None:
    good = run("sessions", "export", "main").out.encode()
    file = tmp_path / "bad.jsonl"
    for content, words in (
        (good + b"{}\n", "line 6 is no message"),
        (good + good.splitlines()[1] + b"\n", "line 6: id"),
        (b"hello", "line 1 is no header"),
        (good.replace(MAIN.encode(), b"odd"), "choose one with --as NAME"),
        (good, "has 4 messages already"),
    ):
        file.write_bytes(content)
        ended = run("sessions", "import", file)
        assert ended.code == 1
        assert words in ended.line()
    assert listed(run) == {KOREAN: 4, MAIN: 4}
    assert "a name of 1 to 200" in run("sessions", "import", file, "--as", "a\nb").line()


def test_a_reset_conversation_is_not_remembered(run: Run) -> None:
    run("ask", "What is MSFT trading at?")
    assert told(run("sessions", "reset", MAIN, "--json")) == {"session": MAIN, "messages": 0}
    run("ask", "What is AAPL trading at?")
    assert listed(run)[MAIN] == 4


def test_broken_conversations_are_found_and_mended(run: Run, tmp_path: Path) -> None:
    session, messages = read_conversation(run("sessions", "export", "main").out.encode())
    broken = [each for each in messages if each.role != "tool"]
    file = tmp_path / "broken.jsonl"
    file.write_bytes(write_conversation(session, broken))
    run("sessions", "import", file, "--as", "broken")
    key = "main:web:owner:direct:broken+owner"
    for _ in range(2):
        dry = run("sessions", "repair", "--dry-run").out
        assert dry.splitlines()[0] == key
        assert "missing-tool-result" in dry
        assert dry.endswith("3 checked, 1 would be repaired\n")
    assert told(run("sessions", "repair", "broken", "--json"))["broken"][0]["session"] == key
    assert run("sessions", "repair").out == "3 checked, all whole\n"
    assert listed(run)[key] == 4


# ── removing ────────────────────────────────────────────────────────────────────────────────────────────────


def age(state: Path, days: int) -> None:
    """Everything in the state happened so many days earlier."""
    db = apsw.Connection(str(state / DATABASE))
    micros = days * 86_400 * 1_000_000
    db.execute(f"UPDATE inbound SET accepted_at = accepted_at - {micros}, ended_at = ended_at - {micros}")
    db.execute(f"UPDATE session SET updated_at = updated_at - {micros}")
    db.close()


@pytest.fixture
def old(spoken: Path, tmp_path: Path) -> Path:
    state = tmp_path / "state"
    shutil.copytree(spoken, state)
    age(state, 400)
    return state


@pytest.mark.parametrize("where", ["here", "gateway"])
def test_what_is_old_is_removed(old: Path, where: str) -> None:
    with serving(old) if where == "gateway" else nullcontext():
        finclaw("ask", "What is MSFT trading at?", "--session", "new", "--state", old)
        assert "--yes" in typed("prune", "--state", old).line()
        assert "--yes" in typed("prune", "--json", "--state", old).line()
        dry = told(typed("prune", "--dry-run", "--json", "--state", old))
        assert dry == {"messages": 2, "sessions": 2, "older_than_days": 365, "dry_run": True}
        assert typed("prune", "--older-than", "2y", "--yes", "--state", old).out == "nothing is older than 730 days\n"
        clamped = typed("prune", "--older-than", "1d", "--dry-run", "--state", old)
        assert "the last 30 days are always kept" in clamped.line()
        done = typed("prune", "--yes", "--state", old)
        assert done.out == "2 messages with their answers and 2 sessions were removed\n"
        left = told(typed("sessions", "list", "--json", "--state", old))["items"]
        assert [each["key"] for each in left] == ["main:web:owner:direct:new+owner"]


def test_how_long_is_kept_is_a_setting(old: Path) -> None:
    (old / "finclaw.yaml").write_text("storage:\n  retention_days: 500\n")
    assert typed("prune", "--yes", "--state", old).out == "nothing is older than 500 days\n"
    (old / "finclaw.yaml").write_text("storage:\n  retention_days: 29\n")
    assert "storage.retention_days must be a whole number from 30" in typed("prune", "--yes", "--state", old).line()


@pytest.mark.parametrize(("answer", "code", "left"), [("y", 0, 1), ("n", 1, 2), ("", 1, 2), ("\x04", 1, 2)])
def test_at_a_terminal_it_asks(old: Path, answer: str, code: int, left: int) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "finclaw", "prune", "--state", str(old)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=clean_environment(),
    )
    os.close(theirs)
    seen, give_up = "", time.monotonic() + 60
    while "[y/N]" not in seen:
        assert time.monotonic() < give_up, seen
        if select.select([ours], [], [], 1)[0]:
            seen += os.read(ours, 65_536).decode()
    os.write(ours, answer.encode() + (b"" if answer == "\x04" else b"\n"))
    assert process.wait(60) == code
    os.close(ours)
    assert "not used for 365 days will be removed for good" in seen
    assert len(told(typed("sessions", "list", "--json", "--state", old))["items"]) == left


def test_an_export_to_a_terminal_has_nothing_that_a_terminal_obeys(tmp_path: Path) -> None:
    """Near miss of the security trial: C1 controls and direction marks came through."""
    said = "\x9b2J\u202eevil\u2066\x85"
    finclaw("ask", said, "--state", tmp_path)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "finclaw", "sessions", "export", "main", "--state", str(tmp_path)]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=clean_environment())
    os.close(theirs)
    seen = b""
    while select.select([ours], [], [], 60)[0]:
        try:
            seen += os.read(ours, 65_536)
        except OSError:  # the other end is closed
            break
    assert process.wait(60) == 0
    os.close(ours)
    text = seen.decode()
    assert "evil" in text
    assert not any(mark in text for mark in "\x9b\u202e\u2066\x85")
    assert "\\u202eevil" in text
    piped = finclaw("sessions", "export", "main", "--state", tmp_path).out
    assert said in piped, "a file has what was written"


# ── nothing, and in the way ─────────────────────────────────────────────────────────────────────────────────


def test_a_state_that_is_not_there_stays_so(tmp_path: Path) -> None:
    state = tmp_path / "state"
    assert typed("sessions", "list", "--state", state).out == "there are no sessions\n"
    assert typed("sessions", "repair", "--state", state).out == "0 checked, all whole\n"
    assert typed("prune", "--yes", "--state", state).out == "nothing is older than 365 days\n"
    for action in ("show", "export", "reset", "repair"):
        assert "there is no session 'main'" in typed("sessions", action, "main", "--state", state).line()
    assert not state.exists()


def test_a_conversation_begins_a_state(tmp_path: Path) -> None:
    content = write_conversation(MAIN, [])
    assert typed("sessions", "import", "-", "--state", tmp_path / "state", stdin=content).code == 0
    assert listed(lambda *args: typed(*args, "--state", tmp_path / "state")) == {MAIN: 0}


def test_whoever_holds_the_state_is_waited_for_and_then_named(
    spoken: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("finclaw.cli.attach.PATIENCE", 0.3)
    with StateLock(spoken):
        assert main(["sessions", "list", "--state", str(spoken)]) == 1
    assert f"process {os.getpid()}" in capsys.readouterr().err
    assert main(["sessions", "list", "--state", str(spoken)]) == 0


def test_looking_answers_nobodys_message(spoken: Path, tmp_path: Path) -> None:
    """A message that a dead gateway left is still waiting after every command that only looks."""
    state = tmp_path / "state"
    shutil.copytree(spoken, state)
    db = apsw.Connection(str(state / DATABASE))
    db.execute("UPDATE inbound SET kind = NULL, state = 'received', ended_at = NULL WHERE id = 2")
    db.execute("DELETE FROM outcome WHERE id = 2")
    db.close()
    for args in (["sessions", "list"], ["sessions", "show", "main"], ["sessions", "repair"], ["prune", "--yes"]):
        assert typed(*args, "--state", state).code == 0
    counts = told(typed("status", "--json", "--state", state))["counts"]
    assert counts["waiting"] == 1


def test_a_reply_cannot_paint_the_terminal(tmp_path: Path) -> None:
    evil = "\x1b]0;owned\x07\x1b[2Jtext\u202e"
    message: dict[str, Any] = {
        "id": "1\x1b[2J",
        "role": "assistant",
        "blocks": [
            {"type": "text", "text": evil},
            {"type": "tool_call", "id": "c", "name": f"tool{evil}", "args": {}, "bad_args": evil},
            {"type": "tool_result", "call_id": "c", "name": evil, "content": evil + "x" * 5_000},
        ],
        "source": {"kind": "extension", "id": evil},
        "created_at": "2026-01-02T03:04:05Z",
    }
    content = write_conversation(MAIN, []) + json.dumps(message).encode() + b"\n"
    assert typed("sessions", "import", "-", "--state", tmp_path, stdin=content).code == 0
    out = typed("sessions", "show", "main", "--state", tmp_path).out
    assert "text" in out
    assert "characters more" in out
    assert not {"\x1b", "\x07", "\u202e"} & set(out)
    found = typed("sessions", "repair", "--state", tmp_path)
    assert found.code == 0
    assert "\x1b" not in found.out


def test_what_leaves_is_the_whole_conversation(spoken: Path) -> None:
    _, messages = read_conversation(typed("sessions", "export", "main", "--state", spoken).out.encode())
    assert [call.args for message in messages for call in message.tool_calls] == [{"symbol": "AAPL"}]
    assert any(result.facts for message in messages for result in message.tool_results)


def test_the_guides_commands_run_as_they_are_written(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "guides" / "sessions.md").read_text()
    (commands,) = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    script = f'set -e\nfinclaw() {{ "{sys.executable}" -m finclaw "$@"; }}\n{commands}'
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=clean_environment() | {"FINCLAW_HOME": str(tmp_path / "state")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    *_, checked, pruned, deleted, forgotten = done.stdout.splitlines()
    assert (checked, pruned) == ("2 checked, all whole", "nothing is older than 365 days")
    assert deleted == "1 message with their answers in 1 conversation would be erased"
    assert forgotten == "2 messages with their answers in 2 conversations would be erased"


def test_conversations_kept_in_files_are_reached_the_same_way(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / "finclaw.yaml").write_text("storage: {kind: jsonl}\n")
    assert finclaw("ask", "What is AAPL trading at?", "--state", state).code == 0

    def run(*args: str, stdin: bytes = b"") -> Ended:
        return typed("sessions", *args, "--state", state, stdin=stdin)

    first = run("export", "main").out.encode()
    assert run("fork", "main", "copy").code == 0
    assert run("reset", "main").code == 0
    assert run("import", "-", stdin=first).code == 0
    assert run("export", "main").out.encode() == first
    assert "AAPL" in run("show", "copy").out
    assert run("repair").out == "2 checked, all whole\n"
    assert {each["messages"] for each in told(run("list", "--json"))["items"]} == {4}
