"""The formatter: what Markdown means is shown as each channel can, nothing is lost, and every part stands by itself."""

import gc
import html
import random
import re
import string
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.delivery.documents import Document, make_document
from tests.delivery.rendered import read_fenced, read_html
from tests.machine import slowness
from tests.support.telegram.entities import parse_html

from finclaw.delivery.format import FormatOptions, FormattedMessage, format_message, get_format_options
from finclaw.kernel.envelope import Embed, Markup
from finclaw.testing.channel import PROFILES
from finclaw.text import text_length

_SIGNS = str.maketrans("", "", string.punctuation + string.whitespace + "•—📎\u200b")
_LIMITS = (64, 100, 300, 1_000)


def read_part(content: str, markup: Markup) -> str:
    """The words of a part, read by somebody else's rules."""
    if markup in ("html", "inline_html"):
        return read_html(content, markup)
    return read_fenced(content, markup) if markup in ("markdown", "mrkdwn") else content


def _letters(text: str) -> str:
    return text.translate(_SIGNS)


def check_words(document: Document, said: str) -> None:
    """Every word of the document in its order and once, and nothing else but numbers of lists, addresses and heads."""
    beside = sorted(map(_letters, document.addresses | document.cells_above), key=len, reverse=True)
    assert all(_letters(head) in said for head in document.cells_above)
    at = 0
    for word in [*[_letters(word) for word in document.words if word not in document.cells_above], ""]:
        while not (said.startswith(word, at) if word else at == len(said)):
            found = next((each for each in beside if said.startswith(each, at)), "")
            assert found or said[at : at + 1].isdigit(), (word, said[at : at + 60])
            at += len(found) or 1
        at += len(word)


def check_parts(message: FormattedMessage, options: FormatOptions) -> None:
    """Every part within the limit, valid by itself, and as plain text what it is in the markup."""
    for place, part in enumerate(message.parts):
        shown = read_part(part.content, options.markup)
        counted = shown if options.markup == "inline_html" else part.content
        assert 0 < text_length(counted, options.length_unit) <= options.max_length
        assert 0 < text_length(part.plain, options.length_unit) <= options.max_length
        assert (part.index, part.is_last) == (place, place == len(message.parts) - 1)
    assert message.was_split == (len(message.parts) > 1)
    assert message.total_length == sum(text_length(part.content, options.length_unit) for part in message.parts)


def check_document(seed: int) -> None:
    chance = random.Random(seed)
    document = make_document(seed)
    options = replace(
        get_format_options(PROFILES[chance.choice(list(PROFILES))]),
        max_length=chance.choice(_LIMITS),
        markup=chance.choice(("plain", "inline_html", "html", "markdown", "mrkdwn")),
    )
    message = format_message(document.text, options)
    check_parts(message, options)
    check_words(document, _letters("\n".join(read_part(part.content, options.markup) for part in message.parts)))
    check_words(document, _letters("\n".join(part.plain for part in message.parts)))


@pytest.mark.spec("F-06", "F-07", "F-08")
@pytest.mark.parametrize("first", range(0, 2_000, 500))
def test_random_documents(first: int) -> None:
    for seed in range(first, first + 500):
        check_document(seed)


@pytest.mark.soak
def test_many_random_documents() -> None:
    for seed in range(2_000, 52_000):
        check_document(seed)


_FORMATTED = (
    "**bold** ", "`code` ", "~~no~~ ", "*it* ", "**b *i `c`* b** ", "[a b](https://e.example/a) ",
    "[](https://e.example) ", "![](https://e.example/i.png)", "[**", "](https://e.example/b) ", "\n", "\n\n",
    "\n- **a** `b` ", "\n> quote *i* ", "\n\n```py\nx < 1\n```\n\n", "\n# Head `c`\n\n", "plain 한글 🙂 ", "x" * 90,
)  # fmt: skip


@given(pieces=st.lists(st.tuples(st.sampled_from(_FORMATTED), st.integers(1, 130)), min_size=1, max_size=6))
@example(pieces=[("**bold** ", 463)])
@example(pieces=[("[a b](https://e.example/a)", 200)])
@example(pieces=[("- **a** [x](https://e.example/a)\n", 120), ("plain ", 700)])
@example(pieces=[("**b *i `c`* b** ", 99), ("\n> quote *i* ", 60)])
def test_telegram_s_limits_hold_for_every_part_and_no_text_is_lost(pieces: list[tuple[str, int]]) -> None:
    text = "".join(piece * count for piece, count in pieces)
    options = get_format_options(PROFILES["telegram"])
    parts = [parse_html(part.content) for part in format_message(text, options).parts]  # raises for tags left open
    whole = format_message(text, replace(options, max_marks=0, max_length=1_000_000)).parts
    assert all(0 < text_length(said, "utf16") <= 4_096 and len(entities) <= 100 for said, entities in parts)
    said = "".join("".join(parse_html(part.content)[0] for part in whole).split())
    assert "".join("".join(said for said, _ in parts).split()) == said


