"""Trace one message through the gateway and print how many files and packages it passes.

    python scripts/walk.py [--list]

Two walks: a Telegram "hi" with a scripted model and no tool, and a price question over HTTP with the demo assistant and
one tool call. In both the second message is traced, so that imports and first-time work do not count. A file counts
when one of its functions runs. A change of package is a call of which caller and callee, in the order of calls, belong
to different packages. Each goal is that of `MOST`.
"""

import argparse
import asyncio
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

HOME = Path(__file__).resolve().parent.parent
SOURCE = HOME / "src" / "finclaw"
MOST = {"Telegram": (95, 140), "HTTP": (130, None)}
"""Files, and changes among the large packages."""
QUESTION = "What is AAPL trading at?"
LARGE = ("agent", "builtins", "channels", "delivery", "finance", "pipeline", "sessions", "storage", "tools", "web")
PARTS_OF_TOOLS = ("approvals", "policy", "redaction", "taint")
"""Packages that were a part of `tools` when the goals were set."""


class Trace:
    """The functions of the project that run, in the order of calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    @contextmanager
    def recording(self) -> Generator[None]:
        prefix = f"{SOURCE}/"
        fakes = f"{SOURCE}/testing/"

        def record(frame: FrameType, event: str, _: Any) -> None:
            path = frame.f_code.co_filename
            if event == "call" and path.startswith(prefix) and not path.startswith(fakes):
                self.calls.append((path.removeprefix(prefix), frame.f_code.co_qualname))

        threading.setprofile(record)
        sys.setprofile(record)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    @property
    def files(self) -> Counter[str]:
        return Counter(path for path, _ in self.calls)

    @property
    def changes(self) -> int:
        """Changes between two large packages; calls in others are skipped."""
        packages = [package for path, _ in self.calls if (package := _package_of(path)) in LARGE]
        return sum(1 for one, other in pairwise(packages) if one != other)


def _package_of(path: str) -> str:
    package = path.partition("/")[0]
    return "tools" if package in PARTS_OF_TOOLS else package


def walk_telegram(state: Path) -> Trace:
    """Trace a second "hi" to a bot, from the poll that brings it until its receipt is on disk."""
    from tests.channels.telegram.desk import MINA, Desk  # noqa: PLC0415  optional: only this walk needs aiogram

    desk, trace = Desk(state), Trace()

    async def run() -> None:
        async with desk.api, desk.gateway("Hello.", "Hello again."):
            assert desk.app is not None
            desk.api.write(MINA, "hi")
            await desk.api.until_shown(MINA, 1)
            await desk.app.idle()
            with trace.recording():
                desk.api.write(MINA, "hi again")
                await desk.api.until_shown(MINA, 2)
                await desk.app.idle()

    desk.clock.run(run())
    return trace


def walk_http(state: Path) -> Trace:
    """Trace a second question over HTTP: the POST, and the GET that waits for the answer."""
    return asyncio.run(_ask_over_http(state))


async def _ask_over_http(state: Path) -> Trace:
    import aiohttp  # noqa: PLC0415  optional: as above

    import finclaw  # noqa: PLC0415  optional: as above
    from finclaw.channels.mailbox import MailboxChannel  # noqa: PLC0415  optional: as above
    from finclaw.redaction import Secret  # noqa: PLC0415  optional: as above
    from finclaw.web.server import serve_web  # noqa: PLC0415  optional: as above
    from finclaw.web.settings import WebServerSettings  # noqa: PLC0415  optional: as above

    trace, token = Trace(), "walk-walk-walk-walk"
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        finclaw.build(finclaw.Settings(state=state), channels=(MailboxChannel("web"),)) as app,
        serve_web(app, WebServerSettings(port=0), Secret(token)) as server,
        aiohttp.ClientSession(server.url, headers=headers) as client,
    ):

        async def ask(number: str) -> None:
            async with client.post("/api/v1/messages", json={"message_id": number, "text": QUESTION}) as response:
                accepted = await response.json()
            async with client.get(f"/api/v1/messages/{accepted['inbound_id']}", params={"wait": "20"}) as response:
                answer = await response.json()
            if "187" not in str(answer) and "AAPL" not in str(answer):
                raise SystemExit(f"the demo assistant did not answer: {answer}")

        await ask("first")
        await app.idle()
        with trace.recording():
            await ask("second")
            await app.idle()
    return trace


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="list the files of each walk, with their calls")
    chosen = parser.parse_args()
    sys.path.insert(0, str(HOME))
    for name, walk in (("Telegram", walk_telegram), ("HTTP", walk_http)):
        with tempfile.TemporaryDirectory() as place:
            trace = walk(Path(place))
        files, changes = MOST[name]
        print(f"{name}: {len(trace.files)} files (goal {files}), {len(trace.calls)} calls")
        print(f"  {trace.changes} changes among the large packages (goal {changes or 'none'})")
        if chosen.list:
            print("\n".join(f"  {count:5} {path}" for path, count in sorted(trace.files.items())))


if __name__ == "__main__":
    main()
