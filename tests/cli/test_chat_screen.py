"""What the chat draws, read back from a small terminal made of characters."""

import io
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.delivery.documents import make_document

from finclaw.cli.chat.markdown import GrowingMarkdown, set_markdown
from finclaw.cli.chat.questions import QuestionEnd
from finclaw.cli.chat.screen import Screen, show_ending
from finclaw.cli.chat.texts import ENGLISH, KOREAN, Texts, greeting, texts_at_start, texts_for
from finclaw.cli.formatting import clean, cut, one_line, rows_down, width, wrap


class Glass(io.StringIO):
    """A terminal of 20 columns and 6 rows that knows the sequences the screen uses, and fails on any other."""

    columns, rows = 20, 6

    def __init__(self) -> None:
        super().__init__()
        self.cells: list[list[str]] = [[""] * self.columns for _ in range(self.rows)]
        self.row = self.column = 0
        self.saved = (0, 0)
        self.scrolled: list[str] = []
        self.styles: list[str] = []

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        for piece in re.findall(r"\x1b\[[0-9]*[A-Za-z]|\x1b.|[^\x1b]", text, re.DOTALL):
            self._do(piece)
        return len(text)

    @property
    def lines(self) -> list[str]:
        """Everything ever shown and not erased, without trailing blank lines."""
        now = ["".join(cell or " " for cell in row).rstrip() for row in self.cells]
        lines = [*self.scrolled, *now]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def _do(self, piece: str) -> None:
        if piece == "\n":
            self.column = 0
            self._down()
        elif piece == "\r":
            self.column = 0
        elif piece == "\x1bD":
            self._down()
        elif piece == "\x1b7":
            self.saved = (self.row, self.column)
        elif piece == "\x1b8":
            self.row, self.column = self.saved
        elif piece == "\x1b[J":
            behind = min(self.column, self.columns - 1)  # waiting to wrap, the cursor is still in the last column
            self.cells[self.row][behind:] = [""] * (self.columns - behind)
            for row in range(self.row + 1, self.rows):
                self.cells[row] = [""] * self.columns
        elif up := re.fullmatch(r"\x1b\[([0-9]*)A", piece):
            self.row = max(0, self.row - int(up[1] or 1))
        elif re.fullmatch(r"\x1b\[[0-9]+m", piece):
            self.styles.append(piece[2:-1])
        else:
            assert not piece.startswith("\x1b"), piece
            self._put(piece)

    def _put(self, char: str) -> None:
        if self.column + width(char) > self.columns:
            self.column = 0
            self._down()
        self.cells[self.row][self.column] = char
        self.column += 1
        if width(char) == 2:
            self.cells[self.row][self.column : self.column + 1] = ["\u200b"]
            self.column += 1

    def _down(self) -> None:
        if self.row < self.rows - 1:
            self.row += 1
        else:
            self.scrolled.append("".join(cell or " " for cell in self.cells.pop(0)).rstrip())
            self.cells.append([""] * self.columns)


class TallGlass(Glass):
    rows = 60


@pytest.fixture
def glass(monkeypatch: pytest.MonkeyPatch) -> Glass:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("LINES", "6")
    return Glass()


@pytest.fixture
def screen(glass: Glass) -> Screen:
    return Screen(glass, {"TERM": "xterm"})


def shown(glass: Glass) -> list[str]:
    return [line.replace("\u200b", "") for line in glass.lines]


def test_a_preview_grows_and_the_answer_ends_it(screen: Screen, glass: Glass) -> None:
    screen.status("… thinking")
    assert shown(glass) == ["… thinking"]
    screen.answer("One.", "anew")
    screen.status("… looking up x")
    assert shown(glass) == ["One.", "… looking up x"]
    screen.answer("One. Two.", "anew")
    assert shown(glass) == ["One. Two."]
    screen.end_answer()
    screen.line("a note")
    assert shown(glass) == ["One. Two.", "a note"]


def test_markdown_is_set_and_grows_without_being_written_anew(screen: Screen, glass: Glass) -> None:
    words = "# 시세\n\n**삼성전자**는 `71,200`원, *오름*.\n\n- one\n- two **three**"
    whole = f"{words}\n\n| a | b |\n|---|--:|\n| x | 10 |\n\nEnd."
    for end in range(len(whole)):
        screen.answer(whole[:end], "anew")
        assert not any("|" in line for line in shown(glass)), "a table is shown when its columns are known"
    screen.answer(whole, "anew", is_whole=True)
    told = shown(glass)
    assert "anew" not in told
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
    Screen(glass, {"TERM": "xterm", "NO_COLOR": "1"}).answer("**a** and `b`", "anew", is_whole=True)
    assert (shown(glass), glass.styles) == (["a and b"], [])


def test_what_is_no_markdown_is_shown_to_the_letter(screen: Screen, glass: Glass) -> None:
    screen.answer("pay **9** \\* `x`\U000e0042", "anew", is_markdown=False, is_whole=True)
    assert (shown(glass), glass.styles) == (["pay **9** \\* `x`"], [])


@given(st.lists(st.text(st.sampled_from("ab*_`|-#\n 가"), max_size=12), max_size=8))
def test_whatever_comes_before_it_the_whole_answer_is_what_is_read(pieces: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "20")
        patch.setenv("LINES", "60")
        glass, alone = TallGlass(), TallGlass()
        screen = Screen(glass, {"TERM": "xterm"})
        for end in range(len(pieces)):
            screen.answer("".join(pieces[:end]), "anew")
        screen.answer("".join(pieces), "anew", is_whole=True)
        Screen(alone, {"TERM": "xterm"}).answer("".join(pieces), "anew", is_whole=True)
    assert shown(glass) == shown(alone)


