"""Which charset a page is in: the mark, the header, its own word, a guess. Never a codec that is none."""

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finclaw.fetch.charset import decode, is_text

KOREAN = "삼성전자 주가"


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (KOREAN.encode(), "utf-8"),
        (KOREAN.encode(), ""),
        (KOREAN.encode("cp949"), "EUC-KR"),
        (KOREAN.encode("cp949"), "ks_c_5601-1987"),
        (KOREAN.encode("cp949"), ""),
        (KOREAN.encode("cp949"), "no-such-charset"),
        (codecs.BOM_UTF8 + KOREAN.encode(), "euc-kr"),
        (codecs.BOM_UTF16_LE + KOREAN.encode("utf-16-le"), ""),
        (codecs.BOM_UTF16_BE + KOREAN.encode("utf-16-be"), "utf-8"),
        (KOREAN.encode("utf-16-le"), "utf-16"),
    ],
)
def test_korean_arrives_whole(body: bytes, named: str) -> None:
    assert decode(body, named) == KOREAN


@pytest.mark.parametrize(
    "head",
    [
        '<meta charset="euc-kr">',
        "<META http-equiv=Content-Type content='text/html; charset=euc-kr'>",
        '<?xml version="1.0" encoding="euc-kr"?>',
    ],
)
def test_a_page_may_name_its_charset_itself(head: str) -> None:
    assert decode((head + KOREAN).encode("cp949"), "") == head + KOREAN


def test_a_wrong_charset_spoils_letters_and_nothing_else() -> None:
    assert "<p>" in decode(f"<p>{KOREAN}".encode("cp949"), "utf-8")
    assert decode(b"caf\xe9 \x93quoted\x94", "iso-8859-1") == "café “quoted”"
    assert decode(b"caf\xe9\n", "") == "café\n"
    assert decode(f"{KOREAN}\n{KOREAN}".encode()[:-1], "") == f"{KOREAN}\n{KOREAN[:-1]}�"


@pytest.mark.parametrize(
    "codec", ["utf-7", "unicode_escape", "raw_unicode_escape", "idna", "punycode", "rot13", "zlib", "hex", "undefined"]
)
def test_codecs_that_do_more_than_read_are_not_charsets(codec: str) -> None:
    body = b"+ADw-script+AD4- \\x3cb\\x3e"
    assert decode(body, codec) == body.decode()
    assert decode(b"<meta charset=" + codec.encode() + b">" + body, "").endswith(body.decode())


@given(st.binary(max_size=400), st.text(max_size=20) | st.sampled_from(["utf-8", "euc-kr", "utf-16", "big5", "koi8-r"]))
def test_any_bytes_become_text_that_can_be_sent(body: bytes, named: str) -> None:
    decode(body, named).encode()
    is_text(body, named)
