"""What the chat draws, read back from a small terminal made of characters."""

import io
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.emulator import Emulator

from finclaw.cli.chat.questions import QuestionEnd
from finclaw.cli.chat.screen import Screen, show_ending
from finclaw.cli.chat.texts import ENGLISH, KOREAN, Texts, greeting, texts_at_start, texts_for
from finclaw.cli.formatting import clean, cut, one_line, width, wrap


class Glass(io.StringIO):
    """A terminal of 20 columns and 9 rows."""

    rows = 9

    def __init__(self) -> None:
        super().__init__()
        self.emulator = Emulator(20, self.rows)

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.emulator.feed(text.replace("\n", "\r\n"))
        return len(text)

    @property
    def styles(self) -> list[str]:
        return self.emulator.styles


class TallGlass(Glass):
    rows = 60


@pytest.fixture
def glass(monkeypatch: pytest.MonkeyPatch) -> Glass:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("LINES", "9")
    return Glass()


@pytest.fixture
def screen(glass: Glass) -> Screen:
    return Screen(glass, {"TERM": "xterm"})


def shown(glass: Glass) -> list[str]:
    return glass.emulator.lines


def test_a_preview_grows_and_the_answer_ends_it(screen: Screen, glass: Glass) -> None:
    screen.status("… thinking")
    assert shown(glass) == ["… thinking"]
    screen.answer("One.", ENGLISH)
    screen.status("… looking up x")
    assert shown(glass) == ["One.", "… looking up x"]
    screen.answer("One. Two.", ENGLISH)
    screen.status("")
    assert shown(glass) == ["One. Two."]
    screen.end_answer(ENGLISH)
    screen.line("a note")
    assert shown(glass) == ["One. Two.", "a note"]


def test_markdown_is_set_and_grows_without_being_written_anew(screen: Screen, glass: Glass) -> None:
    words = "# 시세\n\n**삼성전자**는 `71,200`원, *오름*.\n\n- one\n- two **three**"
    whole = f"{words}\n\n| a | b |\n|---|--:|\n| x | 10 |\n\nEnd."
    for end in range(len(whole)):
        screen.answer(whole[:end], ENGLISH)
        assert not any("|" in line for line in shown(glass)), "a table is shown when its columns are known"
    screen.answer(whole, ENGLISH, is_whole=True)
    told = shown(glass)
    assert ENGLISH.rewritten not in told
    assert told == [
        "시세",
        "",
        "삼성전자는",
        "71,200원, 오름.",
        "",
        "• one",
        "• two three",
        "",
        "a   b",
        "-  --",
        "x  10",
        "",
        "End.",
    ]
    assert glass.styles.count("1") == glass.styles.count("22") > 2
    assert {"3", "36"} < set(glass.styles)


def test_markdown_without_colour_has_no_styles(glass: Glass) -> None:
    Screen(glass, {"TERM": "xterm", "NO_COLOR": "1"}).answer("**a** and `b`", ENGLISH, is_whole=True)
    assert (shown(glass), glass.styles) == (["a and b"], [])


def test_what_is_no_markdown_is_shown_to_the_letter(screen: Screen, glass: Glass) -> None:
    screen.answer("pay **9** \\* `x`\U000e0042", ENGLISH, is_markdown=False, is_whole=True)
    assert (shown(glass), glass.styles) == (["pay **9** \\* `x`"], [])


@given(st.lists(st.text(st.sampled_from("ab*_`|-#\n 가"), max_size=12), max_size=8))
def test_whatever_comes_before_it_the_whole_answer_is_what_is_read(pieces: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "20")
        patch.setenv("LINES", "60")
        glass, alone = TallGlass(), TallGlass()
        screen = Screen(glass, {"TERM": "xterm"})
        for end in range(len(pieces)):
            screen.answer("".join(pieces[:end]), ENGLISH)
        screen.answer("".join(pieces), ENGLISH, is_whole=True)
        Screen(alone, {"TERM": "xterm"}).answer("".join(pieces), ENGLISH, is_whole=True)
    assert shown(glass) == shown(alone)


