"""The provider against a server on this machine that speaks the real event stream."""

import asyncio
import json
import sys
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web
from tests.providers.anthropic_streams import HELLO, begin, block, call, delta, end, event, given, say, stop, why
from tests.providers.model_server import ASKED, as_one, chunks, provider, refuses, streams

from finclaw.agent.model.answer import collect
from finclaw.agent.model.failover import policy_for
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
from finclaw.kernel.chunk import (
    Done,
    ModelRequest,
    TextDelta,
    ThinkingDelta,
    ToolInputDelta,
    ToolUseEnd,
    ToolUseStart,
    Usage,
    UsageReport,
)
from finclaw.kernel.message import Message, Source, Text, Thinking, ToolCall
from finclaw.providers.anthropic.provider import AnthropicProvider
from finclaw.providers.http import response
from finclaw.redaction import Secret

HELLO_CHUNKS = [
    UsageReport(Usage(input=9, output=1)),
    TextDelta("삼성전자는 "),
    TextDelta("71,000원 🙂"),
    UsageReport(Usage(input=9, output=20)),
    Done("end"),
]


# ── answers ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_answer_in_text() -> None:
    assert await chunks(streams(HELLO)) == as_one(HELLO_CHUNKS)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
async def test_reads_may_end_anywhere_even_inside_a_character(size: int) -> None:
    stream = b"".join(HELLO)
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert await chunks(streams(pieces)) == as_one(HELLO_CHUNKS)


async def test_other_line_ends_comments_pings_and_strangers_change_nothing() -> None:
    noise = [b": keep-alive\n\n", event("ping"), event("something_new", delta={"type": "text_delta", "text": "no"})]
    strange = [block(7, type="server_tool_use", id="s"), delta(7, type="citations_delta", citation={}), stop(7)]
    stream = b"".join([*noise, *HELLO[:3], *noise, *strange, *HELLO[3:]]).replace(b"\n", b"\r\n")
    assert await chunks(streams([stream])) == as_one(HELLO_CHUNKS)


async def test_data_on_many_lines() -> None:
    first = json.dumps({"type": "message_stop"}, indent=1).replace("\n", "\ndata: ")
    assert await chunks(streams([f"event: message_stop\ndata: {first}\n\n".encode()])) == [Done("end")]


@pytest.mark.spec("B-01", "DX-48")
async def test_calls_that_come_interleaved_are_kept_apart() -> None:
    pieces = [
        begin(),
        block(0, type="thinking", thinking=""),
        delta(0, type="thinking_delta", thinking="two prices"),
        delta(0, type="signature_delta", signature="s"),
        block(1, type="tool_use", id="c1", name="quote", input={}),
        block(2, type="tool_use", id="c2", name="quote", input={}),
        delta(2, type="input_json_delta", partial_json='{"symbol":'),
        delta(1, type="input_json_delta", partial_json='{"symbol":"AA'),
        delta(2, type="input_json_delta", partial_json='"MSFT"}'),
        stop(2),
        delta(1, type="input_json_delta", partial_json='PL"}'),
        stop(0),
        stop(1),
        end("tool_use"),
    ]
    got = await chunks(streams(pieces))
    assert got[1:-2] == [
        ThinkingDelta("two prices", 0),
        ThinkingDelta("", 0, "s"),
        ToolUseStart("c1", "quote", 1),
        ToolUseStart("c2", "quote", 2),
        ToolInputDelta('{"symbol":', 2),
        ToolInputDelta('{"symbol":"AA', 1),
        ToolInputDelta('"MSFT"}', 2),
        ToolUseEnd(2),
        ToolInputDelta('PL"}', 1),
        ToolUseEnd(1),
    ]
    async with provider(streams(pieces)) as client:
        answer = await collect(client.stream(ASKED), lambda text: None)
    assert [each.args for each in answer.blocks if isinstance(each, ToolCall)] == [
        {"symbol": "AAPL"},
        {"symbol": "MSFT"},
    ]
    assert answer.stop == "tool_use"


