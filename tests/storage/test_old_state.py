"""A state directory of the version before today's names opens, prints the same, and goes on.

`tests/fixtures/make_old_state.py` has made the directories, and says what is in them. Time is the fixture's own: what
expires or is pruned by age does neither, whatever the date of the run.
"""

import gzip
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Final

import apsw
import pytest
from tests.chaos.audit import Books, read_books, select_sessions
from tests.chaos.harness import PATIENT, Run
from tests.fixtures import make_old_state
from tests.fixtures.make_old_state import KINDS, LOOKED_AT, Life, come_to_rest

import finclaw
from finclaw.cli.main import main
from finclaw.clock import SystemClock
from finclaw.delivery.format import RESENT_MARK
from finclaw.diagnostics.event_stream import EventStream
from finclaw.storage.kinds import StoreKind, open_kind
from finclaw.storage.sqlite.codec import read_event, read_inbound, read_outcome, write, write_inbound, write_outcome
from finclaw.storage.sqlite.database import DATABASE
from finclaw.testing import FakeClock

FIXTURES: Final = Path(make_old_state.__file__).parent / "old_state"
OLD: Final = "main:memory:local:direct:"
"""How the key of every session in the fixture begins."""
BY_USER: Final = "costs --days 60 --by user --json"

pytestmark = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def state(kind: StoreKind, tmp_path: Path) -> Path:
    """The old state directory, as the killed process left it."""
    place = tmp_path / "state"
    place.mkdir(mode=0o700)
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress((FIXTURES / f"{kind}.tar.gz").read_bytes()))) as packed:
        packed.extractall(place, filter="data")
    return place


@pytest.fixture
def printed(kind: StoreKind) -> Mapping[str, str]:
    """What the old version printed, by command."""
    return json.loads(gzip.decompress((FIXTURES / f"{kind}.json.gz").read_bytes()))