# ── what Markdown means ─────────────────────────────────────────────────────────────────────────────────────────


def show(text: str, markup: Markup, **more: object) -> str:
    (part,) = format_message(text, FormatOptions(markup=markup, **more)).parts  # pyright: ignore[reportArgumentType]
    return part.content


@pytest.mark.spec("F-08")
@pytest.mark.parametrize(
    ("text", "markup", "shown"),
    [
        ("**AAPL** is *up* 3%", "plain", "AAPL is up 3%"),
        ("**AAPL** is *up* 3%", "inline_html", "<b>AAPL</b> is <i>up</i> 3%"),
        ("**AAPL** is *up* 3%", "html", "<p><strong>AAPL</strong> is <em>up</em> 3%</p>"),
        ("**AAPL** is *up* 3%", "mrkdwn", "*AAPL* is _up_ 3%"),
        ("**삼성전자**는 `x`도 *up*", "mrkdwn", "*삼성전자*\u200b는 `x`\u200b도 _up_"),
        ("**AAPL** is _up_ 3%", "markdown", "**AAPL** is *up* 3%"),
        ("**AAPL** is *up* 3%", "source", "**AAPL** is *up* 3%"),
        ("**삼성전자(005930)**는 *올랐*습니다", "inline_html", "<b>삼성전자(005930)</b>는 <i>올랐</i>습니다"),
        ("그는 **“매수”**라고 했다", "inline_html", "그는 <b>“매수”</b>라고 했다"),
        ("# Prices\n* one\n* two", "plain", "Prices\n• one\n• two"),
        ("# **Prices**\nS&P <500>", "html", "<h1>Prices</h1><p>S&amp;P &lt;500&gt;</p>"),
        ("[Quote](https://a.example/x?a=1&b=2)", "plain", "Quote (https://a.example/x?a=1&b=2)"),
        ("[Quote](https://a.example)", "mrkdwn", "<https://a.example|Quote>"),
        ("[Quote](https://a.example/?a=1&b=2)", "inline_html", '<a href="https://a.example/?a=1&amp;b=2">Quote</a>'),
        ("[Quote](<https://a.example/a (b)>)", "markdown", "[Quote](https://a.example/a%20%28b%29)"),
        ("![chart](https://a.example/c.png)", "inline_html", '<a href="https://a.example/c.png">chart</a>'),
        ("see [](https://a.example), [x](https://b.example)", "inline_html",
         'see <a href="https://a.example">https://a.example</a>, <a href="https://b.example">x</a>'),
        ("> ` ` x", "inline_html", "<blockquote><code> </code> x</blockquote>"),
        ("> ` `", "inline_html", "&gt;"),
        ("**[**](https://a.example) x", "inline_html", '**<a href="https://a.example">**</a> x'),
        ("[Quote](javascript:alert)", "inline_html", "[Quote](javascript:alert)"),
        ('<b onclick="x">hi</b>', "inline_html", "&lt;b onclick=&quot;x&quot;&gt;hi&lt;/b&gt;"),
        ("[1]: https://a.example/x", "plain", "[1]: https://a.example/x"),
        ("see https://a.example/_a_/*b", "inline_html", "see https://a.example/_a_/*b"),
        ("```py\na < *b*\n```\nend", "inline_html", '<pre><code class="language-py">a &lt; *b*</code></pre>\nend'),
        ("```\nnever closed", "mrkdwn", "```\nnever closed\n```"),
        ("```\na ``` b\n```", "markdown", "````\na ``` b\n````"),
        ("use `x_y` and ~~no~~", "mrkdwn", "use `x_y` and ~no~"),
        ("use ``a`b``", "markdown", "use ``a`b``"),
        ("**bold with *italic* in it**", "inline_html", "<b>bold with <i>italic</i> in it</b>"),
        ("- a\n  - b\n- c", "html", "<ul><li>a<ul><li>b</li></ul></li><li>c</li></ul>"),
        ("- a\n  - b\n- c", "inline_html", "• a\n  • b\n• c"),
        ("- 3.2%\n- 4", "plain", "- 3.2%\n- 4"),
        ("3. a\n4. b", "html", '<ol start="3"><li>a</li><li>b</li></ol>'),
        ("1. a\n1. **b**", "plain", "1. a\n1. b"),
        ("2026. 5. 1. **기준**", "html", "<p>2026. 5. 1. <strong>기준</strong></p>"),
        ("> a\n> > b", "inline_html", "<blockquote>a\nb</blockquote>"),
        ("> a\n\nb", "mrkdwn", "> a\n\nb"),
        ("a\n\n---\nb", "inline_html", "a\n\n———\nb"),
        ("words\n---\nmore", "inline_html", "words\n———\nmore"),
        (r"2 \* 3 &amp; 4", "plain", "2 * 3 & 4"),
    ],
)  # fmt: skip
def test_what_markdown_means_is_shown(text: str, markup: Markup, shown: str) -> None:
    assert show(text, markup) == shown


