"""The notes in their database: found by their words, never by anybody else, and gone when they are forgotten."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builtins.memory.corpus import ABOUT_NOTHING, NOTES, QUESTIONS
from tests.machine import examples
from tests.support.disk import Disk

from finclaw.builtins.memory.notes import MIGRATIONS, MOST_NOTES, NoteStore, TooManyNotes
from finclaw.builtins.ranking import query_words
from finclaw.errors import StoreFailed
from finclaw.storage.sqlite.extension import ExtensionDatabase

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
HOSTILE = [
    '"',
    '""" OR 1',
    "NEAR(a b, 3)",
    "삼성* OR words:*",
    "^삼성",
    "words : 삼성",
    "- NOT AND OR",
    "삼성) OR (1=1",
    "1x삼성",
    "2x비밀 OR 비밀",
    "'; DROP TABLE notes; --",
    "\x00 삼성 \x00",
    "{words} : x + y",
    "삼" * 100_000,
    "\u202e삼성\u200b",
]


@pytest.fixture
def database(tmp_path: Path) -> ExtensionDatabase:
    return ExtensionDatabase(tmp_path, "memory", MIGRATIONS, threaded=False)


@pytest.fixture
def notes(database: ExtensionDatabase) -> NoteStore:
    return NoteStore(database)


async def texts(notes: NoteStore, owner: str, question: str) -> list[str]:
    return [note.text for note in await notes.search(owner, question, 5)]


async def test_what_was_noted_comes_to_mind_in_both_languages(notes: NoteStore) -> None:
    for text in NOTES.values():
        await notes.save("ada", text, NOW)
    missed = {}
    for question, wanted in QUESTIONS.items():
        found = await texts(notes, "ada", question)
        if found[:1] != [NOTES[name] for name in wanted]:
            missed[question] = found
    assert missed == {}
    assert [await texts(notes, "ada", question) for question in ABOUT_NOTHING] == [[]] * len(ABOUT_NOTHING)


async def test_the_first_note_of_a_person_is_found_at_once(tmp_path: Path) -> None:
    """Whoever has none is not looked for in every turn; a search that was under way meanwhile changes nothing."""
    database = ExtensionDatabase(tmp_path, "memory", MIGRATIONS)
    notes = NoteStore(database)
    try:
        assert await notes.search("me", "gold", 5) == ()
        early, saved, _ = await asyncio.gather(
            notes.search("you", "gold", 5), notes.save("you", "likes gold", NOW), notes.search("you", "gold", 5)
        )
        await notes.save("me", "hates gold", NOW)
        assert [each.text for each in await notes.search("me", "gold", 5)] == ["hates gold"]
        assert (early, list(await notes.search("you", "gold", 5))) == ((), [saved])
    finally:
        await database.close()


async def test_particles_and_endings_do_not_hide_a_word(notes: NoteStore) -> None:
    await notes.save("ada", "환율 알림은 1,400원부터", NOW)
    for question in ("환율", "환율이 어때", "환율을 알려줘", "요즘 환율에서는", "원달러환율"):
        assert await texts(notes, "ada", question) == ["환율 알림은 1,400원부터"], question


@pytest.mark.parametrize("question", HOSTILE)
async def test_a_question_is_words_and_no_query(notes: NoteStore, question: str) -> None:
    await notes.save("ada", "삼성전자를 좋아한다", NOW)
    await notes.save("bob", "비밀 번호", NOW)
    found = await texts(notes, "ada", question)
    assert found == (["삼성전자를 좋아한다"] if "삼성" in query_words(question) else [])
    await notes.save("ada", question[:900], NOW)
    assert "비밀 번호" not in await texts(notes, "ada", question)


async def test_the_same_words_are_one_note_with_the_newer_date(notes: NoteStore) -> None:
    first = await notes.save("ada", "I like bonds", NOW)
    again = await notes.save("ada", "i like  Bonds.", NOW + timedelta(days=1))
    assert (again.number, again.saved_at) == (first.number, NOW + timedelta(days=1))
    shown, count = await notes.latest("ada", 10)
    assert ([note.text for note in shown], count) == (["i like  Bonds."], 1)
    assert await texts(notes, "ada", "bonds") == ["i like  Bonds."]


async def test_there_is_an_end_to_what_one_person_can_save(notes: NoteStore, database: ExtensionDatabase) -> None:
    await notes.save("ada", "the first", NOW)
    await database.execute(
        "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
        "INSERT INTO notes (owner, number, text, folded, saved_at) SELECT 1, i, i, i, ? FROM n",
        MOST_NOTES,
        NOW.isoformat(),
    )
    with pytest.raises(TooManyNotes, match="2,000 notes already"):
        await notes.save("ada", "one more", NOW)
    assert (await notes.save("ada", "The first", NOW)).number == 1, "what is there may be said again"
    assert (await notes.save("bob", "mine", NOW)).number == 1
    assert await notes.forget("ada", 1)
    await database.execute("UPDATE owners SET given = ? WHERE name = 'ada'", MOST_NOTES)
    assert (await notes.save("ada", "one more", NOW)).number == MOST_NOTES + 1, "a number is never given twice"


