"""A model server on this machine that streams slowly and charges: for each question, and for each word it has sent."""

import asyncio
import json
from contextlib import suppress
from decimal import Decimal
from typing import Any, Final

from aiohttp import web

WORDS: Final = 40
"""In an answer."""
PACE: Final = 0.01
"""Seconds between two words, so that most of a gateway's life is in the middle of an answer."""
DOLLARS: Final = (Decimal(1), Decimal(5))
"""For a million tokens in and out."""
A_TOKEN: Final = 4
"""Characters of a question."""


class PaidProvider:
    """Every third question is answered with a call of a tool first. Whoever leaves pays for what was sent by then."""

    def __init__(self) -> None:
        self.calls = 0
        self.cut_off = 0
        self.charged = Decimal(0)
        self._runner: web.AppRunner | None = None

    async def start(self) -> str:
        app = web.Application(client_max_size=1 << 24)
        app.router.add_post("/v1/chat/completions", self._answer)
        self._runner = web.AppRunner(app, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        return f"http://{host}:{port}/v1"

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.calls += 1
        tokens = len(body) // A_TOKEN
        self._charge(tokens, 0)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        sent, whole = 0, False
        try:
            await response.prepare(request)
            for delta in self._deltas(json.loads(body)):
                await response.write(_event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}))
                sent += 1
                self._charge(0, 1)
                await asyncio.sleep(PACE)
            stop = "tool_calls" if sent == 1 else "stop"
            await response.write(_event({"choices": [{"index": 0, "delta": {}, "finish_reason": stop}]}))
            usage = {"prompt_tokens": tokens, "completion_tokens": sent, "total_tokens": tokens + sent}
            await response.write(_event({"choices": [], "usage": usage}) + b"data: [DONE]\n\n")
            whole = True
            with suppress(ConnectionError):
                await response.write_eof()
        except ConnectionError:
            pass
        finally:
            self.cut_off += not whole
        return response

    def _deltas(self, asked: dict[str, Any]) -> list[dict[str, Any]]:
        if self.calls % 3 == 0 and asked["messages"][-1]["role"] == "user":
            function = {"name": "calc__evaluate", "arguments": '{"expression": "1+1"}'}
            call = {"index": 0, "id": f"call-{self.calls}", "type": "function", "function": function}
            return [{"role": "assistant", "tool_calls": [call]}]
        return [{"content": f"word{number} "} for number in range(WORDS)]

    def _charge(self, question: int, answer: int) -> None:
        self.charged += (DOLLARS[0] * question + DOLLARS[1] * answer) / 1_000_000


def _event(data: dict[str, Any]) -> bytes:
    return (
        b"data: "
        + json.dumps({"id": "x", "object": "chat.completion.chunk", "model": "dear", **data}).encode()
        + b"\n\n"
    )