async def test_a_block_may_begin_with_its_text() -> None:
    pieces = [block(0, type="text", text="a"), block(1, type="thinking", thinking="b"), end()]
    assert (await chunks(streams(pieces)))[:2] == [TextDelta("a"), ThinkingDelta("b", 1)]


async def test_thinking_keeps_its_signature_and_redacted_thinking_is_passed_through() -> None:
    pieces = [
        begin(),
        block(0, type="thinking", thinking="", signature=""),
        delta(0, type="thinking_delta", thinking="hm, "),
        delta(0, type="thinking_delta", thinking="two"),
        delta(0, type="signature_delta", signature="signed"),
        stop(0),
        block(1, type="redacted_thinking", data="sealed"),
        stop(1),
        block(2, type="text", text=""),
        say("Two.", 2),
        stop(2),
        end(),
    ]
    seen: list[str] = []
    async with provider(streams(pieces)) as client:
        answer = await collect(client.stream(ASKED), seen.append)
    assert answer.blocks == (Thinking("hm, two", "signed"), Thinking("", "sealed", redacted=True), Text("Two."))
    assert seen == ["Two."]


async def test_a_call_may_bring_its_whole_input_with_its_start() -> None:
    whole = block(0, type="tool_use", id="c1", name="quote", input={"symbol": "삼성"})
    async with provider(streams([begin(), whole, stop(), end("tool_use")])) as client:
        answer = await collect(client.stream(ASKED), lambda text: None)
    assert answer.blocks == (ToolCall("c1", "quote", {"symbol": "삼성"}),)
    async with provider(streams([begin(), whole, given('{"symbol":"A"}'), stop(), end("tool_use")])) as client:
        answer = await collect(client.stream(ASKED), lambda text: None)
    assert answer.blocks == (ToolCall("c1", "quote", {"symbol": "A"}),)


async def test_an_answer_that_said_why_it_stopped_is_whole_without_its_last_event() -> None:
    assert await chunks(streams([*HELLO[:-1], why()])) == as_one(HELLO_CHUNKS)
    with pytest.raises(StreamCut):
        await chunks(streams([*HELLO[:-1], why(None)]))
    with pytest.raises(StreamCut):  # a call is still open
        await chunks(streams([begin(), call(0, "c"), given("{}"), why("tool_use")]))


async def test_an_event_may_have_its_kind_in_its_name_only() -> None:
    assert await chunks(streams([*HELLO[:-1], why(), b"event: message_stop\ndata: {}\n\n"])) == as_one(HELLO_CHUNKS)
    with pytest.raises(Overloaded):
        await chunks(streams([b'event: error\ndata: {"error": {"type": "overloaded_error"}}\n\n']))


async def test_loose_json_is_read_where_it_can_be() -> None:
    loose = [
        b'event: ping\ndata: {"type":"ping","load":NaN}\n\n',
        b'data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"a","text":"b"}}\n\n',
        rb'data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"\ud83d!"}}' + b"\n\n",
    ]
    assert await chunks(streams([*loose, end()])) == [
        TextDelta("b\ufffd!"),
        UsageReport(Usage(output=20)),
        Done("end"),
    ]


@pytest.mark.spec("N-01", "CO-03", "DX-49")
async def test_usage_counts_the_cache_apart_and_keeps_what_is_not_told_again() -> None:
    pieces = [begin(cache_read_input_tokens=70, cache_creation_input_tokens=5), end(input_tokens=8)]
    got = await chunks(streams(pieces))
    assert got[-2] == UsageReport(Usage(input=8, output=20, cache_read=70, cache_write=5))


