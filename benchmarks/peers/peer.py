"""What every peer is asked to do, and the words that all of them exchange."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

MODEL = "mock"
SYSTEM = "You are a terse market assistant. Use get_quote for prices."
DESCRIPTION = "Latest quote of a symbol."
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"symbol": {"type": "string"}}, "required": ["symbol"]}
QUOTE = json.dumps({"symbol": "AAPL", "price": 187.5, "change": 0.4, "volume": 51234567})
QUESTION = "Please tell me how the market looks today and what the spread of this symbol is, message number %06d."
ANSWER = ("market the a with quote steady low little move spread noise price and today volume shows " * 5)[
    :400
] + " %06d"

First = Callable[[], None]
"""Called with the first text of an answer."""


def mock_url() -> str:
    return os.environ["BENCH_MOCK"]


def data_directory() -> Path:
    """Where a peer may keep things: on a real disk, empty at the start, removed after the run."""
    return Path(os.environ["BENCH_DATA"])


def exchanges(messages: int) -> Iterator[tuple[str, str]]:
    """A made-up history of that many messages, as questions and answers."""
    for number in range(messages // 2):
        yield QUESTION % number, ANSWER % number


async def get_quote(symbol: str) -> str:
    return QUOTE


class Peer:
    """Holds conversations by name and answers one question in one of them."""

    async def setup(self) -> None:
        """Import, connect, be ready."""

    async def turn(self, conversation: str, text: str, first: First) -> str:
        """One streamed turn with its tool calls; the conversation is kept for the next."""
        raise NotImplementedError

    async def seed(self, conversation: str, messages: int) -> None:
        """Make a conversation as if that many messages had been exchanged."""
        raise NotImplementedError

    async def settle(self) -> None:
        """Wait for everything that goes on after an answer."""

    async def evict(self) -> None:
        """Forget all that can be read again, where there is such a thing."""

    async def close(self) -> None:
        pass
