"""A known secret at the place where a text is cut: no half of it is left."""

from collections.abc import Callable
from typing import Final

import pytest
from mcp import types

from finclaw.builtins.mcp.connection import result_text
from finclaw.cli.formatting import one_line
from finclaw.errors import FinclawError
from finclaw.finance.sources.reading import read_number, read_time
from finclaw.redaction import Secret
from finclaw.sessions.waiting import shorten

KEY: Final = "tulip-0f8d5b2c7e9a4136-harbor"


def refusal(read: Callable[[str], object]) -> Callable[[str], str]:
    def text_of(text: str) -> str:
        try:
            return str(read(text))
        except FinclawError as error:
            return str(error)

    return text_of


def mcp_result(*, is_error: bool) -> Callable[[str], object]:
    def read(text: str) -> str:
        return result_text("desk", types.CallToolResult(content=[types.TextContent(text=text)], is_error=is_error))

    return read


CUTS: Final[dict[str, tuple[int, Callable[[str], str]]]] = {
    "a vendor's number": (40, refusal(lambda text: read_number(text, "a price"))),
    "a vendor's time": (40, refusal(read_time)),
    "a line of the terminal": (40, one_line),
    "a message left out of a full queue": (160, shorten),
    "an MCP complaint": (2_000, refusal(mcp_result(is_error=True))),
    "an MCP result": (100_000, refusal(mcp_result(is_error=False))),
}


@pytest.mark.parametrize("what", CUTS)
def test_text_is_redacted_before_it_is_cut(what: str) -> None:
    Secret(KEY)
    limit, cut = CUTS[what]
    for inside in range(1, len(KEY)):
        assert KEY[:6] not in cut("w" * (limit - inside) + KEY + "w" * 10), inside