def test_the_status_stays_below_on_the_last_row(screen: Screen, glass: Glass) -> None:
    screen.answer("1\n2\n3\n4\n5\n6", ENGLISH)
    screen.status("… 조회 중입니다 조회 중입니다")
    assert shown(glass)[-2:] == ["6", "… 조회 중입니다 조"]
    screen.answer("1\n2\n3\n4\n5\n6!", ENGLISH)
    screen.status("")
    assert shown(glass) == ["1", "2", "3", "4", "5", "6!"]


def test_a_preview_that_turns_out_otherwise_is_taken_back(screen: Screen, glass: Glass) -> None:
    screen.line("before")
    screen.answer("삼성전자를 찾아보고 있습니다. 잠시만요.", ENGLISH)
    screen.status("… looking up")
    screen.answer("75,300원입니다.", ENGLISH)
    screen.status("")
    screen.end_answer(ENGLISH)
    assert shown(glass) == ["before", "75,300원입니다."]


def test_what_has_left_the_screen_cannot_be_taken_back(screen: Screen, glass: Glass) -> None:
    screen.answer("\n".join("abcdefgh"), ENGLISH)
    screen.answer("other", ENGLISH)
    screen.end_answer(ENGLISH)
    assert shown(glass) == [*"abcdefgh", ENGLISH.rewritten, "other"]


@given(st.text("ab  한\n"), st.integers(2, 9))
def test_wrapping_keeps_every_character_and_the_width(text: str, columns: int) -> None:
    wrapped = wrap(text, columns)
    assert "".join(wrapped.split()) == "".join(text.split())
    assert all(sum(map(width, line)) <= columns for line in wrapped.split("\n"))


def test_a_full_row_loses_nothing_to_the_status(screen: Screen, glass: Glass) -> None:
    screen.answer("x" * 20 + "\n" + "y" * 19, ENGLISH)
    screen.status("… at work")
    screen.status("")
    screen.answer("x" * 20 + "\n" + "y" * 19 + "z", ENGLISH)
    screen.end_answer(ENGLISH)
    assert "".join(shown(glass)) == "x" * 20 + "y" * 19 + "z"


@given(st.lists(st.text("ab 삼성\n", max_size=60), max_size=6))
def test_whatever_the_previews_were_the_answer_is_there(previews: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "20")
        patch.setenv("LINES", "9")
        glass = Glass()
        screen = Screen(glass, {"TERM": "xterm"})
        for preview in previews:
            screen.answer(preview, ENGLISH)
            screen.status("… at work")
        screen.answer("The end.", ENGLISH)
        screen.status("")
        screen.end_answer(ENGLISH)
        assert shown(glass)[-1] == "The end."
        assert "… at work" not in shown(glass)


def test_no_colour_and_no_moves_where_they_are_not_wanted() -> None:
    glass = Glass()
    Screen(glass, {"TERM": "xterm", "NO_COLOR": "1"}).line("plain")
    assert shown(glass) == ["plain"]
    plain = io.StringIO()
    screen = Screen(plain, {"TERM": "xterm"})
    screen.status("never shown")
    screen.answer("**One**\n\nTw", ENGLISH)
    assert plain.getvalue() == "One\n\n", "what cannot be taken back is shown when it is certain"
    screen.answer("**One**\n\nTwo `x`", ENGLISH, is_whole=True)
    screen.end_answer(ENGLISH)
    screen.answer("one\n\nmore", ENGLISH, is_whole=True)
    screen.answer("two", ENGLISH, is_whole=True)
    screen.end_answer(ENGLISH)
    assert plain.getvalue() == "One\n\nTwo x\none\n\nmore\n(written anew:)\ntwo\n"


@pytest.mark.parametrize(
    ("hostile", "harmless"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b2Jx", "x"),
        ("a\x00\x08\x7f\x85b", "a\nb"),
        ("100\u202e001\u2066", "100001"),
        ("line\r\nline\rover\ttab", "line\nline\nover\ttab"),
        ("\x1b", ""),
        ("\x1b]unfinished", "unfinished"),
        ("삼성전자 ₩75,300 👍", "삼성전자 ₩75,300 👍"),
    ],
)
def test_hostile_text_becomes_harmless(hostile: str, harmless: str) -> None:
    assert clean(hostile) == harmless