async def test_what_is_forgotten_is_no_longer_in_the_file(
    notes: NoteStore, database: ExtensionDatabase, tmp_path: Path
) -> None:
    for number in range(50):
        await notes.save("ada", f"filler number {number} with a few words more", NOW)
    secret = (await notes.save("ada", "zanzibarquux is where it lies", NOW)).number
    await notes.save("bob", "quetzalplotz is mine", NOW)
    assert await notes.forget("ada", secret)
    assert await notes.clear("bob") == 1
    assert await notes.find("ada", secret) is None
    assert await texts(notes, "ada", "zanzibarquux") == []
    await database.close()
    content = _everything_in(tmp_path)
    assert b"filler number 7" in content
    assert b"zanzibarquux" not in content
    assert b"quetzalplotz" not in content


def _everything_in(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in directory.iterdir())


async def test_a_full_disk_loses_nothing_that_was_saved(tmp_path: Path) -> None:
    with Disk("memory-fault", default=True) as disk:
        database = ExtensionDatabase(tmp_path, "memory", MIGRATIONS, threaded=False)
        notes = NoteStore(database)
        await notes.save("ada", "I like bonds", NOW)
        disk.fail(error="full", ops=("write",), forever=True)
        with pytest.raises(StoreFailed):
            await notes.save("ada", "I like shares", NOW)
        with pytest.raises(StoreFailed):
            await notes.forget("ada", 1)
        assert await texts(notes, "ada", "bonds or shares") == ["I like bonds"]
        disk.heal()
        assert (await notes.save("ada", "I like shares", NOW)).number == 2
        assert set(await texts(notes, "ada", "bonds or shares")) == {"I like bonds", "I like shares"}
        await database.close()


OWNERS = st.sampled_from(["web:local:ada", "web:local:bob", "telegram:local:ada"])
WORDS = st.lists(
    st.sampled_from(["삼성전자", "배당", "bonds", "gold", "AAPL", "2x배당", "1xgold"]), min_size=1, max_size=4
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("save"), OWNERS, WORDS.map(" ".join)),
        st.tuples(st.just("forget"), OWNERS, st.integers(1, 6)),
        st.tuples(st.just("clear"), OWNERS, st.none()),
    ),
    max_size=20,
)


@settings(max_examples=examples(60), deadline=None)
@given(STEPS, WORDS.map(" ".join))
def test_nobody_ever_sees_anothers_notes_nor_what_was_forgotten(steps: list[tuple[str, str, object]], ask: str) -> None:
    """Against a plain dictionary of what each person has said and not taken back."""

    async def walk(directory: str) -> None:
        database = ExtensionDatabase(Path(directory), "memory", MIGRATIONS, threaded=False)
        notes, kept = NoteStore(database), dict[str, dict[int, str]]()
        for what, owner, value in steps:
            mine = kept.setdefault(owner, {})
            if what == "save":
                mine[(await notes.save(owner, str(value), NOW)).number] = str(value)
            elif what == "forget":
                assert isinstance(value, int)
                assert await notes.forget(owner, value) == (mine.pop(value, None) is not None)
            else:
                assert await notes.clear(owner) == len(mine)
                mine.clear()
        for owner, mine in kept.items():
            assert {each.number: each.text for each in (await notes.latest(owner, 100))[0]} == mine
            found = {each.number: each.text for each in await notes.search(owner, ask, 100)}
            assert found == {number: text for number, text in mine.items() if _share_a_word(ask, text)}
        assert {(each.owner, each.note.number) for each in await notes.everybodys()} == {
            (owner, number) for owner, mine in kept.items() for number in mine
        }
        await database.close()

    with TemporaryDirectory() as directory:
        asyncio.run(walk(directory))


def _share_a_word(one: str, other: str) -> bool:
    return bool(set(query_words(one)) & set(query_words(other)))


async def test_a_cancelled_save_is_whole_or_not_at_all(tmp_path: Path) -> None:
    database = ExtensionDatabase(tmp_path, "memory", MIGRATIONS)
    notes = NoteStore(database)
    saving = asyncio.ensure_future(notes.save("ada", "gold", NOW))
    await asyncio.sleep(0)
    saving.cancel()
    await asyncio.wait([saving])
    count = (await notes.latest("ada", 5))[1]
    assert len(await texts(notes, "ada", "gold")) == count
    await database.close()
