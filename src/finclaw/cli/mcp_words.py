"""What can be typed about MCP. Only words, as in `parser.py`."""

from argparse import ArgumentParser

from finclaw.cli.keeping import Words


def _pins(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _approve(parser: ArgumentParser) -> None:
    parser.add_argument("server", metavar="SERVER", help="its name in the settings")
    parser.add_argument("tool", metavar="TOOL", help="the tool's name on that server")
    parser.add_argument("--digest", metavar="DIGEST", help="only if it is still this one, as `finclaw mcp pins` told")


def _serve(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--allow", action="append", default=[], metavar="NAME", help="offer this tool too; may be given several times"
    )
    parser.add_argument("--demo", dest="market", action="store_const", const="demo", help="use the demo market")


_ACTIONS: tuple[Words, ...] = (
    ("pins", "list the tools that MCP servers have shown, and which of them are let in", _pins),
    ("approve", "let in what a server shows as a tool now", _approve),
    ("serve", "offer our tools to another assistant, over standard input and output", _serve),
)

MCP: tuple[str, str, tuple[Words, ...]] = (
    "mcp",
    "look at the tools of MCP servers, let them in, or serve our own to another assistant",
    _ACTIONS,
)