@pytest.mark.parametrize(
    "text",
    ["2*3*4", "2 * 3 * 4", "2**3**4", "a*b*c", "a_b_c", "__init__.py is", "100~200 ~~", "5 > 3 # 1", "-3%"],
)
def test_arithmetic_and_names_stay_as_they_are(text: str) -> None:
    assert show(text, "plain") == text


@pytest.mark.parametrize("markup", ["plain", "html", "inline_html", "mrkdwn", "markdown"])
@given(text=st.text(st.sampled_from("ab가1234567890.,%$ *_`~[]()#<>&\"'|\\-+\n"), max_size=120))
def test_no_figure_is_changed_and_no_tag_is_smuggled_in(markup: Markup, text: str) -> None:
    options = FormatOptions(markup=markup)
    message = format_message(text, options)
    check_parts(message, options)
    plain = "".join(part.plain for part in message.parts)
    assert _figures(plain) == _figures(text)
    if markup != "html":  # whose lists are numbered by the reader
        shown = "".join(read_part(part.content, markup) for part in message.parts)
        assert _figures(shown) == _figures(text)


def _figures(text: str) -> str:
    return "".join(re.findall(r"\d", text))


@given(text=st.text(st.sampled_from("ab가1 *_`~[]()#<>&\"'|\\-\n"), max_size=120).map(str.strip))
def test_what_is_no_markdown_is_shown_to_the_letter(text: str) -> None:
    for markup, read in _READERS.items():
        options = FormatOptions(markup=markup, max_length=300)
        parts = format_message(text, options, is_literal=True).parts
        assert "".join(read(part.content) for part in parts) == "".join(part.plain for part in parts) == text


_READERS: dict[Markup, Callable[[str], str]] = {
    "plain": str,
    "inline_html": lambda text: read_html(text, "inline_html"),
    "mrkdwn": html.unescape,
    "markdown": lambda text: re.sub(r"\\([\\*_~`|>\[\]#<])", r"\1", text),
}


# ── tables ──────────────────────────────────────────────────────────────────────────────────────────────────────

_PRICES = "| 종목 | 현재가 | 등락 |\n|---|--:|:-:|\n| 삼성전자 | 71,200 | +1.2% |\n| AAPL | **190.5** | -0.35% |"
_ALIGNED = (
    "종목      현재가   등락\n"
    "--------  ------  ------\n"
    "삼성전자  71,200  +1.2%\n"
    "AAPL       190.5  -0.35%"
)  # fmt: skip


@pytest.mark.spec("F-08")
def test_a_narrow_table_is_aligned_by_the_width_of_its_letters() -> None:
    assert show(_PRICES, "inline_html") == f"<pre>{_ALIGNED}</pre>"
    assert show(_PRICES, "markdown") == show(_PRICES, "mrkdwn") == f"```\n{_ALIGNED}\n```"
    assert show(_PRICES, "plain") == _ALIGNED
    assert show(_PRICES, "html").startswith("<table><thead><tr><th>종목</th>")
    assert "<td><strong>190.5</strong></td><td>-0.35%</td></tr></tbody></table>" in show(_PRICES, "html")
    assert show("| a | b |\n|---|---|\n| x | 1 |\n| y | 20 |", "plain").splitlines()[2:] == ["x   1", "y  20"]


