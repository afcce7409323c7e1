"""Long texts of hostile shapes: what makes patterns, parsers and counters slow if anything does."""

from typing import Final

UNITS: Final = {
    "capitals": "A",
    "small letters": "a",
    "mixed letters": "aA",
    "digits": "1",
    "closing marks": ")",
    "opening marks": "(",
    "unmatched brackets": "[{",
    "dots": ".",
    "commas": ",",
    "words and commas": "a, ",
    "colons": "a:",
    "quotation marks": '"',
    "apostrophes": "'",
    "backticks": "`",
    "fences": "```\n",
    "quoted lines": "> a\n",
    "greater": "> ",
    "tags": "<b>",
    "mentions": "<@a> ",
    "mentions without a gap": "<@a>",
    "control tokens": "<<A>>\n",
    "spaces": " ",
    "tabs": "\t",
    "newlines": "\n",
    "returns": "\r\n",
    "zero width": "\u200b",
    "right to left": "\u202e",
    "combining marks": "\u0301",
    "emoji": "😀",
    "jamo": "\u1100\u1161",
    "syllables": "가",
    "korean words": "삼성전자 주가 ",
    "ideographs": "中",
    "replacement characters": "\ufffd",
    "slashes": "/",
    "addresses": "https://a.b/c ",
    "one long address": "https://a.b/?x=1&",
    "mail addresses": "a@b.co ",
    "domains": "a.",
    "base64": "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo0",
    "cards": "4111 1111 1111 1111 ",
    "digits and dashes": "4111-",
    "residents": "900101-1234567 ",
    "keys": "sk-ant-api03-AAAA ",
    "labels": "password=",
    "pem": "-----BEGIN ",
    "wishes": "remember that ",
    "korean wishes": "기억해 ",
    "never": "never ",
    "tickers": "AAPL ",
    "questions": "What is AAPL? ",
    "money": "$1,000.00 ",
    "won": "1억 2천만원 ",
    "escapes": "\x1b[",
    "nul": "\0",
    "backslashes": "\\",
}


def long_texts(size: int, bytes_of: int | None = None) -> dict[str, str]:
    """Each of so many characters; with `bytes_of`, so many that they take no more bytes than that as JSON."""
    return {name: _text(unit, size, bytes_of) for name, unit in UNITS.items()}


def _text(unit: str, size: int, bytes_of: int | None) -> str:
    if bytes_of is not None:
        size = min(size, bytes_of // _bytes_as_json(unit) * len(unit))
    text = (unit * (size // len(unit) + 1))[: size - 2]
    return f"x{text}x" if text.isspace() else text


def _bytes_as_json(unit: str) -> int:
    return sum(6 if each < " " or each in '"\\' else len(each.encode()) for each in unit)