def test_the_status_stays_below_on_the_last_row(screen: Screen, glass: Glass) -> None:
    screen.answer("1\n2\n3\n4\n5\n6", "anew")
    screen.status("… 조회 중입니다 조회 중입니다")
    assert shown(glass)[-2:] == ["6", "… 조회 중입니다 조"]
    screen.answer("1\n2\n3\n4\n5\n6!", "anew")
    assert shown(glass) == ["1", "2", "3", "4", "5", "6!"]


def test_a_preview_that_turns_out_otherwise_is_taken_back(screen: Screen, glass: Glass) -> None:
    screen.line("before")
    screen.answer("삼성전자를 찾아보고 있습니다. 잠시만요.", "anew")
    screen.status("… looking up")
    screen.answer("75,300원입니다.", "anew")
    screen.end_answer()
    assert shown(glass) == ["before", "75,300원입니다."]


def test_what_has_left_the_screen_cannot_be_taken_back(screen: Screen, glass: Glass) -> None:
    screen.answer("\n".join("abcdefgh"), "anew")
    screen.answer("other", "(anew)")
    screen.end_answer()
    assert shown(glass) == [*"abcdefgh", "(anew)", "other"]


@given(st.text("ab  한\n"), st.integers(2, 9))
def test_wrapping_keeps_every_character_and_the_width(text: str, columns: int) -> None:
    wrapped = wrap(text, columns)
    assert "".join(wrapped.split()) == "".join(text.split())
    assert all(sum(map(width, line)) <= columns for line in wrapped.split("\n"))


def test_a_full_row_loses_nothing_to_the_status(screen: Screen, glass: Glass) -> None:
    screen.answer("x" * 20 + "\n" + "y" * 19, "anew")
    screen.status("… at work")
    screen.status("")
    screen.answer("x" * 20 + "\n" + "y" * 19 + "z", "anew")
    screen.end_answer()
    assert "".join(shown(glass)) == "x" * 20 + "y" * 19 + "z"


@given(st.lists(st.text("ab 삼성\n", max_size=60), max_size=6))
def test_whatever_the_previews_were_the_answer_is_there(previews: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "20")
        patch.setenv("LINES", "6")
        glass = Glass()
        screen = Screen(glass, {"TERM": "xterm"})
        for preview in previews:
            screen.answer(preview, "anew")
            screen.status("… at work")
        screen.answer("The end.", "anew")
        screen.end_answer()
        assert shown(glass)[-1] == "The end."
        assert "… at work" not in shown(glass)


def test_no_colour_and_no_moves_where_they_are_not_wanted() -> None:
    glass = Glass()
    Screen(glass, {"TERM": "xterm", "NO_COLOR": "1"}).line("plain")
    assert shown(glass) == ["plain"]
    plain = io.StringIO()
    screen = Screen(plain, {"TERM": "xterm"})
    screen.status("never shown")
    screen.answer("**One**\n\nTw", "anew")
    assert plain.getvalue() == "One\n\n", "what cannot be taken back is shown when it is certain"
    screen.answer("**One**\n\nTwo `x`", "anew", is_whole=True)
    screen.end_answer()
    screen.answer("one", "anew", is_whole=True)
    screen.answer("two", "anew", is_whole=True)
    screen.end_answer()
    assert plain.getvalue() == "One\n\nTwo x\none\nanew\ntwo\n"


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
    assert rows_down("가나다", 6) == 0
    assert rows_down("가나다라", 7) == 1
    assert rows_down("a\nb", 20) == 1
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
    screen.answer("One. 둘째", "anew")
    screen.status("… looking up x")
    with screen.apart("(on:)"):
        screen.answer("a card", "anew")
        screen.end_answer()
        screen.line("")
    assert shown(glass) == ["a card", "", "One. 둘째"]
    screen.answer("One. 둘째 문장. Three.", "anew")
    screen.end_answer()
    assert shown(glass) == ["a card", "", "One. 둘째 문장.", "Three."]


def test_in_the_middle_of_one_that_has_left_the_screen_nothing_is_lost_or_said_twice(
    screen: Screen, glass: Glass
) -> None:
    screen.answer("\n".join("abcdefgh"), "anew")
    with screen.apart("(on:)"):
        screen.answer("a card", "anew")
    screen.answer("\n".join("abcdefghij"), "anew")
    screen.end_answer()
    assert shown(glass) == [*"abcdefgh", "a card", "(on:)", "", "i", "j"]


def test_between_answers_it_is_a_text_like_any_other(screen: Screen, glass: Glass) -> None:
    with screen.apart("(on:)"):
        screen.answer("a card", "anew")
    assert shown(glass) == ["a card"]


def test_a_text_that_grows_is_set_as_a_whole_one() -> None:
    for seed in range(40):
        text = f"{make_document(seed).text}\n\nThen words.\n\n{make_document(seed + 40).text}\n\n끝 **에**"
        growing = GrowingMarkdown(styled=True)
        for end in range(0, len(text), 97):
            growing.set(text[:end])
        assert growing.set(text) == set_markdown(text, styled=True), seed


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