def test_a_wide_table_or_one_with_links_is_a_list_of_rows() -> None:
    wide = f"| Name | Why | |\n|---|---|---|\n| **AAPL** | {'good reasons ' * 5} | x |\n| MSFT | | |"
    reasons = ("good reasons " * 5).strip()
    assert show(wide, "inline_html") == f"• Name: <b>AAPL</b>\n  Why: {reasons}\n  x\n• Name: MSFT"
    linked = "| Name | Source |\n|---|---|\n| AAPL | [here](https://a.example) |"
    assert show(linked, "mrkdwn") == "• Name: AAPL\n  Source: <https://a.example|here>"
    assert '<td><a href="https://a.example">here</a></td>' in show(linked, "html")


def test_cells_without_a_head_are_not_lost() -> None:
    assert show("| a | b |\n|---|---|\n| 1 | 2 | 3 | 4 |", "plain").splitlines()[-1] == "1  2 | 3 | 4"


@pytest.mark.spec("F-07")
@pytest.mark.parametrize("markup", ["inline_html", "html", "markdown", "mrkdwn"])
def test_a_table_that_is_cut_has_its_head_in_every_part(markup: Markup) -> None:
    rows = "\n".join(f"| AAPL{n} | {n} |" for n in range(60))
    options = FormatOptions(markup=markup, max_length=300)
    message = format_message(f"Look:\n\n| name | price |\n|---|--:|\n{rows}", options)
    check_parts(message, options)
    tables = [part for part in message.parts if "AAPL" in part.content]
    assert len(tables) > 3
    assert all(read_part(part.content, markup).count("price") == 1 for part in tables)
    assert all(part.content.count("AAPL") == part.plain.count("AAPL") for part in tables)


@pytest.mark.spec("F-07")
def test_a_numbered_list_that_is_cut_goes_on_counting() -> None:
    text = "\n".join(f"{n}. item **{n}** with some words" for n in range(5, 40))
    parts = format_message(text, FormatOptions(markup="html", max_length=200)).parts
    found = [re.findall(r'start="(\d+)"><li>item <strong>(\d+)', part.content) for part in parts]
    assert len(found) > 5
    assert all(len(each) == 1 and each[0][0] == each[0][1] for each in found)


# ── options and result ──────────────────────────────────────────────────────────────────────────────────────────

_CARD = Embed(title="AAPL", text="**up**", url="https://a.example")


@pytest.mark.spec("F-01", "F-02")
def test_options_and_parts() -> None:
    text = "# Prices\n\n```py\nx = 1\n```\n\n" + "word " * 60
    options = FormatOptions(max_length=120, markup="markdown", embeds=True)
    message = format_message(text, options, embeds=[_CARD])
    assert [part.index for part in message.parts] == list(range(len(message.parts)))
    assert [part.is_last for part in message.parts] == [False] * (len(message.parts) - 1) + [True]
    assert [part.embeds for part in message.parts] == [()] * (len(message.parts) - 1) + [(_CARD,)]
    assert message.was_split
    assert message.total_length == sum(len(part.content) for part in message.parts)
    assert all(len(part.content) <= 120 for part in message.parts)
    assert "```py\nx = 1\n```" in message.parts[0].content
    indented = format_message(text, replace(options, code_style="indented"), embeds=[_CARD])
    assert "\n    x = 1" in indented.parts[0].content
    assert "```" not in indented.parts[0].content
    bare = format_message("Look.", replace(options, embeds=False, markup="plain"), embeds=[_CARD])
    assert [(part.content, part.embeds) for part in bare.parts] == [("Look.\n\nAAPL\nup\nhttps://a.example", ())]
    assert not bare.was_split
    assert format_message("", options, embeds=[_CARD]).parts[0].embeds == (_CARD,)
    assert format_message(" \n", options).parts == ()


@pytest.mark.parametrize(("markup", "text"), [("markdown", "**up** 2\\*3"), ("mrkdwn", "*up* 2*3"), ("source", None)])
def test_cards_are_in_the_markup_of_the_channel_and_long_ones_are_text(markup: Markup, text: str | None) -> None:
    options = FormatOptions(markup=markup, embeds=True, max_length=200)
    card, long = Embed(title="AAPL", text="**up** 2*3"), Embed(title="long", text="**many** words " * 20)
    message = format_message("Look.", options, embeds=[card, long])
    shown = message.parts[-1].embeds
    assert [(each.title, each.text, each.rendered) for each in shown] == [("AAPL", "**up** 2*3", text)]
    assert message.was_split
    assert "".join(part.plain for part in message.parts).count("many") == 20
    literal = format_message("Look.", options, embeds=[card], is_literal=True).parts[0].embeds[0]
    assert (literal.rendered or literal.text) == ("\\*\\*up\\*\\* 2\\*3" if markup == "markdown" else "**up** 2*3")


