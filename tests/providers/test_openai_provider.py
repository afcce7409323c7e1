"""The provider against a server on this machine that speaks the real event stream."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from aiohttp import web
from tests.providers import model_server
from tests.providers.model_server import Answer, as_one, refuses, serving
from tests.providers.openai_streams import DONE, SAMPLES, ask, call, event, finish, ours, say, usage

from finclaw.agent.model.answer import collect
from finclaw.errors import (
    AuthFailed,
    BadRequest,
    ContextTooLong,
    NoStream,
    NotFound,
    Overloaded,
    ProviderError,
    ProviderTimeout,
    QuotaExceeded,
    RateLimited,
    ServerFailed,
    StreamCut,
    Unreachable,
)
from finclaw.kernel.chunk import Chunk, Done, Model, ModelRequest, TextDelta, ToolUseEnd, Usage, UsageReport
from finclaw.kernel.message import Message, Source, Text
from finclaw.kernel.port import Provider
from finclaw.providers import api_provider as provider_module
from finclaw.providers.openai.provider import OpenAIProvider
from finclaw.redaction import Secret

ASKED = ModelRequest(
    model=Model("openai", "gpt"),
    system="Be brief.",
    messages=(Message("1", "user", (Text("삼성전자?"),), Source("user"), datetime(2026, 1, 1, tzinfo=UTC)),),
)
KEY = Secret("key-1")
HELLO = [say("삼성전자는 "), say("71,000원 🙂"), finish(), usage(9, 20), DONE]
HELLO_CHUNKS = [
    TextDelta("삼성전자는 ", 1),
    TextDelta("71,000원 🙂", 1),
    UsageReport(Usage(9, 20)),
    Done("end"),
]
CALL = [ask(call(0, id="a", name="quote", args='{"symbol":')), ask(call(0, args='"AAPL"}'))]


# ── the server ──────────────────────────────────────────────────────────────────────────────────────────────


streams = partial(model_server.streams, kind="text/event-stream; charset=utf-8")


@asynccontextmanager
async def server(answer: Answer) -> AsyncGenerator[str]:
    async with serving(answer, "/v1/chat/completions") as url:
        yield f"{url}/v1"


@asynccontextmanager
async def provider(answer: Answer, key: Secret | None = KEY, **more: Any) -> AsyncGenerator[OpenAIProvider]:
    async with server(answer) as address:
        client = OpenAIProvider(address, key, **more)
        try:
            yield client
        finally:
            await client.close()


async def chunks(
    answer: Answer, asked: ModelRequest = ASKED, into: list[Chunk] | None = None, **more: Any
) -> list[Chunk]:
    """The whole answer; `into` has what came of it even when it fails."""
    got: list[Chunk] = [] if into is None else into
    async with provider(answer, **more) as client:
        async for chunk in client.stream(asked):
            got.append(chunk)
    return as_one(got)


# ── answers ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("A-01", "A-02")
async def test_an_answer_in_text() -> None:
    assert await chunks(streams(HELLO)) == as_one(HELLO_CHUNKS)


@pytest.mark.parametrize("stream", SAMPLES.values(), ids=SAMPLES)
async def test_a_sample_over_the_wire(stream: bytes) -> None:
    assert await chunks(streams([stream[at : at + 7] for at in range(0, len(stream), 7)])) == as_one(ours([stream]))


@pytest.mark.parametrize("kind", ["text/event-stream", "text/plain", "application/json", "text/html"])
async def test_a_stream_is_one_by_any_name(kind: str) -> None:
    assert await chunks(streams(HELLO, kind=kind)) == as_one(HELLO_CHUNKS)


@pytest.mark.spec("A-07")
async def test_the_sdk_reads_the_same_from_the_same_server() -> None:
    import openai

    async with server(streams(HELLO)) as address, openai.AsyncOpenAI(base_url=address, api_key="k") as client:
        said: Sequence[Any] = [{"role": "user", "content": "x"}]
        stream = await client.chat.completions.create(model="gpt", messages=said, stream=True)
        told = [each.choices[0].delta.content async for each in stream if each.choices]
    assert "".join(each or "" for each in told) == "삼성전자는 71,000원 🙂"


# ── what goes out ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("key", [KEY, None, Secret("")], ids=["a key", "no key", "an empty key"])
async def test_the_request_and_its_headers(key: Secret | None) -> None:
    seen: list[tuple[Any, Any]] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        seen.append((request.headers, await request.json()))
        return await streams(HELLO)(request)

    await chunks(answer, key=key)
    [(headers, body)] = seen
    assert headers.get("authorization") == ("Bearer key-1" if key is KEY else None)
    assert headers["content-type"] == "application/json"
    assert body["messages"][1] == {"role": "user", "content": "삼성전자?"}
    assert body["stream_options"] == {"include_usage": True}
    assert body["max_tokens"] == ASKED.max_tokens


@pytest.mark.spec("DX-50")
@pytest.mark.parametrize(
    ("base_url", "given", "field"),
    [
        ("https://api.openai.com/v1", None, "max_completion_tokens"),
        ("https://api.openai.com/v1/", "max_tokens", "max_tokens"),
        ("http://localhost:11434/v1", None, "max_tokens"),
        ("https://gateway.example/api.openai.com/v1", None, "max_tokens"),
        ("https://gateway.example/v1", "max_completion_tokens", "max_completion_tokens"),
    ],
)
def test_where_the_limit_of_the_answer_is_written(base_url: str, given: Any, field: str) -> None:
    client = OpenAIProvider(base_url, None, output_limit=given)
    body = json.loads(client._writer.write(ASKED))  # pyright: ignore[reportPrivateUsage]
    assert {"max_tokens", "max_completion_tokens"} & {*body} == {field}


async def test_a_request_of_megabytes_arrives_whole() -> None:
    sizes: list[int] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        sizes.append(len((await request.json())["messages"][0]["content"]))
        return await streams(HELLO)(request)

    long = Message("2", "user", (Text("x" * 5_000_000),), Source("user"), datetime(2026, 1, 1, tzinfo=UTC))
    assert await chunks(answer, ModelRequest(model=ASKED.model, system="", messages=(long,))) == as_one(HELLO_CHUNKS)
    assert sizes == [5_000_000]


async def test_a_connection_is_used_again() -> None:
    ports: set[int] = set()

    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        ports.add(request.transport.get_extra_info("peername")[1])
        return await streams(HELLO)(request)

    async with provider(answer) as client:
        for _ in range(5):
            assert as_one([chunk async for chunk in client.stream(ASKED)]) == as_one(HELLO_CHUNKS)
            client.evict()
    assert len(ports) == 1


# ── how it ends ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("cut", [False, True], ids=["ended", "cut"])
@pytest.mark.parametrize(
    "pieces",
    [[], [b": hello\n\n"], HELLO[:1], [*HELLO[:1], HELLO[1][:60]], CALL[:1], CALL, [*CALL[:1], CALL[1][:150]]],
    ids=["nothing", "a comment", "mid text", "mid event", "mid call", "after a call", "mid event of a call"],
)
async def test_a_stream_without_its_end_is_cut(pieces: list[bytes], cut: bool) -> None:
    got: list[Chunk] = []
    with pytest.raises(StreamCut):
        await chunks(streams(pieces, cut=cut), into=got)
    assert not any(isinstance(chunk, ToolUseEnd | Done) for chunk in got)


async def test_a_line_that_breaks_before_the_first_byte() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    with pytest.raises(StreamCut):
        await chunks(answer)


@pytest.mark.parametrize("cut", [False, True], ids=["ended", "cut"])
@pytest.mark.parametrize("length", [3, 4])
async def test_a_model_that_has_stopped_needs_no_mark_of_the_end(length: int, cut: bool) -> None:
    got = await chunks(streams(HELLO[:length], cut=cut))
    assert as_one(got) == as_one([*HELLO_CHUNKS[: length - 1], Done("end")])


async def test_a_server_that_holds_the_line_after_the_end_holds_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider_module, "AFTER_FINISH_SECONDS", 0.05)
    hold = asyncio.Event()
    async with provider(streams(HELLO[:3], hold=hold)) as client:
        assert as_one([chunk async for chunk in client.stream(ASKED)]) == as_one([*HELLO_CHUNKS[:2], Done("end")])
        hold.set()


async def test_nor_does_one_that_goes_on_saying_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider_module, "AFTER_FINISH_SECONDS", 0.05)

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"".join(HELLO[:3]))
        while request.transport is not None:
            await response.write(b": still here\n\n")
            await asyncio.sleep(0.001)
        return response

    assert await chunks(answer) == as_one([*HELLO_CHUNKS[:2], Done("end")])


@pytest.mark.parametrize("pieces", [[], HELLO[:1]], ids=["from the beginning", "in the middle"])
async def test_silence_is_a_timeout(pieces: list[bytes]) -> None:
    hold = asyncio.Event()
    with pytest.raises(ProviderTimeout):
        await chunks(streams(pieces, hold=hold), first_byte=0.1, idle=0.1)
    hold.set()


@pytest.mark.spec("A-05")
async def test_a_stream_that_is_left_closes_its_connection() -> None:
    hold, begun, left = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        try:
            return await streams(HELLO[:1], hold=hold)(request)
        finally:
            left.set()

    async with provider(answer) as client:
        asked = asyncio.create_task(collect(client.stream(ASKED), lambda _: begun.set()))
        await asyncio.wait_for(begun.wait(), 30)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        hold.set()
        await asyncio.wait_for(left.wait(), 30)


# ── what goes wrong ─────────────────────────────────────────────────────────────────────────────────────────


def complaint(kind: str | None, code: Any = None) -> str:
    words = "Rate limit, quota, maximum context length: read by nobody"
    return json.dumps({"error": {"message": words, "type": kind, "param": None, "code": code}})


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (400, complaint("invalid_request_error"), BadRequest),
        (400, complaint("invalid_request_error", "context_length_exceeded"), ContextTooLong),
        (400, complaint("exceed_context_size_error", 400), ContextTooLong),
        (400, complaint("BadRequestError", 400), BadRequest),
        (401, complaint("invalid_request_error", "invalid_api_key"), AuthFailed),
        (401, complaint("invalid_request_error"), AuthFailed),
        (402, complaint(None, 402), QuotaExceeded),
        (403, complaint("permission_error"), AuthFailed),
        (404, complaint("invalid_request_error", "model_not_found"), NotFound),
        (404, json.dumps({"error": "model 'x' not found"}), NotFound),
        (413, complaint("request_too_large"), ContextTooLong),
        (422, json.dumps({"detail": [{"msg": "extra"}]}), BadRequest),
        (429, complaint("tokens", "rate_limit_exceeded"), RateLimited),
        (429, complaint("insufficient_quota", "insufficient_quota"), QuotaExceeded),
        (429, complaint("engine_overloaded_error"), Overloaded),
        (429, "", RateLimited),
        (500, complaint("server_error"), ServerFailed),
        (502, "<html>bad gateway</html>", ServerFailed),
        (503, json.dumps({"object": "error", "message": "loading", "type": "unavailable", "code": 503}), Overloaded),
        (504, "", ProviderTimeout),
        (307, "", NotFound),
    ],
)
async def test_a_refusal_is_told_by_status_and_code(status: int, body: str, error: type[ProviderError]) -> None:
    with pytest.raises(error) as told:
        await chunks(refuses(status, body))
    assert type(told.value) is error
    assert str(status) in str(told.value)
    assert "key-1" not in str(told.value)


async def test_how_long_to_wait() -> None:
    with pytest.raises(RateLimited) as error:
        await chunks(refuses(429, complaint("requests", "rate_limit_exceeded"), **{"retry-after": "7"}))
    assert error.value.retry_after == 7.0


@pytest.mark.parametrize(
    ("kind", "body", "error"),
    [
        ("application/json", complaint(None, 429), RateLimited),
        ("text/event-stream", complaint("insufficient_quota", "insufficient_quota"), QuotaExceeded),
        ("application/json", json.dumps({"choices": [{"message": {"content": "not streamed"}}]}), NoStream),
        ("text/html; charset=utf-8", "\n<html>Welcome to my gateway</html>" * 5_000, Unreachable),
        ("application/json", "[]", NoStream),
        ("application/json", json.dumps([{"error": {"code": 503, "status": "UNAVAILABLE"}}]), Overloaded),
        ("application/json", complaint("invalid_request_error", None), BadRequest),
        ("text/event-stream", "", StreamCut),
    ],
)
async def test_a_success_that_is_no_stream(kind: str, body: str, error: type[ProviderError]) -> None:
    with pytest.raises(error) as told:
        await chunks(streams([body.encode()], kind=kind))
    assert type(told.value) is error
    assert ("`base_url`" in str(told.value)) == (error in (NoStream, Unreachable))


async def test_an_error_inside_the_stream() -> None:
    async with provider(streams([HELLO[0], event(error={"code": 502, "message": "x"})])) as client:
        stream = client.stream(ASKED)
        assert await anext(stream) == HELLO_CHUNKS[0]
        with pytest.raises(ServerFailed):
            await anext(stream)


async def test_nobody_there() -> None:
    dead = OpenAIProvider("http://127.0.0.1:1/v1", None)
    with pytest.raises(Unreachable):
        await anext(aiter(dead.stream(ASKED)))
    await dead.close()
    await dead.close()  # closing twice is no harm


# ── the port ────────────────────────────────────────────────────────────────────────────────────────────────


def test_it_is_a_provider() -> None:
    client: Provider = OpenAIProvider("http://127.0.0.1/v1", None, name="ollama")
    assert client.name == "ollama"


async def test_aiohttp_is_imported_with_the_first_question_only() -> None:
    code = (
        "import sys; from finclaw.providers.openai.provider import OpenAIProvider; "
        "OpenAIProvider('http://127.0.0.1', None); sys.exit('aiohttp' in sys.modules)"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    assert await process.wait() == 0
