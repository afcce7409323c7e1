"""A long conversation whose older messages are packed is, to everybody, the conversation that it was."""

from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.ports.nouns import said

from finclaw.kernel.message import Append, Message, Patch, Remove, Replace, Text, ToolCall, Truncate, TurnEvent
from finclaw.storage.sqlite import pages, sessions, transcript
from finclaw.storage.sqlite.database import DATABASE, open_database
from finclaw.storage.sqlite.schema import MIGRATIONS
from finclaw.transcript.history import PagedHistory

TEXTS = st.sampled_from(["words", "", " \n", 'a "b" \\ \n c', "반", "\u2028", "\x00", "a\nuser\n"])
TARGETS = st.integers(0, 40)
STEPS = st.one_of(
    st.tuples(st.just("append"), st.lists(st.tuples(TEXTS, st.booleans()), min_size=1, max_size=9)),
    st.tuples(st.just("replace"), TARGETS),
    st.tuples(st.just("remove"), TARGETS),
    st.tuples(st.just("patch"), TARGETS),
    st.tuples(st.just("truncate"), TARGETS),
)


class Spoken:
    """The conversation as it should be, by number."""

    def __init__(self) -> None:
        self.messages: dict[int, Message] = {}
        self.made = 0

    def named(self, target: int) -> tuple[int, Message] | None:
        place = list(self.messages.items())
        return place[target % len(place)] if place else None

    def fresh(self, text: str, *, calls: bool) -> Message:
        self.made += 1
        message = said(f"m{self.made}", text, role="assistant" if self.made % 3 else "user")
        call = ToolCall(f"c{self.made}", "look", {"a": 1})
        return replace(message, blocks=(*message.blocks, call)) if calls else message