@pytest.mark.parametrize(
    ("told", "meant"),
    [
        ("end_turn", "end"),
        ("tool_use", "tool_use"),
        ("max_tokens", "max_tokens"),
        ("model_context_window_exceeded", "max_tokens"),
        ("stop_sequence", "stop_sequence"),
        ("refusal", "refusal"),
        ("a reason of next year", "end"),
    ],
)
async def test_why_it_stopped(told: str, meant: str) -> None:
    assert (await chunks(streams([end(told)])))[-1] == Done(meant)  # pyright: ignore[reportArgumentType]


async def test_nothing_counts_after_the_end() -> None:
    assert (await chunks(streams([*HELLO, say("late"), end()]))) == as_one(HELLO_CHUNKS)


# ── what goes out ───────────────────────────────────────────────────────────────────────────────────────────


async def test_the_request_and_its_headers() -> None:
    seen: list[tuple[Any, Any]] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        seen.append((request.headers, await request.json()))
        return await streams(HELLO)(request)

    await chunks(answer)
    [(headers, body)] = seen
    assert headers["x-api-key"] == "key-1"
    assert headers["anthropic-version"] == "2023-06-01"
    assert headers["content-type"] == "application/json"
    assert [each["text"] for each in body["messages"][0]["content"]] == ["삼성전자?"]
    assert body["stream"] is True


async def test_a_request_of_megabytes_arrives_whole() -> None:
    sizes: list[int] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        sizes.append(len((await request.json())["messages"][0]["content"][0]["text"]))
        return await streams(HELLO)(request)

    long = Message("2", "user", (Text("x" * 5_000_000),), Source("user"), datetime(2026, 1, 1, tzinfo=UTC))
    asked = ModelRequest(model=ASKED.model, system="", messages=(long,))
    assert await chunks(answer, asked) == as_one(HELLO_CHUNKS)
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


async def test_a_server_that_does_not_hang_up_holds_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response, "LAST_BYTES_SECONDS", 0.05)
    hold = asyncio.Event()
    async with provider(streams(HELLO, hold=hold)) as client:
        assert as_one([chunk async for chunk in client.stream(ASKED)]) == as_one(HELLO_CHUNKS)
        hold.set()


# ── what goes wrong ─────────────────────────────────────────────────────────────────────────────────────────


def complaint(kind: str) -> str:
    return json.dumps(
        {"type": "error", "error": {"type": kind, "message": "prompt is too long, rate limit, overloaded"}}
    )


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (400, complaint("invalid_request_error"), BadRequest),
        (401, complaint("authentication_error"), AuthFailed),
        (402, complaint("billing_error"), QuotaExceeded),
        (403, complaint("permission_error"), AuthFailed),
        (404, complaint("not_found_error"), NotFound),
        (413, complaint("request_too_large"), ContextTooLong),
        (429, complaint("rate_limit_error"), RateLimited),
        (500, complaint("api_error"), ServerFailed),
        (429, complaint("api_error"), RateLimited),  # servers in between call everything that
        (503, complaint("api_error"), Overloaded),
        (502, "<html>", ServerFailed),
        (504, complaint("timeout_error"), ProviderTimeout),
        (529, complaint("overloaded_error"), Overloaded),
        (200 + 99, complaint("rate_limit_error"), RateLimited),
        (401, "<html>who are you</html>", AuthFailed),
        (429, "", RateLimited),
        (503, "\ud55c", Overloaded),
        (418, "{}", BadRequest),
        (307, "", NotFound),
    ],
)
async def test_a_refusal_is_told_by_status_and_type(status: int, body: str, error: type[ProviderError]) -> None:
    with pytest.raises(error) as told:
        await chunks(refuses(status, body))
    assert type(told.value) is error
    assert str(status) in str(told.value)
    assert "key-1" not in str(told.value)


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("overloaded_error", Overloaded),
        ("rate_limit_error", RateLimited),
        ("api_error", ServerFailed),
        ("news", ServerFailed),
    ],
)
async def test_an_error_inside_the_stream(kind: str, error: type[ProviderError]) -> None:
    async with provider(streams([*HELLO[:3], event("error", error={"type": kind, "message": "x"})])) as client:
        stream = client.stream(ASKED)
        got = [await anext(stream), await anext(stream)]
        with pytest.raises(error):
            await anext(stream)
    assert got == HELLO_CHUNKS[:2]


