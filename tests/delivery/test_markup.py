"""Markdown on each platform: what it means is shown, what it says is never changed."""

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finclaw.delivery.markup import escape, render
from finclaw.kernel.envelope import Markup

MARKDOWN = st.text(st.sampled_from("ab가1234567890.,%$ *_`~[]()#<>&\"'|\\-\n"), max_size=120)
RENDERED: list[Markup] = ["plain", "html", "inline_html", "mrkdwn"]
_TAG = re.compile(r'</?(?:b|i|s|code|pre)>|<br/>|<a href="[^"<>]*">|</a>')


@pytest.mark.parametrize(
    ("text", "markup", "shown"),
    [
        ("**AAPL** is *up* 3%", "plain", "AAPL is up 3%"),
        ("**AAPL** is *up* 3%", "inline_html", "<b>AAPL</b> is <i>up</i> 3%"),
        ("**AAPL** is *up* 3%", "mrkdwn", "*AAPL* is _up_ 3%"),
        ("**AAPL** is *up* 3%", "markdown", "**AAPL** is *up* 3%"),
        ("**AAPL** is *up* 3%", "source", "**AAPL** is *up* 3%"),
        ("**삼성전자**는 올랐습니다", "inline_html", "<b>삼성전자</b>는 올랐습니다"),
        ("# Prices\n* one\n* two", "plain", "Prices\n• one\n• two"),
        ("# Prices\nS&P <500>", "html", "<b>Prices</b><br/>S&amp;P &lt;500&gt;"),
        ("[Quote](https://a.example/x?a=1&b=2)", "plain", "Quote (https://a.example/x?a=1&b=2)"),
        ("[Quote](https://a.example)", "mrkdwn", "<https://a.example|Quote>"),
        ("[Quote](https://a.example/?a=1&b=2)", "inline_html", '<a href="https://a.example/?a=1&amp;b=2">Quote</a>'),
        ("[Quote](javascript:alert)", "inline_html", "[Quote](javascript:alert)"),
        ("```py\na < b\n**c**\n```\nend", "inline_html", "<pre>a &lt; b\n**c**</pre>\nend"),
        ("```\nnever closed", "mrkdwn", "```\nnever closed\n```"),
        ("use `x_y` and ~~no~~", "mrkdwn", "use `x_y` and ~no~"),
        ("**bold with *italic* in it**", "inline_html", "<b>bold with <i>italic</i> in it</b>"),
    ],
)
def test_what_markdown_means_is_shown(text: str, markup: Markup, shown: str) -> None:
    assert render(text, markup) == shown


@pytest.mark.parametrize(
    "text",
    ["2*3*4", "2 * 3 * 4", "2**3**4", "a_b_c", "__init__.py is", "100~200 ~~", "5 > 3 # 1", "snake_case"],
)
def test_arithmetic_and_names_stay_as_they_are(text: str) -> None:
    assert render(text, "plain") == text


@pytest.mark.parametrize("markup", RENDERED)
@given(text=MARKDOWN)
def test_no_number_is_changed(markup: Markup, text: str) -> None:
    shown = _TAG.sub("", render(text, markup))
    assert "".join(re.findall(r"\d", html.unescape(shown))) == "".join(re.findall(r"\d", text))


@given(text=MARKDOWN)
def test_html_holds_no_tags_but_ours(text: str) -> None:
    for shown in (render(text, "html"), render(text, "inline_html"), escape(text, "html")):
        assert not set(_TAG.sub("", shown)) & {"<", ">"}


@given(text=MARKDOWN)
def test_what_is_no_markdown_is_shown_to_the_letter(text: str) -> None:
    assert escape(text, "plain") == text
    assert html.unescape(escape(text, "inline_html")) == text
    assert html.unescape(escape(text, "mrkdwn")) == text
    assert re.sub(r"\\(.)", r"\1", escape(text, "markdown")) == text
