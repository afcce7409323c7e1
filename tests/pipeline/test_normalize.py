"""Stage 1: one tidy line for matching beside the text as it was written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finclaw.kernel.envelope import Attachment, Inbound, Sender
from finclaw.pipeline.gate import NormalMessage, normalize
from finclaw.pipeline.stage import Halt


def read(text: str) -> NormalMessage:
    return normalize(Inbound(text=text))


@pytest.mark.spec("P-17", "P-12", "P-04")
def test_row_02_the_standard_form_keeps_the_envelope_as_it_is() -> None:
    inbound = Inbound(text="<@7>  hi\n https://x.org ")
    assert normalize(inbound) == NormalMessage(
        inbound=inbound, content="hi https://x.org", mentions=("7",), urls=("https://x.org",), is_bot=False
    )


@pytest.mark.spec("P-18")
def test_row_02_our_own_messages_are_skipped() -> None:
    with pytest.raises(Halt, match="our own message") as halt:
        normalize(Inbound(text="hi", sender=Sender("us", is_bot=True, is_self=True)))
    assert (halt.value.kind, halt.value.outcome) == ("skip", "skipped")


@pytest.mark.spec("P-17")
def test_row_02_other_bots_are_skipped() -> None:
    with pytest.raises(Halt, match="another bot"):
        normalize(Inbound(text="hi", sender=Sender("them", is_bot=True)))


@pytest.mark.spec("P-19")
@pytest.mark.parametrize("text", ["", "   ", "\n\t\u3000"])
def test_row_02_empty_messages_are_skipped(text: str) -> None:
    with pytest.raises(Halt, match="empty message"):
        read(text)
    picture = Attachment(id="1", kind="image")
    assert normalize(Inbound(text=text, attachments=(picture,))).inbound.attachments == (picture,)


@pytest.mark.spec("P-20", "DX-08")
@given(st.text().filter(str.strip))
def test_only_the_copy_is_tidied(text: str) -> None:
    message = read(text)
    assert message.inbound.text == text
    assert message.content == " ".join(message.content.split())


@pytest.mark.spec("P-21")
@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        ("<@1> hi <@!2>", ("1", "2")),
        ("<@1><@1> <@!1>", ("1",)),
        ("mail a@b.c, <@>, <@ 1>, @ada", ()),
        ("<@U02A.x:y-z_9>", ("U02A.x:y-z_9",)),
    ],
)
def test_row_02_mentions_in_both_forms(text: str, mentions: tuple[str, ...]) -> None:
    assert read(text).mentions == mentions


@pytest.mark.parametrize("text", ["<@1> /help", "<@1>\n<@!2>   /help", "  /help"])
def test_mentions_in_front_do_not_hide_a_command(text: str) -> None:
    assert read(text).content == "/help"


@pytest.mark.spec("P-22")
@pytest.mark.parametrize(
    ("text", "urls"),
    [
        ("see https://a.example/b?c=d#e now", ("https://a.example/b?c=d#e",)),
        ("HTTP://A.example, http://b.example.", ("HTTP://A.example", "http://b.example")),
        ("<https://a.example/x>", ("https://a.example/x",)),
        ("(https://a.example/wiki_(x)) and [https://b.example]", ("https://a.example/wiki_(x)", "https://b.example")),
        ("https://a.example/가격。", ("https://a.example/가격",)),
        ("ftp://a.example javascript://x www.a.example", ()),
        ("https://a.example https://a.example", ("https://a.example",)),
    ],
)
def test_row_02_links_end_where_they_end(text: str, urls: tuple[str, ...]) -> None:
    assert read(text).urls == urls
