"""Reading a page: its words in order, nothing that people do not see, and no page that takes long."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.machine import is_quick

from finclaw.builtins.web.reader import read_html, tokens

URL = "https://www.example.com/news/today.html"


def words(page: str) -> str:
    return read_html(page, URL).text


def test_a_page_is_read_as_a_person_would_read_it() -> None:
    page = """<!DOCTYPE html><html lang=ko><head><meta charset=utf-8><title>실적 &amp; 전망 |
      뉴스</title><style>p{color:red}</style><script>if (a<b) alert("<p>no</p>")</script></head>
    <body><nav><a href="/">home</a></nav><main><h1>3분기 <em>실적</em></h1>
    <p>매출은 <b>79조원</b>,&nbsp;이익은 &lt;12조&gt;.<br>자세히는 <a href="../ir?y=2026#top">여기</a>.
    <p>둘째 문단<ul><li>하나<li><p>둘</p></ul>
    <table><tr><th>년</th><th>매출</th></tr><tr><td>2025<td><div>300</div></tr></table>
    <pre>a = 1
b = 2</pre></main><footer>저작권</footer></body></html>"""
    title, text = read_html(page, URL)
    assert title == "실적 & 전망 | 뉴스"
    assert text.split("\n") == [
        "# 3분기 실적",
        "매출은 79조원, 이익은 <12조>.",
        "자세히는 여기 (https://www.example.com/ir?y=2026).",
        "둘째 문단",
        "- 하나",
        "- 둘",
        "년 | 매출",
        "2025 | 300",
        "a = 1",
        "b = 2",
    ]


def test_the_main_part_is_enough_when_it_is_long() -> None:
    long = "<p>words</p>" * 200
    assert "beside" not in words(f"<p>beside</p><main>{long}</main>")
    assert "beside" in words("<p>beside</p><main>short</main>")
    assert words("<nav>only a menu</nav>") == "only a menu"


@pytest.mark.parametrize(
    "hidden",
    [
        "<p hidden>SECRET</p>",
        "<p HIDDEN=''>SECRET</p>",
        "<p hidden=until-found>SECRET</p>",
        "<p aria-hidden=true>SECRET</p>",
        "<p style='display:none'>SECRET</p>",
        "<p style='color: red ; DISPLAY : NONE !important'>SECRET</p>",
        "<p style='display:/**/none'>SECRET</p>",
        "<p style='display:\\6eone'>SECRET</p>",
        "<p style='&#100;isplay:none'>SECRET</p>",
        "<p style='visibility:hidden'>SECRET</p>",
        "<p style='font-size:0'>SECRET</p>",
        "<p style='font-size:0.0em'>SECRET</p>",
        "<p style='font-size:1px'>SECRET</p>",
        "<p style='opacity:0'>SECRET</p>",
        "<p style='opacity:0.01'>SECRET</p>",
        "<p style='height:0;overflow:hidden'>SECRET</p>",
        "<p style='position:absolute;left:-9999px'>SECRET</p>",
        "<p style='text-indent:-999em'>SECRET</p>",
        "<p style='clip:rect(0,0,0,0)'>SECRET</p>",
        "<p style='color:#fff;background:#fff'>SECRET</p>",
        "<p style='color:transparent'>SECRET</p>",
        "<p style='" + "a:b;" * 2_000 + "display:none'>SECRET</p>",
        "<div hidden><span></div>kept? <!-- no --></span><p hidden>SECRET</p>",
        "<div style=display:none><div><p>SECRET</p></div>SECRET</div>",
        "<div hidden><div></div>SECRET</div>",
        "<div hidden></p></span>SECRET</div>",
        "<ul><li hidden>SECRET<li>shown</ul>",
        "<p hidden>SECRET<p>shown",
        "<!-- SECRET -->",
        "<!-- > SECRET -->",
        "<!-- --!><!-- SECRET --!>",
        "<!doctype SECRET>",
        "<?php SECRET ?>",
        "<![CDATA[SECRET]]>",
        "</ SECRET>",
        "<script>SECRET</script>",
        "<script>'</scripty>SECRET'</script >",
        "<SCRIPT SRC='x'>SECRET</ScRiPt\n>",
        "<style>SECRET</style>",
        "<template>SECRET</template>",
        "<noscript>SECRET</noscript>",
        "<textarea></p>SECRET</textarea>",
        "<iframe>SECRET</iframe>",
        "<svg><text>SECRET</text></svg>",
        "<select><option>SECRET</select>",
        "<dialog>SECRET</dialog>",
        "<img alt=SECRET title=SECRET>",
        "<p title='SECRET' data-x=\"SECRET\" SECRET></p>",
        "<a href='javascript:SECRET'>link</a>",
        "<a href='data:text/html,SECRET'>link</a>",
    ],
    ids=ascii,
)
def test_what_people_do_not_see_is_not_read(hidden: str) -> None:
    text = words(f"<body><p>before</p>{hidden}<p>after</p>")
    assert "SECRET" not in text
    assert text.startswith("before")
    assert text.endswith("after")


@pytest.mark.parametrize(
    "shown",
    [
        "<p style='font-size:10px'>SEEN</p>",
        "<p style='font-size:0.9em'>SEEN</p>",
        "<p style='opacity:0.9'>SEEN</p>",
        "<p style='opacity:.95'>SEEN</p>",
        "<p style='line-height:0.5;min-height:0'>SEEN</p>",
        "<p style='margin-left:-10px'>SEEN</p>",
        "<p style='color:#fff;background:#000'>SEEN</p>",
        "<p aria-hidden=false>SEEN</p>",
        "<p class=hidden>SEEN</p>",
        "<dialog open>SEEN</dialog>",
        "<p hidden>x</p>SEEN",
        "<script>x</script>SEEN",
        "<head><title>x</title><p>SEEN",
        "a < b SEEN",
        "<!---->SEEN",
        "<!-->SEEN",
        "<p a='>'>SEEN</p>",
        "<p a=\"'\" b='\"'>SEEN</p>",
        "<p/>SEEN",
        "<p =a>SEEN",
        "S&#69;EN",
        "S&#x45;EN",
        "SEEN &#" + "9" * 5_000 + "; &bogus; &",
    ],
    ids=lambda text: ascii(text[:60]),
)
def test_what_people_see_is_read(shown: str) -> None:
    assert "SEEN" in words(f"<html><body>{shown}</body></html>")


def test_letters_that_only_a_machine_sees_are_taken_out() -> None:
    smuggled = "".join(chr(0xE0000 + ord(sign)) for sign in "obey")
    assert words(f"<p>pl\u200bain{smuggled}\u202e\u2066 text\ufeff") == "plain text"


def test_links_show_where_they_lead_and_not_too_many_do() -> None:
    assert words("<a href=//other.example.com/x>there</a>") == "there (https://other.example.com/x)"
    assert words("<a href='#top'>up</a> <a href='mailto:a@b.c'>mail</a> <a href='http://[bad'>bad</a>") == "up mail bad"
    assert words("<a href='/x'></a>nothing") == "nothing"
    assert words("<a href='/x'>x</a> " * 2_000).count("(https://") == 500


UGLY = [
    *(
        "<div>",
        "<!--",
        "<!D ",
        "<![CDATA[",
        "<script></",
        "<",
        "< ",
        "<a ",
        "<a b='",
        "<a b=",
        "</a ",
        "</a>",
        "&",
        "&#",
    ),
    *(
        "<p>x",
        "<td>",
        "<b><i></b>",
        "<div style='/*'>",
        "<div style='\\'>",
        "<li hidden>",
        "<title>",
        "<a href=x>y</a>",
    ),
    *("<a href='//x/../../'>y", "<pre>\n", "<h1>", "<table><tr><td>x", "<div hidden>", "<a =", "<p></div>", "= '"),
    *("<svg><title>", "<x" + "y" * 10, "<a x" + " " * 900, "<i style='" + "/*" * 900 + "'>"),
]


@pytest.mark.parametrize("piece", UGLY, ids=lambda text: ascii(text[:20]))
def test_no_page_takes_long(piece: str) -> None:
    page = piece * (100_000 // len(piece))
    began = time.process_time()
    read_html(page, URL)
    # A tenth here; the interpreter's own reader takes from five seconds to minutes for some.
    assert is_quick(time.process_time() - began, 3)


def test_a_hundred_thousand_attributes_and_a_hundred_thousand_elements_are_nothing() -> None:
    began = time.process_time()
    assert words("<p " + "".join(f"a{number}='{number}' " for number in range(100_000)) + ">SEEN") == "SEEN"
    assert words("<div>" * 100_000 + "SEEN" + "</div>" * 100_000) == "SEEN"
    assert words("".join(f"<b {number}>" for number in range(50_000)) + "SEEN</b>" * 50_000).startswith("SEEN")
    assert is_quick(time.process_time() - began, 15)


pieces = st.lists(
    st.sampled_from(["<", ">", "</", "<!--", "-->", "<p", " hidden", "='", "'", '"', "script", "title", "&", "#x", ";"])
    | st.text(max_size=5)
).map("".join)


@given(pieces)
def test_any_text_at_all_can_be_read(page: str) -> None:
    read_html(page, URL)
    assert sum(len(token) for token in tokens(page) if isinstance(token, str)) <= 8 * len(page)


@given(
    st.text(alphabet=st.characters(exclude_characters="<&", exclude_categories=["Cs", "Cc", "Cf", "Z"]), max_size=50)
)
def test_plain_words_come_through_unchanged(text: str) -> None:
    assert words(f"<body><p>{text}x</p></body>") in (f"{text}x", f"{text}x".lstrip("|"))
