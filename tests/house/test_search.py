"""A maintainer who searches for the usual word finds the right file among the first three hits."""

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "finclaw"
HITS = 3


class Question(NamedTuple):
    asked: str
    term: str
    """What one types into the search box."""
    answer: str
    """The file that one hopes for."""


QUESTIONS = (
    Question("Where are connections to a provider pooled?", "connection pool", "src/finclaw/providers/http/pool.py"),
    Question("What closes a connection that is silent?", "idle timeout", "src/finclaw/providers/http/response.py"),
    Question("Who parses the server-sent events of a model?", "sse", "src/finclaw/providers/http/sse.py"),
    Question("What retries a model call?", "retry", "src/finclaw/agent/model/retry.py"),
    Question("How long is a failing provider left alone?", "cooldown", "src/finclaw/agent/model/cooldown.py"),
    Question("Where is the context window measured?", "context window", "src/finclaw/agent/window/context_window.py"),
    Question("Where are tokens counted?", "count tokens", "src/finclaw/agent/window/tokens/count.py"),
    Question("Where is a long conversation summarized?", "summary", "src/finclaw/agent/window/compaction/summary.py"),
    Question("Where is the system prompt built?", "system prompt", "src/finclaw/agent/prompt/build.py"),
    Question("Where is a budget checked?", "budget", "src/finclaw/agent/budget/budget.py"),
    Question("Where is the cost of a call reserved?", "reservation", "src/finclaw/storage/sqlite/reservations.py"),
    Question("Who knows what strangers' text a turn has read?", "taint", "src/finclaw/agent/window/taint.py"),
    Question("What stops a model that repeats a call?", "loop", "src/finclaw/tools/loop_guard.py"),
    Question("Where is a secret redacted?", "redact", "src/finclaw/tools/guard/redact.py"),
    Question("What validates the arguments of a tool?", "jsonschema", "src/finclaw/tools/arguments.py"),
    Question("What kills the processes that a tool left?", "orphan", "src/finclaw/tools/process/process_tree.py"),
    Question("Where is the circuit breaker?", "circuit breaker", "src/finclaw/tools/breaker.py"),
    Question("Who decides about an approval?", "approvals", "src/finclaw/tools/approval/approvals.py"),
    Question("Who decides the next message of a session?", "session queue", "src/finclaw/sessions/lane.py"),
    Question("How is the key of a session made?", "session key", "src/finclaw/routing/session_key.py"),
    Question("What resumes messages after a crash?", "recovery", "src/finclaw/pipeline/crash_recovery/recovery.py"),
    Question("Where is a duplicate message recognised?", "duplicate", "src/finclaw/storage/sqlite/inbox.py"),
    Question("Where are the tables?", "create table", "src/finclaw/storage/sqlite/schema.py"),
    Question("Where are commits grouped?", "group commit", "src/finclaw/storage/sqlite/writer.py"),
    Question("What keeps two gateways off one state?", "state lock", "src/finclaw/storage/state_lock.py"),
    Question("Where are answers sent?", "outbox", "src/finclaw/delivery/outbox.py"),
    Question("Where is a long answer split?", "split", "src/finclaw/delivery/split.py"),
    Question("Which environment variables are settings?", "environ", "src/finclaw/config/load.py"),
    Question("Where is the token of a request checked?", "bearer", "src/finclaw/web/auth.py"),
    Question("How are extensions found?", "entry point", "src/finclaw/extensions/loading.py"),
)


@cache
def read_source() -> dict[str, str]:
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("*.py"))}


def search(term: str) -> list[str]:
    """Files that hold the term, by whether their name has it, and then by how many lines do."""
    words = re.compile(r"[\s_-]?".join(map(re.escape, term.split())), re.IGNORECASE)
    named = re.compile(rf"(?:^|_){'_?'.join(map(re.escape, term.split()))}(?:s|ed|ion)?(?:_|$)", re.IGNORECASE)
    found: list[tuple[bool, int, str]] = []
    for path, text in read_source().items():
        lines = sum(words.search(line) is not None for line in text.splitlines()) if words.search(text) else 0
        has_name = named.search(Path(path).stem) is not None
        if lines or has_name:
            found.append((not has_name, -lines, path))
    return [path for *_, path in sorted(found)]


def test_there_are_thirty_questions() -> None:
    assert len({question.term for question in QUESTIONS}) == 30


@pytest.mark.parametrize("question", QUESTIONS, ids=[question.term for question in QUESTIONS])
def test_search_finds_the_file(question: Question) -> None:
    assert (ROOT / question.answer).is_file(), f"{question.answer} is not there: say where that moved"
    hits = search(question.term)
    assert question.answer in hits[:HITS], (
        f"{question.asked} `{question.term}` finds {hits[:HITS]}: use the usual word in {question.answer}"
    )