@contextmanager
def small_pages(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    with monkeypatch.context() as patch:
        for name, value in (("LATEST", 3), ("FIRST", 2), ("LENGTH", 4), ("_NOW_AND_THEN", 2)):
            patch.setattr(pages, name, value)
        yield


Step = tuple[str, int] | tuple[str, list[tuple[str, bool]]]


def events_of(step: Step, spoken: Spoken) -> list[TurnEvent]:
    match step:
        case "append", list(texts):
            return [Append(spoken.fresh(text, calls=calls)) for text, calls in texts]
        case "truncate", int(keep):
            return [Truncate(keep)]
        case kind, int(target) if found := spoken.named(target):
            name = found[1].id
            if kind == "replace":
                return [Replace(name, spoken.fresh("another", calls=target % 2 == 0))]
            return [Remove(name)] if kind == "remove" else [Patch(name, {"seen": target})]
        case _:
            return [Patch("nobody", {"seen": 1})]


def apply(spoken: Spoken, first: int, events: list[TurnEvent]) -> None:
    for event in events:
        match event:
            case Append(message):
                spoken.messages[first] = message
                first += 1
            case Replace(target, message):
                spoken.messages = {n: message if old.id == target else old for n, old in spoken.messages.items()}
            case Remove(target):
                spoken.messages = {n: old for n, old in spoken.messages.items() if old.id != target}
            case Patch(target, metadata):
                spoken.messages = {
                    n: replace(old, metadata={**old.metadata, **metadata}) if old.id == target else old
                    for n, old in spoken.messages.items()
                }
            case Truncate(keep):
                spoken.messages = dict(list(spoken.messages.items())[-keep:] if keep else [])
            case _:
                raise AssertionError(event)


@pytest.mark.spec("CS-01", "DX-60")
@given(st.lists(st.tuples(st.integers(1, 2), STEPS), max_size=24), st.integers(0, 60), st.integers(0, 60))
def test_any_turns_leave_what_they_say(steps: list[tuple[int, Step]], first: int, last: int) -> None:
    with small_pages(pytest.MonkeyPatch()), closing(apsw.Connection(":memory:")) as db:
        for migration in MIGRATIONS:
            db.execute(migration)
        db.execute("INSERT INTO session (id, key, created_at) VALUES (1, 'a', 0), (2, 'b', 0)")
        both = {1: Spoken(), 2: Spoken()}
        for turn, (session, step) in enumerate(steps, start=1):
            spoken = both[session]
            events = events_of(step, spoken)
            folded = transcript.ROWS.fold(db, session, turn, events)
            taken = {number for each in both.values() for number in each.messages}
            assert folded.first_message > max(taken, default=0), "no number means two messages"
            apply(spoken, folded.first_message, events)
            whole = tuple(spoken.messages.values())
            assert transcript.messages(db, session) == whole
            assert transcript.ROWS.messages(db, session) == whole
            assert db.execute("SELECT messages FROM session WHERE id = ?", (session,)).get == len(whole)
            part = tuple(each for number, each in spoken.messages.items() if first <= number <= last)
            assert transcript.messages(db, session, first, last) == part
            assert folded.last_message == max(spoken.messages, default=0) or not whole
        transcript.ROWS.clear(db, 1)
        assert transcript.messages(db, 1) == ()
        assert transcript.messages(db, 2) == tuple(both[2].messages.values())
        assert db.execute("SELECT messages FROM session WHERE id = 1").get == 0


@pytest.fixture
def db(tmp_path: Path) -> Iterator[apsw.Connection]:
    with closing(open_database(tmp_path / DATABASE)) as opened:
        opened.execute("BEGIN")  # as a store does; else every row is a commit
        opened.execute("INSERT INTO session (id, key, created_at) VALUES (1, 'a', 0)")
        yield opened


def rows(db: apsw.Connection) -> tuple[int, int]:
    """Of messages with a row of their own, and of pages."""
    return db.execute("SELECT (SELECT count(*) FROM message), (SELECT count(*) FROM page)").fetchall()[0]


def test_a_long_conversation_is_a_few_rows(db: apsw.Connection) -> None:
    for number in range(0, 2_000, 2):
        transcript.ROWS.fold(db, 1, number, [Append(said(f"m{number}")), Append(said(f"m{number + 1}"))])
    unpacked, packed = rows(db)
    assert 128 <= unpacked < 128 + 256 + 64
    assert packed <= 8
    history = transcript.ROWS.messages(db, 1)
    assert isinstance(history, PagedHistory)
    assert (len(history), history.open_count) == (2_000, 128)


def test_one_that_was_filled_at_once_is_bound_at_once(db: apsw.Connection) -> None:
    transcript.add(db, 1, [said(f"m{number}", "말") for number in range(5_000)])
    assert rows(db) == (5_000 - 16 - 18 * 256, 19)
    assert [each.id for each in transcript.messages(db, 1)] == [f"m{number}" for number in range(5_000)]


def test_an_old_message_that_changes_has_a_row_of_its_own_again(db: apsw.Connection) -> None:
    transcript.add(db, 1, [said(f"m{number}") for number in range(500)])
    transcript.ROWS.fold(db, 1, 1, [Replace("m3", said("n3", "other words"))])
    changed = transcript.messages(db, 1)
    assert [changed[3].id, changed[3].blocks, len(changed)] == ["n3", (Text("other words"),), 500]
    transcript.ROWS.fold(db, 1, 2, [Append(said(f"x{number}")) for number in range(64)])
    assert rows(db)[1], "it is packed again when there is more of it"
    assert [each.id for each in transcript.messages(db, 1)][:5] == ["m0", "m1", "m2", "n3", "m4"]


def test_a_beginning_that_goes_leaves_the_other_pages_closed(db: apsw.Connection) -> None:
    transcript.add(db, 1, [said(f"m{number}") for number in range(1_500)])
    before = rows(db)
    transcript.ROWS.fold(db, 1, 1, [Truncate(1_500 - 16 - 256)])
    assert rows(db) == (before[0], before[1] - 2)
    assert transcript.messages(db, 1)[0].id == "m272"


def test_a_conversation_is_mended_wherever_it_is_broken(db: apsw.Connection) -> None:
    whole = [said(f"m{number}", role="assistant" if number % 2 else "user") for number in range(600)]
    broken = replace(whole[5], blocks=(ToolCall("c", "look", {}),))
    transcript.add(db, 1, [*whole[:5], broken, *whole[6:]])
    assert rows(db)[1]
    assert sessions.repair(db, "a", dry_run=True)
    assert transcript.messages(db, 1)[5] == broken
    assert sessions.repair(db, "a", dry_run=False)
    assert not sessions.repair(db, "a", dry_run=False)
    mended = transcript.messages(db, 1)
    assert [each.id for each in mended if each.id in {"m4", "m5", "m6", "m599"}][-1] == "m599"
    assert db.execute("SELECT messages FROM session").get == len(mended)


def test_what_is_bound_keeps_its_numbers_when_all_that_is_loose_goes(db: apsw.Connection) -> None:
    transcript.add(db, 1, [said(f"m{number}") for number in range(500)])
    unpacked, _ = rows(db)
    transcript.ROWS.fold(db, 1, 1, [Remove(f"m{number}") for number in range(500 - unpacked, 500)])
    assert (rows(db)[0], len(transcript.messages(db, 1))) == (0, 500 - unpacked)
    folded = transcript.ROWS.fold(db, 1, 2, [Append(said("new"))])
    assert [each.id for each in transcript.messages(db, 1)[-2:]] == [f"m{499 - unpacked}", "new"]
    assert transcript.messages(db, 1, folded.first_message, folded.last_message) == (said("new"),)