@pytest.fixture(autouse=True)
def old_time(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Commands see the fixture's time, and its zone."""
    monkeypatch.setattr(SystemClock, "now", staticmethod(lambda: LOOKED_AT))
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def run_command(state: Path, capsys: pytest.CaptureFixture[str], command: str) -> str:
    capsys.readouterr()
    assert main([*command.split(" "), "--state", str(state)]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def export(state: Path, capsys: pytest.CaptureFixture[str], who: str) -> str:
    return run_command(state, capsys, f"sessions export {OLD}{who}")


def read_bodies(state: Path, query: str) -> list[str]:
    db = apsw.Connection(str(state / DATABASE))
    try:
        return [str(body) for (body,) in db.execute(query)]
    finally:
        db.close()


def replies_to(life: Life, conversation: str) -> list[str]:
    return [sent.text for sent in life.channel.sent if sent.unit.conversation == conversation]


# ── what is there ───────────────────────────────────────────────────────────────────────────────────────────


def test_every_command_prints_the_same(
    state: Path, printed: Mapping[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(printed) > 15
    expected = {**printed, BY_USER: printed[BY_USER].replace('"memory:', '"memory:local:')}  # persons now: by identity
    assert {command: without_new_fields(run_command(state, capsys, command)) for command in printed} == expected


def test_notes_and_spend_belong_to_the_same_person(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two identities become one person in the settings: what both had noted and spent is theirs."""
    settings = state / "finclaw.yaml"
    linked = '  - {name: Ada, known_as: ["memory:local:ada", "memory:local:지우", "slack:t1:U1"]}\n'
    settings.write_text(settings.read_text("utf-8").replace("people:\n", f"people:\n{linked}"), "utf-8")
    notes = json.loads(run_command(state, capsys, "memory export"))["notes"]
    spent = {each["name"]: each for each in json.loads(run_command(state, capsys, BY_USER))["items"]}
    assert {each["user"] for each in notes} == {"memory:local:ada", "memory:local:지우"} <= spent.keys()

    listed: list[str] = []

    async def ask(life: Life, app: finclaw.App) -> None:
        await life.ask(app, "지우", "/memory")
        listed.extend(replies_to(life, "지우"))

    Life(state, LOOKED_AT).run(ask)
    assert all(each["text"] in listed[-1] for each in notes)
    both = json.loads(run_command(state, capsys, "memory export"))["notes"]
    assert {each["user"] for each in both} == {"memory:local:ada"}
    assert {each["text"] for each in both} == {each["text"] for each in notes}
    now = {each["name"]: each for each in json.loads(run_command(state, capsys, BY_USER))["items"]}
    assert now["memory:local:ada"]["calls"] == sum(spent[f"memory:local:{who}"]["calls"] for who in ("ada", "지우"))
    assert "memory:local:지우" not in now
    shown = json.loads(run_command(state, capsys, "people show Ada --json"))["person"]
    assert shown["id"] == "memory:local:ada"
    assert set(shown["identities"]) == {"memory:local:ada", "memory:local:지우", "slack:t1:U1"}


def test_every_row_is_written_as_it_was_read(state: Path) -> None:
    """Renamed fields keep their names in the rows, two of them in SQL."""
    inbound = read_bodies(state, "SELECT body FROM inbound")
    assert [write_inbound(read_inbound(body)) for body in inbound] == inbound
    for field in ("again_for", "said_by", "wishes", "limits"):
        assert any(f'"{field}":' in body for body in inbound), f"no message of the fixture has {field}"
    outcomes = read_bodies(state, "SELECT body FROM outcome")
    assert [without_new_fields(write_outcome(read_outcome(body))) for body in outcomes] == outcomes
    events = read_bodies(state, "SELECT body FROM event")
    assert [without_new_fields(write(read_event(body))) for body in events] == events


def without_new_fields(body: str) -> str:
    """Facts say by now where and when they were traded and what they were calculated from, senders their language,
    costs how many calls were overstated."""
    body = body.replace(',"venue":"","phase":""', "").replace(',"overstated":0', "")
    return body.replace(',"inputs":[]', "").replace(',"is_self":false,"language":""', ',"is_self":false')


async def test_facts_that_a_session_was_told_before_are_in_the_table(kind: StoreKind, state: Path) -> None:
    store = open_kind(kind, state, FakeClock(LOOKED_AT), EventStream().emit, threaded=False)
    told = await store.facts(f"{OLD}ada")
    found = [each.fact for each in told if each.fact.field == "price" and each.fact.subject == "AAPL"]
    assert found
    for each in told:
        trace = await store.turn(each.turn_id)
        assert trace is not None
        assert trace.outcome is not None
        assert each.fact in trace.outcome.facts
    assert [each.fact.value for each in await store.facts(f"{OLD}bo") if each.fact.source == "calculator"] == [144]
    await store.close()


# ── what goes on ────────────────────────────────────────────────────────────────────────────────────────────


def test_the_interrupted_turn_is_finished_once(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    life = Life(state, LOOKED_AT)
    life.run(come_to_rest)
    first, second = replies_to(life, "hu")
    assert first.startswith("**Apple (AAPL)** ")
    assert second.startswith("**Microsoft (MSFT)** ")
    lines = [json.loads(line) for line in export(state, capsys, "hu").splitlines()[1:]]
    blocks = [block for line in lines for block in line["blocks"]]
    assert [block["text"] for line in lines if line["role"] == "user" for block in line["blocks"]] == [
        "What is AAPL trading at?",
        "And MSFT?",
    ]
    calls = Counter(block["id"] for block in blocks if block["type"] == "tool_call")
    results = Counter(block["call_id"] for block in blocks if block["type"] == "tool_result")
    assert calls == results
    assert sorted(calls.values()) == [1, 1]
    again = Life(state, LOOKED_AT)
    again.run(come_to_rest)
    assert again.channel.sent == []


def test_the_unit_in_doubt_is_sent_again_and_marked(state: Path) -> None:
    life = Life(state, LOOKED_AT)
    life.run(come_to_rest)
    (text,) = replies_to(life, "gil")
    assert text.startswith(f"{RESENT_MARK}Hello")


def test_a_conversation_is_continued(
    state: Path, printed: Mapping[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A follow-up needs the history; what was said before is exported as it was."""

    async def ask(life: Life, app: finclaw.App) -> None:
        await life.ask(app, "di", "And in won?")
        await life.ask(app, "cy", "What is AAPL trading at?")

    life = Life(state, LOOKED_AT)
    life.run(ask)
    (converted,) = replies_to(life, "di")
    assert converted.startswith("**Amazon (AMZN)** ")
    assert "₩" in converted
    assert replies_to(life, "cy")[-1].startswith("**Apple (AAPL)** ")
    for who in ("di", "cy"):
        before, after = printed[f"sessions export {OLD}{who}"], export(state, capsys, who)
        assert without_new_fields(after).startswith(before)
        assert len(after.splitlines()) == len(before.splitlines()) + 4


def test_the_pending_order_is_approved_and_runs_once(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def approve(life: Life, app: finclaw.App) -> None:
        (waiting,) = await app.approvals()
        await life.ask(app, "ed", f"/approve {waiting.id}")
        assert await app.approvals() == []
        assert [grant.tool for grant in await app.grants()] == ["diary__write"]

    Life(state, LOOKED_AT).run(approve)
    assert export(state, capsys, "ed").count("bought 10 AAPL") == 1


# ── chaos on top of it ──────────────────────────────────────────────────────────────────────────────────────


def old_rows(books: Books) -> tuple[object, ...]:
    old = select_sessions(books, OLD)
    return old.entries, old.rows, old.turn_sessions, old.transcripts


def live(state: Path, name: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """A life of the fixture's script, with today's code."""
    command = [sys.executable, make_old_state.__file__, "--life", name, str(state)]
    return subprocess.run(
        command, env={**os.environ, **environ}, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.chaos
def test_recovery_is_killed_and_goes_on(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for point in ("results:after_commit:1", "finish:before_commit:2"):
        died = live(state, "recovery", FINCLAW_CRASH=point)
        assert died.returncode == -signal.SIGKILL, died.stderr
    life = Life(state, LOOKED_AT)
    life.run(come_to_rest)
    lines = [json.loads(line) for line in export(state, capsys, "hu").splitlines()[1:]]
    assert [line["role"] for line in lines] == ["user", "assistant", "tool", "assistant"] * 2
    books = select_sessions(read_books(state / DATABASE), f"{OLD}hu")
    assert [entry.row.outcome for entry in books.entries] == ["answered", "answered"]
    assert {unit.state for unit in books.rows.units} == {"sent"}
    assert len(books.rows.units) == 2


@pytest.mark.chaos
async def test_killed_lives_lose_and_double_nothing(kind: StoreKind, state: Path, tmp_path: Path) -> None:
    """The old conversations come to rest first; then others talk, and the gateway is killed while they do."""
    assert live(state, "settled").returncode == 0
    before = read_books(state / DATABASE)
    async with Run(tmp_path, storage=kind, max_attempts=PATIENT, sessions="main:loopback:") as run:
        assert run.state == state
        async with run.load(15):
            await run.die_at("tools:started:2")
            await run.die_later_at("finish:after_commit:3")
        found = await run.drain()
    assert found.clean, str(found)
    assert found.answered == found.messages > 0
    assert old_rows(read_books(state / DATABASE)) == old_rows(before)
