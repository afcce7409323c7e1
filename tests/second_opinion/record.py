"""Streams of the mock for tests that run without it. To write them again: python -m tests.second_opinion.record"""

import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.second_opinion.aimock import Aimock, Json, running
from tests.second_opinion.asking import ASKED

from finclaw.providers.anthropic.request import AnthropicRequestWriter as AnthropicWriter
from finclaw.providers.openai.request import OpenAIRequestWriter as OpenAIWriter

FOLDER: Final = Path(__file__).parents[1] / "providers" / "recorded"

_ENVELOPE: Final[Json] = {
    "id": "answer_1",
    "created": 1_760_000_000,
    "usage": {"input_tokens": 123, "output_tokens": 45, "prompt_tokens": 123, "completion_tokens": 45},
}
ANSWERS: Final[Mapping[str, Json]] = {
    "halves": {"content": "값은 🙂🌱 입니다", **_ENVELOPE},
    "calls": {
        "reasoning": "Prices first.",
        "content": "두 가지를 봅니다. ",
        "toolCalls": [
            {"id": "call_1", "name": "market__quote", "arguments": {"symbol": "005930.KS", "note": "🙂"}},
            {"id": "call_2", "name": "fx__convert", "arguments": {"amount": "100", "from": "USD", "to": "KRW"}},
        ],
        **_ENVELOPE,
    },
}
_PIECE: Final = {"halves": 1, "calls": 8}
_ASKS: Final = {
    "anthropic": ("v1/messages", AnthropicWriter(10_000).write(ASKED)),
    "openai": ("v1/chat/completions", OpenAIWriter(10_000, "max_tokens").write(ASKED)),
}


def record(server: Aimock) -> dict[str, bytes]:
    """What it says today, by the name of the file."""
    said: dict[str, bytes] = {}
    for name, response in ANSWERS.items():
        server.reset()
        server.say(response, chunkSize=_PIECE[name])
        for protocol, (path, body) in _ASKS.items():
            request = urllib.request.Request(f"{server.url}/{path}", body, {"content-type": "application/json"})
            with urllib.request.urlopen(request, timeout=10) as reply:
                said[f"{protocol}_{name}.sse"] = reply.read()
    return said


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    with running() as aimock:
        for file, stream in record(aimock).items():
            (FOLDER / file).write_bytes(stream)
