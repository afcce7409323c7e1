"""Bytes to text as a browser would: the byte-order mark, then the header, then the page's own word, then a guess."""

import codecs
import re
from typing import Final

_MARKS: Final = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_DECLARED: Final = re.compile(
    rb"""<(?:meta|\?xml)[^>]{1,400}?(?:charset|encoding)\s{0,9}=\s{0,9}["']?([\w.:-]{1,40})""", re.I
)
_LOOKED_AT: Final = 2_048  # bytes at the beginning in which a page may name its charset

# fmt: off
_CODECS: Final = {
    **dict.fromkeys(("utf-8", "utf8", "unicode-1-1-utf-8"), "utf-8"),
    **dict.fromkeys(("euc-kr", "euckr", "ks_c_5601-1987", "ksc5601", "cp949", "ms949", "uhc", "windows-949"), "cp949"),
    **dict.fromkeys(("iso-8859-1", "latin1", "latin-1", "ascii", "us-ascii", "cp1252", "windows-1252"), "cp1252"),
    **dict.fromkeys(("shift_jis", "shift-jis", "sjis", "x-sjis", "windows-31j", "ms932"), "cp932"),
    **dict.fromkeys(("gb2312", "gbk", "gb18030", "x-gbk"), "gb18030"),
    **dict.fromkeys(("big5", "big5-hkscs", "cn-big5"), "big5hkscs"),
    **dict.fromkeys(("utf-16", "utf-16le"), "utf-16-le"),
    "utf-16be": "utf-16-be", "euc-jp": "euc_jp", "iso-2022-jp": "iso2022_jp", "koi8-r": "koi8-r", "koi8-u": "koi8-u",
    **{f"windows-{page}": f"cp{page}" for page in (874, *range(1250, 1259)) if page != 1252},
    **{f"iso-8859-{part}": f"iso8859-{part}" for part in (*range(2, 12), 13, 14, 15, 16)},
}
# fmt: on
"""By name. Python knows more codecs; some of them unpack archives or run escapes, and none of those is a charset."""


def decode(body: bytes, named: str) -> str:
    """`named` is the header's word, or empty. What does not fit its charset becomes '�'."""
    for mark, codec in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(codec, "replace")
    codec = _CODECS.get(named.strip().lower()) or _declared_charset(body)
    if codec is None:
        return _guess_charset(body)
    return body.decode(codec, "replace")


def is_text(body: bytes, named: str) -> bool:
    """Whether it can be text at all: a NUL is in no charset but UTF-16."""
    wide = body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or named.lower().startswith("utf-16")
    return wide or b"\0" not in body[:_LOOKED_AT]


def _declared_charset(body: bytes) -> str | None:
    found = _DECLARED.search(body, 0, _LOOKED_AT)
    if found is None:
        return None
    codec = _CODECS.get(found[1].decode("ascii", "replace").lower())
    if codec in ("utf-16-le", "utf-16-be"):  # a page in UTF-16 could not have been read this far
        return "utf-8"
    return codec


def _guess_charset(body: bytes) -> str:
    whole = body[: body.rfind(b"\n") + 1] or body  # the last character may have been cut
    for codec in ("utf-8", "cp949"):
        try:
            whole.decode(codec)
        except UnicodeDecodeError:
            continue
        return body.decode(codec, "replace")
    return body.decode("cp1252", "replace")
