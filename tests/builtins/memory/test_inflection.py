"""A note is found whatever form its words have in the question: English endings, Korean particles."""

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from finclaw.builtins.memory.notes import MIGRATIONS, NoteStore
from finclaw.builtins.ranking import index_words, query_words
from finclaw.storage.sqlite.extension import ExtensionDatabase

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)

SAME = [
    ("I never use leverage", "Is this leveraged ETF something for me?"),
    ("I never use leverage", "what about leveraging it?"),
    ("I own leveraged ETFs", "should I use leverage?"),
    ("I reinvest every dividend", "when are dividends paid?"),
    ("I reinvest dividends", "is the dividend safe?"),
    ("I hedged my dollars", "how does hedging work?"),
    ("I pay my taxes in May", "how is it taxed?"),
    ("No tobacco companies", "is that company good?"),
    ("I am renting a flat", "what is my rent?"),
    ("I sold all my bonds", "is a bond better?"),
    ("Losses are cut at 10 percent", "how large is my loss?"),
    ("I am planning to retire in 2040", "what was planned?"),
    ("I studied the filings", "which filing was it?"),
    ("Buying only on Mondays", "shall I buy?"),
    ("I rated it a hold", "what is its rating?"),
    ("레버리지는 쓰지 않는다", "이 레버리지 ETF 어때?"),
    ("금은 포트폴리오의 10%", "금을 더 살까?"),
    ("집을 2030년에 산다", "집은 언제 사지?"),
    ("딸이 대학에 간다", "딸에게 뭘 사 줄까"),
    ("배당금으로 다시 산다", "배당금을 받았어"),
]
DIFFERENT = [
    ("I like my car", "who will care?"),
    ("the plan is good", "a plane ticket"),
    ("the fee is high", "feed the cat"),
    ("a new wing", "he is winning"),
    ("I saw a bee", "I had a beer"),
    ("rats", "what are the rates?"),
    ("I live in Seoul", "the best string"),
    ("회사를 옮겼다", "증권사를 바꿀까"),
    ("주가를 본다", "주는 날이 언제야"),
    ("마을에 산다", "마는 어때"),
]


@pytest.fixture
def notes(tmp_path: Path) -> NoteStore:
    return NoteStore(ExtensionDatabase(tmp_path, "memory", MIGRATIONS, threaded=False))


@pytest.mark.parametrize(("note", "question"), SAME)
async def test_another_form_of_a_word_finds_the_note(notes: NoteStore, note: str, question: str) -> None:
    """User trial B2: the guide's own example was not recalled."""
    await notes.save("ada", note, NOW)
    assert [each.text for each in await notes.search("ada", question, 5)] == [note]


@pytest.mark.parametrize(("note", "question"), DIFFERENT)
async def test_short_words_that_look_alike_stay_two(notes: NoteStore, note: str, question: str) -> None:
    await notes.save("ada", note, NOW)
    assert list(await notes.search("ada", question, 5)) == []


@pytest.mark.parametrize("released", [2, 3])
async def test_notes_of_an_earlier_release_are_found_by_their_forms_too(tmp_path: Path, released: int) -> None:
    """They were indexed by their words alone, and then in a table that only SQLite has."""
    database = ExtensionDatabase(tmp_path, "memory", MIGRATIONS[:released], threaded=False)
    await database.execute("INSERT INTO owners (id, name, given) VALUES (1, 'ada', 1)")
    await database.execute(
        "INSERT INTO notes (id, owner, number, text, folded, saved_at) VALUES (1, 1, 1, ?, ?, ?)",
        "I am hedging",
        "i am hedging",
        NOW.isoformat(),
    )
    await database.execute("INSERT INTO word_index (rowid, words) VALUES (1, '1xi 1xam 1xhedging')")
    if released == 3:
        await database.execute("INSERT INTO index_rules (version) VALUES (2)")
    await database.close()
    database = ExtensionDatabase(tmp_path, "memory", MIGRATIONS, threaded=False)
    notes = NoteStore(database)
    assert [each.text for each in await notes.search("ada", "is it hedged?", 5)] == ["I am hedging"]
    assert await notes.forget("ada", 1)
    assert list(await notes.search("ada", "is it hedged?", 5)) == []
    await database.close()


@pytest.mark.parametrize(
    "text", ["leveraged " * 2_000, "ed" * 10_000, "ing" * 7_000, "레버리지를" * 4_000, "s" * 20_000]
)
def test_the_forms_of_a_long_text_take_no_long_time(text: str) -> None:
    began = time.process_time()
    index_words(text)
    query_words(text)
    assert time.process_time() - began < 1