@pytest.mark.spec("F-01")
def test_numbers_are_written_as_the_options_say() -> None:
    price, change = Decimal("71200"), Decimal("-0.0123")
    english, korean = FormatOptions(), FormatOptions(number_locale="ko", currency_display="name")
    assert english.format_number(price, "KRW") == "₩71,200"
    assert korean.format_number(price, "KRW", show_sign=True) == "+71,200원"
    assert korean.format_number(change, style="percent") == "-1.23%"


@pytest.mark.parametrize(("word", "said"), [("word", "(continued)"), ("단어", "(이어짐)")])
def test_further_parts_say_that_they_continue(word: str, said: str) -> None:
    for markup in get_args(Markup):
        options = FormatOptions(max_length=100, says_continued=True, markup=markup)
        parts = format_message(f"**{word}** & {word} " * 40, options).parts
        assert len(parts) > 2
        assert not parts[0].content.startswith(said)
        assert all(part.content.startswith(said) and part.plain.startswith(f"{said}\n") for part in parts[1:])
        assert all(max(len(part.plain), len(part.content) * (markup != "inline_html")) <= 100 for part in parts)


def test_code_and_tables_that_no_part_can_hold_become_files() -> None:
    code = "\n".join(f"line_{n} = '**{n}**'" for n in range(50))
    rows = "\n".join(f"| name{n} | =1+{n} | -{n}% |" for n in range(40))
    text = f"Look:\n\n```python\n{code}\n```\n\n| a | b | c |\n|---|---|---|\n{rows}\n\n```\nshort\n```"
    options = FormatOptions(max_length=400, markup="inline_html", file_bytes=10_000)
    message = format_message(text, options)
    (part,) = message.parts
    assert part.plain == "Look:\n\n📎 code-1.py (attached, 50 lines)\n\n📎 table-2.csv (attached, 40 rows)\n\nshort"
    script, table = message.files
    assert (script.name, script.mime, script.data.decode()) == ("code-1.py", "text/plain", code)
    assert (table.name, table.mime) == ("table-2.csv", "text/csv")
    assert table.data.decode("utf-8-sig").splitlines()[:3] == ["a,b,c", "name0,'=1+0,-0%", "name1,'=1+1,-1%"]
    for without in (replace(options, file_bytes=0), replace(options, file_bytes=100)):
        assert len(format_message(text, without).parts) > 3
        assert format_message(text, without).files == ()


# ── time ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _spend(text: str, options: FormatOptions) -> float:
    start = time.process_time()
    format_message(text, options)
    return time.process_time() - start


_DENSE = (
    "Apple (**AAPL**) closed at **$243.36**, down 2.63% on the day; see [Reuters](https://news.example/a) and `10-K`. "
    "삼성전자(**005930**)는 어제보다 **1,200원** 오른 71,200원에 마감했습니다.\n\n"
    "- **Volume**: 12,345,678\n- *Range*: 1–2\n\n"
)


@pytest.mark.parametrize("kind", ["varied", "dense"])
def test_an_answer_of_100_kb_takes_less_than_150_ms(kind: str) -> None:
    varied = "\n\n".join(make_document(seed).text for seed in range(300))
    text = (varied if kind == "varied" else _DENSE * 1_000).encode()[:100_000].decode(errors="ignore")
    for name in ("telegram", "matrix"):
        options = get_format_options(PROFILES[name])
        # Coverage traces our lines and not those of the packages by which `slowness` is measured.
        traced = 2 if sys.gettrace() else 1
        limit = 0.15 * slowness() * traced
        assert any(_spend(text, options) < limit for _ in range(3))
    assert gc.isenabled()


@pytest.mark.parametrize(
    "piece",
    ["**a ", "*a* ", "> ", "- ", "1. ", "[", "[a](", "![", "`", "```\n", "~~", "|a|b|\n", "|a|\n|-|\n", "<a ", "&",
     "\\", "a:", "http://a ", "_a", "*_", "**a**", "👨‍👩‍👧‍👦", "\n> ", "    a\n", "- a\n  ", "a*b*c ", "<<", "]", "\n"],
)  # fmt: skip
def test_hostile_texts_take_time_in_proportion_to_their_length(piece: str) -> None:
    options = FormatOptions(markup="inline_html", length_unit="utf16")
    _spend(piece * 500, options)
    short = min(_spend(piece * 3_000, options) for _ in range(2))
    limit = 0.1 * slowness() + 9 * short
    assert any(_spend(piece * 12_000, options) < limit for _ in range(2))