@pytest.mark.parametrize(
    ("kind", "body", "error"),
    [
        ("application/json", json.dumps({"type": "error", "error": {"type": "overloaded_error"}}), Overloaded),
        ("application/json", json.dumps({"type": "error", "error": {"type": "news"}}), ServerFailed),
        ("text/event-stream", json.dumps({"message": "no"}), ServerFailed),
        ("application/json", json.dumps({"type": "message", "content": [{"type": "text", "text": "x"}]}), NoStream),
        ("application/json", json.dumps({"choices": [{"message": {"content": "x"}}]}), NoStream),
        ("text/html; charset=utf-8", "\n<html>Welcome to my gateway</html>" * 5_000, Unreachable),
        ("application/json", "<!doctype html><form>Password</form>", Unreachable),
        ("application/json", '{"data": ' + "[" * 60_000, NoStream),
        ("application/json", "[]", NoStream),
        ("application/json", json.dumps([{"error": {"type": "rate_limit_error"}}]), RateLimited),
        ("application/json", json.dumps({"error": {"type": "invalid_request_error"}}), BadRequest),
        ("application/json", "", StreamCut),
        ("text/plain", "Service Unavailable", StreamCut),
    ],
)
async def test_a_success_that_is_no_stream(kind: str, body: str, error: type[ProviderError]) -> None:
    with pytest.raises(error) as told:
        await chunks(streams([body.encode()], kind=kind))
    assert type(told.value) is error
    assert ("`base_url`" in str(told.value)) == (error in (NoStream, Unreachable))
    assert policy_for(told.value).again == (error not in (NoStream, BadRequest))
    assert policy_for(told.value).elsewhere == (error is not BadRequest)


@pytest.mark.parametrize("cut", [False, True], ids=["ended", "cut"])
@pytest.mark.parametrize("length", [0, 1, 3, 5])
async def test_a_stream_without_its_end_is_cut(length: int, cut: bool) -> None:
    with pytest.raises(StreamCut):
        await chunks(streams(HELLO[:length], cut=cut))


@pytest.mark.parametrize(
    "nonsense",
    [
        b"data: {\n\n",
        b"data: [1]\n\n",
        b'data: {"type":"\xff"}\n\n',
        b'data: {"type":"x","index":"y"}\n\n',
        b'data: {"type":"x","index":' + b"[" * 100_000 + b"\n\n",
    ],
)
async def test_an_event_that_cannot_be_read_cuts_the_stream(nonsense: bytes) -> None:
    with pytest.raises(StreamCut):
        await chunks(streams([*HELLO[:3], nonsense, *HELLO[3:]]))


async def test_nobody_there() -> None:
    async with provider(streams(HELLO)) as client:
        pass
    dead = AnthropicProvider("http://127.0.0.1:1", Secret("key-1"))
    with pytest.raises(Unreachable):
        await anext(aiter(dead.stream(ASKED)))
    await dead.close()
    await client.close()  # closing twice is no harm


@pytest.mark.spec("DX-50")
async def test_a_stream_that_is_left_closes_its_connection() -> None:
    hold, begun, left = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        try:
            return await streams(HELLO[:3], hold=hold)(request)
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


async def test_aiohttp_is_imported_with_the_first_question_only() -> None:
    code = (
        "import sys; from finclaw.redaction import Secret; "
        "from finclaw.providers.anthropic.provider import AnthropicProvider; "
        "AnthropicProvider('http://127.0.0.1', Secret('')); sys.exit('aiohttp' in sys.modules)"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    assert await process.wait() == 0


def test_the_provider_has_a_name() -> None:
    assert AnthropicProvider("http://127.0.0.1", Secret("")).name == "anthropic"
