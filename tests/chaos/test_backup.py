"""A backup taken under load restores to a state in which every message accepted before it gets its outcome.

With `--chaos=full` twenty backups of each store, one after the other, of one gateway that is written to all the time.
"""

import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import apsw
import msgspec
import pytest
from tests.cli.in_process import typed
from tests.cli.terminal import clean_environment

from finclaw.cli.client import GatewayClient, find_gateway
from finclaw.errors import FinclawError
from finclaw.storage.kinds import StoreKind
from finclaw.transcript.conversation_file import read_conversation
from finclaw.web.principal import MessageBody
from finclaw.web.view import AcceptedView

pytestmark = pytest.mark.chaos

WRITERS = 4
CONVERSATIONS = 12
MOST_OPEN = 40
"""Messages that may wait; people who wait for so many answers write no more."""
SETTLES_WITHIN = 120.0
A_TURN_EACH = {"FINCLAW_SESSIONS__QUEUE__MODE": "followup", "FINCLAW_SESSIONS__QUEUE__CAP": "1000"}
"""So that every message has an answer of its own."""


@pytest.fixture
def rounds(pytestconfig: pytest.Config) -> int:
    return {"short": 1, "full": 20, "soak": 60}[str(pytestconfig.getoption("--chaos"))]


@contextmanager
def served(state: Path) -> Generator[GatewayClient]:
    """`finclaw serve`, killed at the end. Its words go to a file: a pipe that nobody reads would hold it up."""
    with (state.parent / f"{state.name}.log").open("ab") as words:
        process = subprocess.Popen(
            [sys.executable, "-m", "finclaw", "serve", "--port", "0", "--state", str(state)],
            stdout=words,
            stderr=words,
            env={**clean_environment(), **A_TURN_EACH},
        )
    try:
        give_up = time.monotonic() + SETTLES_WITHIN
        while (client := find_gateway(state)) is None:
            assert process.poll() is None, "the gateway ended; see the log beside the state"
            assert time.monotonic() < give_up, "the gateway did not start"
            time.sleep(0.05)
        yield client
    finally:
        process.kill()
        process.wait()


class Load:
    """People who write all the time, and what was accepted of it."""

    def __init__(self, client: GatewayClient) -> None:
        self._client = client
        self._stop = threading.Event()
        self.accepted: list[str] = []
        self.failures: list[FinclawError] = []

    @contextmanager
    def running(self) -> Generator[None]:
        threads = [threading.Thread(target=self._write, args=(writer,)) for writer in range(WRITERS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()

    def _write(self, writer: int) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            text = f"How much is 1{number} USD in KRW? {writer}-{number}"
            body = MessageBody(
                message_id=f"{writer}-{number}", text=text, conversation=f"c{(writer * 7 + number) % CONVERSATIONS}"
            )
            try:
                accepted = self._client.call("POST", "/api/v1/messages", AcceptedView, msgspec.json.encode(body))
            except FinclawError as error:
                self.failures.append(error)
                return
            self.accepted.append(accepted.inbound_id)
            while self._open() > MOST_OPEN and not self._stop.is_set():
                time.sleep(0.02)

    def _open(self) -> int:
        counts = self._client.status().counts
        return counts.waiting + counts.running


def settled(state: Path) -> None:
    """Serve the restored state until nothing in it waits for an answer."""
    with served(state) as client:
        give_up = time.monotonic() + SETTLES_WITHIN
        while (counts := client.status().counts).waiting + counts.running:
            assert time.monotonic() < give_up, f"still waiting: {counts}"
            time.sleep(0.05)


def outcomes(state: Path) -> tuple[dict[str, str | None], int]:
    """The outcome of every message, and how many had none when the backup was taken."""
    db = apsw.Connection(str(state / "finclaw.db"))
    try:
        name = str(db.execute("SELECT value FROM meta WHERE key = 'name'").get)
        rows = db.execute("SELECT id, kind FROM inbound").fetchall()
    finally:
        db.close()
    kinds = {f"m-{name}-{row}": None if kind is None else str(kind) for row, kind in rows}
    return kinds, sum(kind is None for kind in kinds.values())


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
def test_every_message_accepted_before_a_backup_has_its_outcome_after_the_restore(
    tmp_path: Path, kind: StoreKind, rounds: int
) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    (state / "finclaw.yaml").write_text(f"storage: {{kind: {kind}}}\n")
    backups: list[tuple[Path, list[str]]] = []
    with served(state) as client:
        load = Load(client)
        with load.running():
            for number in range(rounds):
                wanted = len(load.accepted) + 30
                give_up = time.monotonic() + SETTLES_WITHIN
                while len(load.accepted) < wanted and not load.failures and time.monotonic() < give_up:
                    time.sleep(0.01)
                before = list(load.accepted)
                file = tmp_path / f"{number}.tar"
                done = typed("backup", file, "--state", state)
                assert (done.code, done.err) == (0, "")
                backups.append((file, before))
        assert load.failures == []
    unanswered = checked = 0
    for file, before in backups:
        restored = tmp_path / "restored" / file.stem
        assert typed("restore", file, "--state", restored).code == 0
        unanswered += outcomes(restored)[1]
        settled(restored)
        ended, left = outcomes(restored)
        assert left == 0
        assert [each for each in before if ended.get(each) != "answered"] == []
        checked += len(before)
        assert doubled(restored, tmp_path / "export") == []
    told = f"{checked} messages accepted before them, {unanswered} of these or later ones taken up"
    sys.stdout.write(f"{kind}: {rounds} backups under load, {told}, 0 lost, 0 doubled\n")


def doubled(state: Path, file: Path) -> list[str]:
    """Questions that stand twice in a conversation, or are missing from it: files and database were of two instants."""
    listed = typed("sessions", "list", "--json", "--limit", "100", "--state", state)
    keys = [each["key"] for each in msgspec.json.decode(listed.out)["items"]]
    texts: Counter[str] = Counter()
    for key in keys:
        assert typed("sessions", "export", key, "-o", file, "--force", "--state", state).code == 0
        messages = read_conversation(file.read_bytes())[1]
        texts.update(message.text for message in messages if message.role == "user")
    wrong = [text for text, count in texts.items() if count != 1]
    answered = sum(kind == "answered" for kind in outcomes(state)[0].values())
    return wrong if answered == texts.total() else [*wrong, f"{answered} answered, {texts.total()} in conversations"]
