"""Tags go, words stay, and nothing that only looks like a tag is eaten."""

import json
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finclaw.tools.result_guard import GuardOptions, guard, strip_markup


@pytest.mark.spec("DX-32", "RG-07")
@pytest.mark.parametrize(
    "text",
    [
        "a < b and c > d",
        "a<b and c>d",
        "x<y>z",
        "List<int>, Map<String, List<int>>",
        "P/E < 20 && ROE > 15",
        "1 << 3 >> 2",
        "<- buy, sell ->",
        "i <3 stocks",
        "<https://example.com> and <me@example.com>",
        '<ifrs:Revenue contextRef="c1" unitRef="KRW">258935494000000</ifrs:Revenue>',
        "<PER>12.3</PER>",
        "Tom & Jerry, AT&T, a &lt; b, R&amp;D",
        "<!-- never closed",
        "price <",
    ],
)
def test_plain_text_survives(text: str):
    assert strip_markup(text) == text


@pytest.mark.spec("RG-07", "DX-32")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<b>up</b> 3%", "up 3%"),
        ("4111<b>1111</b>1111<i class='x'>1111</i>", "4111111111111111"),
        ("<script>alert(1)</script>hi", "hi"),
        ("<SCRIPT SRC=//x></SCRIPT >hi", "hi"),
        ("<style>p{}</style>hi", "hi"),
        ("<scr<script>ipt>alert(1)</script>hi", "<scrhi"),
        ("<<b>b>hi", "hi"),
        ("<svg/onload=alert(1)>hi", "hi"),
        ("<x onclick=alert(1)>hi", "hi"),
        ('<a title="x<y" onclick=z>hi</a>', "hi"),
        ("<a href='a>b'>hi</a>", "hi"),
        ('<img alt="<script>alert(1)</script>" onerror=x>hi', "hi"),
        ("hi<img src=x onerror=alert(1) //", "hi"),
        ("hi<img src=x onerror=alert(1) <y>", "hi<y>"),
        ("hi<x/onclick=alert(1) <b", "hi<b"),
        ("<!-- hidden -->hi", "hi"),
        ("<!doctype html>hi", "hi"),
        ("4&#49;&#x31;1", "4111"),
        ("4&#x200b;1", "41"),
        ("<p>1</p><p>2</p>", "\n1\n\n2\n"),
        ("<td>1</td><td>2</td>", "\t1\t\t2\t"),
    ],
)
def test_markup_goes_and_words_stay(text: str, words: str):
    assert strip_markup(text) == words


def test_json_stays_json():
    page = json.dumps({"html": '<p class="x">삼성 <b>71,200</b>원</p>&#10;&quot;', "n": [1, 2]}, ensure_ascii=False)
    assert json.loads(strip_markup(page))["n"] == [1, 2]


@pytest.mark.spec("DX-32")
@pytest.mark.parametrize(
    "tag", ["<b>", "</i>", "<span class='a>b'>", "<!-- -->", "<wbr/>", "<a href=x>", "<script>1</script>"]
)
def test_no_tag_inside_a_number_hides_it_from_the_mask(tag: str):
    for place in range(1, 16):
        number = "4111111111111111"
        assert guard(number[:place] + tag + number[place:]).content == "[card …1111]"


def test_html_may_be_allowed():
    assert guard("<b>x</b>", GuardOptions(allow_html=True)).content == "<b>x</b>"


class Tags(HTMLParser):
    """The standard library's word on what is a tag."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = list[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)


SNIPPETS = [
    "<",
    ">",
    "</",
    "/>",
    "script",
    "b",
    "img",
    " ",
    "=",
    '"',
    "'",
    "onerror=",
    "<!--",
    "-->",
    "&lt;",
    "&#60;",
    "x",
    "1",
    "\n",
]


@given(st.lists(st.sampled_from(SNIPPETS), max_size=30))
def test_stripping_twice_changes_nothing_and_no_script_is_left(parts: list[str]):
    once = strip_markup("".join(parts))
    assert strip_markup(once) == once
    parser = Tags()
    parser.feed(once)
    assert "script" not in parser.seen
