"""Texts as long as the guard reads, as tools return them, and as an attacker writes them who wants it to be slow."""

import base64
import json
import random
import uuid
from collections.abc import Callable
from typing import Final

SIZE: Final = 256_000
_KOREAN: Final = [
    "삼성전자", "코스피", "지수는", "오늘", "상승", "마감", "외국인", "기관", "순매수", "반도체", "업황", "회복",
    "기대감", "영업이익", "매출", "시장", "환율", "달러",
]  # fmt: skip
_SCRIPTS: Final = [
    "function e(t,n){return t<n&&n>0?t:n}", "var a=b<<c>>>d;", 'if(a<b&&c>d){f("<div class=\\"x\\">"+a+"</div>")}',
    "e.exports=t(123456789),", 'const token=await r.getToken("key_"+i);', 's+="&amp;"+encodeURIComponent(k);',
    "for(var i=0;i<n.length;i++)", "e.innerHTML='<a href=\"'+u+'\">'+t+'</a>';", "n.password&&(t.x=btoa(n))",
]  # fmt: skip
_PICTURES: Final = [
    "😀", "👩\u200d👩\u200d👧", "❤\ufe0f", "1\ufe0f\u20e3", "text ", "한글 ", "👍🏽",
    "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
]  # fmt: skip
_MARKS: Final = ["<b", "<a href=", '="', "'", '"', "<", ">", "x", "<!--", "-->", " onclick=", "&#49;", "<td>", " "]


def long_result(kind: str) -> str:
    """The same for each kind every time."""
    line, chance = LINES[kind], random.Random(kind)
    lines, size = list[str](), 0
    while size < SIZE:
        lines.append(line(chance))
        size += len(lines[-1])
    return "".join(lines)[:SIZE]


def _number(chance: random.Random, digits: int) -> str:
    return str(chance.randrange(10 ** (digits - 1), 10**digits))


def _id(chance: random.Random) -> str:
    return str(uuid.UUID(int=chance.getrandbits(128)))


def _transaction(chance: random.Random) -> str:
    when, side = 1_700_000_000_000 + chance.randrange(10**9), chance.choice(["BUY,AAPL", "SELL,005930"])
    account = f"{_number(chance, 3)}-{_number(chance, 3)}-{_number(chance, 6)}"
    return f"{when},{side},{chance.random() * 300:.4f},{_number(chance, 10)},{account},{_number(chance, 16)}\n"


def _order(chance: random.Random) -> str:
    order = {"order_id": _id(chance), "account": "110-**-1234", "qty": 3, "ts": 1_700_000_000_000, "memo": "체결 완료"}
    return json.dumps(order, ensure_ascii=chance.random() < 0.5) + ",\n"


def _won(chance: random.Random) -> str:
    words = " ".join(chance.sample(_KOREAN, 4))
    return f"{words} 계좌 잔고는 {_number(chance, 12)}원, 통장 {chance.randrange(10**9):,}원. "


def _log(chance: random.Random) -> str:
    trace, sha = _id(chance), chance.randbytes(20).hex()
    return f"2024-01-05T15:30:00.123456Z INFO trace={trace} sha={sha} GET /v1/x?id={_id(chance)} 200\n"


def _address(chance: random.Random) -> str:
    return (
        f"https://u:80/p/{_number(chance, 4)}?utm_source=news&id={_number(chance, 10)}&token=abc&api_key=x&password=\n"
    )


LINES: Final[dict[str, Callable[[random.Random], str]]] = {
    "transactions": _transaction,
    "orders": _order,
    "won": _won,
    "a log with ids": _log,
    "addresses": _address,
    "base64": lambda chance: base64.encodebytes(chance.randbytes(4_000)).decode(),
    "a script": lambda chance: chance.choice(_SCRIPTS),
    "nested": lambda chance: '{"items":[{"id":123456789,"children":[{"v":1.5,"name":"x"},',
    "escaped": lambda chance: json.dumps(" ".join(chance.sample(_KOREAN, 5)) + ' "😀"\n') + ",",
    "a table of cards": lambda chance: (
        f"| {' '.join(_number(chance, 4) for _ in range(4))} | {_number(chance, 16)} |\n"
    ),
    "sixteen digits": lambda chance: _number(chance, 16) + "\n",
    "thirteen digits": lambda chance: _number(chance, 13) + " ",
    "six and seven": lambda chance: f"{_number(chance, 6)}-{_number(chance, 7)}\n",
    "digits and hyphens": lambda chance: "".join(chance.choices("0123456789 -.\n", k=1_000)),
    "codes of banks": lambda chance: f"GB{_number(chance, 2)} WEST {_number(chance, 4)} {_number(chance, 4)} 7654 32\n",
    "one code of a bank": lambda chance: "GB82 ",
    "digits of all scripts": lambda chance: "".join(chance.choices("٤١٣१२३１２３①② 가A", k=1_000)),
    "pictures": lambda chance: chance.choice(_PICTURES),
    "hidden characters": lambda chance: "wo\u200brd 한\u200d글 ",
    "labels": lambda chance: "password secret token api_key credential session_id account acct 계좌 통장 암호 ",
    "open tags": lambda chance: '<b ="',
    "open tags in values": lambda chance: "<a x=\"<a x='",
    "comparisons": lambda chance: "if a<b and c>d then x<-y; List<int> z<T>; ",
    "comments": lambda chance: f"<!-- {_number(chance, 3)} <b>x</b> --><p>{_number(chance, 3)}",
    "broken markup": lambda chance: "".join(chance.choices(_MARKS, k=200)),
    "entities": lambda chance: "&nbsp;&amp;&lt;b&gt; &#44032;",
}
