"""The status of MCP servers, in a few lines for the operator."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from finclaw.builtins.mcp.offers import Offers
from finclaw.taint.origin import format_origin
from finclaw.text import Language

if TYPE_CHECKING:
    from finclaw.builtins.mcp.connection import McpConnection

_MOST: Final = 20
"""Lines of tools that are left out; a server may have hundreds."""

_WORDS: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "none": "No MCP server is set up.",
        "starting": "starting",
        "up": "up",
        "down": "not available",
        "tools": "tools",
        "left_out": "not offered",
        "more": "and {count} more",
    },
    "ko": {
        "none": "설정된 MCP 서버가 없습니다.",
        "starting": "시작하는 중",
        "up": "연결됨",
        "down": "사용할 수 없음",
        "tools": "도구",
        "left_out": "제공하지 않음",
        "more": "외 {count}개",
    },
}


@dataclass(frozen=True, slots=True)
class ServerStatus:
    name: str
    connection: "McpConnection | None"
    offers: Offers


def describe_servers(servers: Sequence[ServerStatus], language: Language) -> str:
    words = _WORDS[language]
    return "\n".join(line for each in servers for line in _lines(each, words)) or words["none"]


def _lines(server: ServerStatus, words: dict[str, str]) -> Iterator[str]:
    connection = server.connection
    state = "starting" if connection is None else connection.state
    why = f" ({connection.reason})" if connection is not None and state == "down" else ""
    yield f"{server.name}: {words[state]}{why}"
    if server.offers.offered:
        yield f"  {words['tools']}: {', '.join(server.offers.offered)}"
    left_out = list(server.offers.left_out.items())
    for tool, reason in left_out[:_MOST]:
        yield f"  {words['left_out']}: {format_origin(tool)[:64]}: {reason}"
    if len(left_out) > _MOST:
        yield f"  {words['more'].format(count=len(left_out) - _MOST)}"