@given(st.text())
def test_nothing_cleaned_controls_a_terminal(text: str) -> None:
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", clean(text))
    assert clean(clean(text)) == clean(text)


def test_room_on_the_screen() -> None:
    assert [width(char) for char in "a한é\u0301\u1100\u1161👍"] == [1, 2, 1, 0, 2, 0, 2]
    assert cut("가나다", 5) == "가나"
    assert wrap("it is at 75,300 now", 12) == "it is at\n75,300 now"
    assert wrap("가나 다라 마바", 6) == "가나\n다라\n마바"
    assert wrap("unbreakable x", 6) == "unbrea\nkable\nx"
    assert wrap("a 삼성전자우 b", 6) == "a\n삼성전\n자우 b"
    assert wrap("  indented\n\n", 20) == "  indented\n\n"
    assert one_line("a\nb  c" * 20, 10) == "a b ca b …"


def test_the_language_follows_the_person() -> None:
    assert texts_for("삼성전자?") is texts_at_start("ko_KR.UTF-8")
    assert texts_for("AAPL?") is texts_at_start("C") is ENGLISH


@pytest.mark.parametrize("url", [None, "http://127.0.0.1:65535"])
def test_the_greeting_fits(url: str | None) -> None:
    lines = greeting("demo", url)
    assert len(lines) == 4
    assert all(sum(map(width, line)) <= 80 for line in lines)
    assert "live" in greeting("live", url)[1]


@pytest.mark.spec("DX-22")
def test_what_comes_in_the_middle_of_an_answer_stands_above_it(screen: Screen, glass: Glass) -> None:
    screen.answer("One. 둘째", ENGLISH)
    screen.status("… looking up x")
    with screen.apart():
        screen.answer("a card", ENGLISH)
        screen.end_answer(ENGLISH)
        screen.line("")
    assert shown(glass) == ["a card", "", "One. 둘째", "… looking up x"]
    screen.answer("One. 둘째 문장. Three.", ENGLISH)
    screen.status("")
    screen.end_answer(ENGLISH)
    assert shown(glass) == ["a card", "", "One. 둘째 문장.", "Three."]


def test_in_the_middle_of_one_that_has_left_the_screen_nothing_is_lost_or_said_twice(
    screen: Screen, glass: Glass
) -> None:
    screen.answer("\n".join("abcdefgh"), ENGLISH)
    with screen.apart():
        screen.answer("a card", ENGLISH)
        screen.end_answer(ENGLISH)
    screen.answer("\n".join("abcdefghij"), ENGLISH)
    screen.end_answer(ENGLISH)
    assert shown(glass) == [*"abc", "a card", "(the answer goes", "on:)", *"defghij"]


def test_between_answers_it_is_a_text_like_any_other(screen: Screen, glass: Glass) -> None:
    with screen.apart():
        screen.answer("a card", ENGLISH)
        screen.end_answer(ENGLISH)
    assert shown(glass) == ["a card"]


def test_the_parser_is_loaded_for_an_answer_with_markup_only() -> None:
    program = (
        "import sys; from finclaw.cli.chat.markdown import set_markdown as show\n"
        "for text in ('Up 2.5%. 올랐습니다.', '**up**'):\n"
        "    print(show(text, styled=False), 'markdown_it' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines() == ["Up 2.5%. 올랐습니다. False", "up True"]


@pytest.mark.parametrize(("texts", "said"), [(ENGLISH, "(stopped)"), (KOREAN, "(중단됨)")])
def test_a_stop_is_told_without_the_names_of_records(texts: Texts, said: str) -> None:
    out = io.StringIO()
    show_ending(Screen(out), texts, QuestionEnd("stopped", "interrupted by message m-35ad8f91-1622"))
    assert out.getvalue().strip() == said
