"""Answers: what the events of a stream mean, in whatever way a server writes them."""

import json
from typing import Any

import pytest
from tests.providers.openai_streams import (
    DONE,
    SAMPLES,
    ask,
    call,
    choice,
    data,
    event,
    finish,
    our_answer,
    ours,
    say,
    theirs,
    usage,
)

from finclaw.errors import (
    AuthFailed,
    BadRequest,
    ContextTooLong,
    Overloaded,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    ServerFailed,
    StreamCut,
)
from finclaw.kernel.chunk import (
    Chunk,
    Done,
    TextDelta,
    ThinkingDelta,
    ToolInputDelta,
    ToolUseEnd,
    ToolUseStart,
    Usage,
    UsageReport,
)
from finclaw.kernel.message import Text, Thinking, ToolCall

NONE: dict[str, Any] = {}


def read(*pieces: bytes) -> list[Chunk]:
    return ours([b"".join(pieces)])


async def calls(*pieces: bytes) -> list[tuple[str, str, dict[str, Any]]]:
    answer = await our_answer(b"".join(pieces))
    assert answer.stop == "tool_use"
    found = [block for block in answer.blocks if isinstance(block, ToolCall)]
    assert not any(call.bad_args for call in found)
    return [(each.id, each.name, each.args) for each in found]


# ── the same as the SDK ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("A-02", "A-07", "DX-50")
@pytest.mark.parametrize("stream", SAMPLES.values(), ids=SAMPLES)
async def test_the_sdk_and_we_read_the_same(stream: bytes) -> None:
    answer, told = await our_answer(stream), theirs(stream)
    message = told.choices[0].message
    asked = [block for block in answer.blocks if isinstance(block, ToolCall)]
    assert "".join(block.text for block in answer.blocks if isinstance(block, Text)) == (message.content or "")
    assert "".join(block.text for block in answer.blocks if isinstance(block, Thinking)) == (
        getattr(message, "reasoning", "") or ""
    )
    assert [(each.id, each.name, each.args) for each in asked] == [
        (each.id, each.function.name, json.loads(each.function.arguments)) for each in message.tool_calls or ()
    ]
    assert answer.usage.input + answer.usage.cache_read + answer.usage.cache_write == told.usage.prompt_tokens
    assert answer.usage.output == told.usage.completion_tokens
    assert answer.stop == {"stop": "end", "tool_calls": "tool_use"}[told.choices[0].finish_reason]


# ── words and thoughts ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("A-03")
def test_words() -> None:
    assert read(event(choice(role="assistant", content="")), say("a"), say("b"), finish(), DONE) == [
        TextDelta("a", 1),
        TextDelta("b", 1),
        Done("end"),
    ]


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_thoughts_are_kept_apart_from_words(field: str) -> None:
    thought = event(choice(**{field: "hm", "content": None}))
    assert read(thought, say("a"), finish(), DONE) == [ThinkingDelta("hm", 0), TextDelta("a", 1), Done("end")]


def test_a_thought_told_in_both_fields_is_one_thought() -> None:
    both = event(choice(reasoning="hm", reasoning_content="hm", content="a"))
    assert read(both, finish(), DONE) == [ThinkingDelta("hm", 0), TextDelta("a", 1), Done("end")]


def test_words_in_parts() -> None:
    parts = event(choice(content=[{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]))
    assert read(parts, finish(), DONE) == [TextDelta("ab", 1), Done("end")]


def test_the_words_of_a_refusal_are_told_and_the_stop_says_so() -> None:
    assert read(event(choice(refusal="I cannot.")), finish(), DONE) == [TextDelta("I cannot.", 1), Done("refusal")]


def test_only_the_first_answer_counts() -> None:
    other = {**choice("length", content="no"), "index": 1}
    assert read(event(other, choice(content="a")), event(other), finish(), DONE) == [TextDelta("a", 1), Done("end")]


@pytest.mark.parametrize(
    "nothing",
    [
        event(),
        data({}),
        data({"choices": None, "usage": None, "error": None}),
        data({"choices": [NONE]}),
        data({"choices": [{"index": None, "delta": None}]}),
        event(choice(content=None, tool_calls=None, reasoning=None, refusal=None)),
        event(choice(content="", tool_calls=[])),
        event(prompt_filter_results=[{"prompt_index": 0}]),
        b": comment\n\nevent: ping\n\nretry: 5\n\n",
        b"event: ping\ndata: {}\n\n",
    ],
)
def test_events_that_say_nothing(nothing: bytes) -> None:
    stream = (nothing, say("a"), nothing, finish(), nothing, DONE, nothing)
    assert read(*stream) == [TextDelta("a", 1), Done("end")]


# ── calls ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("B-01", "DX-48")
def test_calls_that_come_interleaved_are_kept_apart() -> None:
    got = read(
        ask(call(0, id="a", name="quote", args=""), call(1, id="b", name="fx", args="")),
        ask(call(1, args='{"to":')),
        ask(call(0, args='{"symbol":"AA')),
        ask(call(1, args='"KRW"}'), call(0, args='PL"}')),
        finish("tool_calls"),
        DONE,
    )
    assert got == [
        ToolUseStart("b", "fx", 3),
        ToolInputDelta('{"to":', 3),
        ToolUseStart("a", "quote", 2),
        ToolInputDelta('{"symbol":"AA', 2),
        ToolInputDelta('"KRW"}', 3),
        ToolInputDelta('PL"}', 2),
        ToolUseEnd(2),
        ToolUseEnd(3),
        Done("tool_use"),
    ]


A, B = '{"symbol":"A"}', '{"symbol":"B"}'
TWO = [("a", "quote", {"symbol": "A"}), ("b", "quote", {"symbol": "B"})]
NO_IDS = [("", "quote", {"symbol": "A"}), ("", "quote", {"symbol": "B"})]


@pytest.mark.spec("DX-48", "DX-50")
@pytest.mark.parametrize(
    ("pieces", "meant"),
    [
        pytest.param(
            [call(0, id="a", name="quote", args=A), call(1, id="b", name="quote", args=B)], TWO, id="whole in one piece"
        ),
        pytest.param(
            [call(None, id="a", name="quote", args=A), call(None, id="b", name="quote", args=B)], TWO, id="no index"
        ),
        pytest.param(
            [call(0, id="a", name="quote", args=A), call(0, id="b", name="quote", args=B)], TWO, id="one index for all"
        ),
        pytest.param(
            [
                call(None, id="a", name="quote", args='{"symbol":'),
                call(None, args='"A"}'),
                call(None, id="b", name="quote"),
                call(None, id="a"),
                call(None, id="b", args=B),
            ],
            TWO,
            id="no index, in pieces",
        ),
        pytest.param(
            [call(None, id="a", name="quote"), call(0, args=A), call(1, id="b", name="quote"), call(1, args=B)],
            TWO,
            id="an index from the second piece on",
        ),
        pytest.param(
            [call(None, name="quote", args=A), call(None, name="quote", args=B)], NO_IDS, id="nothing but a name"
        ),
        pytest.param(
            [call(0, id="", name="quote", args=A), call(0, id="", name="quote", args=B)], NO_IDS, id="empty ids"
        ),
        pytest.param(
            [call(None, name="quote"), call(None, name="fx")], [("", "quote", NONE), ("", "fx", NONE)], id="names alone"
        ),
        pytest.param(
            [call(0, id="a", name="quo"), call(0, name="te"), call(0, args=A)], TWO[:1], id="a name in two parts"
        ),
        pytest.param(
            [call(0, id="call_"), call(0, id="1"), call(0, name="quote", args=A)],
            [("call_1", "quote", {"symbol": "A"})],
            id="an id in two parts",
        ),
        pytest.param(
            [call(0, id="a", name="quote", args=""), *(call(0, id="a", name="quote", args=each) for each in A)],
            TWO[:1],
            id="name and id in every piece",
        ),
        pytest.param(
            [call(0, id="a", name="quote", args=""), *(call(0, id=f"x{n}", args=each) for n, each in enumerate(A))],
            TWO[:1],
            id="another id in every piece",
        ),
        pytest.param([call(0, args=A), call(0, name="quote", id="a")], TWO[:1], id="the name last"),
        pytest.param([call(0, id="a", name="quote", args={"symbol": "A"})], TWO[:1], id="the arguments as an object"),
        pytest.param([call(0, id="a", name="quote", args="")], [("a", "quote", NONE)], id="no arguments"),
        pytest.param([call(7, id="a", name="quote", args=A)], TWO[:1], id="an index out of nowhere"),
        pytest.param(
            [call(0, id="a", name="quote", args=A), call(1, id="a", name="quote", args=B)],
            [("a", "quote", {"symbol": "A"}), ("a", "quote", {"symbol": "B"})],
            id="one id for both: the agent gives them their own",
        ),
    ],
)
async def test_whatever_servers_do_to_calls(pieces: list[dict[str, Any]], meant: list[Any]) -> None:
    assert await calls(*map(ask, pieces), finish("tool_calls"), DONE) == meant
    assert await calls(ask(*pieces), finish("stop")) == meant


async def test_arguments_without_a_name_reach_the_agent() -> None:
    """It tells the model that there is no such tool; silence would tell it nothing."""
    assert await calls(ask(call(0, args="{}")), finish("tool_calls"), DONE) == [("", "", {})]


def test_an_empty_piece_is_no_call() -> None:
    assert read(ask(call(0), {}), finish("tool_calls"), DONE) == [Done("end")]


@pytest.mark.spec("DX-48")
@pytest.mark.parametrize("reason", ["length", "content_filter"])
async def test_a_call_that_was_cut_has_no_end_and_is_never_run(reason: str) -> None:
    pieces = (ask(call(0, id="a", name="quote", args="{}")), ask(call(1, id="b", name="buy")), finish(reason), DONE)
    assert ToolUseEnd not in [type(chunk) for chunk in read(*pieces)]
    answer = await our_answer(b"".join(pieces))
    assert [block.bad_args for block in answer.blocks if isinstance(block, ToolCall)] == ["{}", ""]


@pytest.mark.spec("DX-48")
async def test_where_the_model_never_said_that_it_stopped_only_a_call_that_looks_whole_counts() -> None:
    pieces = (ask(call(0, id="a", name="quote", args="{}")), ask(call(1, id="b", name="buy")), DONE)
    answer = await our_answer(b"".join(pieces))
    assert [block.bad_args for block in answer.blocks if isinstance(block, ToolCall)] == [None, ""]


def test_a_server_that_repeats_itself_without_end_is_read_in_time_and_memory() -> None:
    """Thousands of calls, or one whose name never ends: linear work, and no name that nobody could use."""
    many = [call(None, id=f"c{at}", name="quote", args="{}") for at in range(20_000)]
    assert len(read(ask(*many), finish("tool_calls"))) == 3 * 20_000 + 1
    endless = [call(0, name=f"part{at}") for at in range(20_000)]
    [start, *_] = read(ask(*endless), finish("tool_calls"))
    assert isinstance(start, ToolUseStart)
    assert len(start.name) == 256


@pytest.mark.parametrize("args", ['{"a":1,"a":2}', '{"a":NaN}', "{" * 5000, "[1]", '{"a":"\\ud800"}', '{"a":1e999}'])
async def test_the_text_of_arguments_is_passed_on_whatever_it_is(args: str) -> None:
    pieces = (ask(call(0, id="a", name="no_such_tool", args=args)), finish("tool_calls"), DONE)
    assert ToolInputDelta(args, 2) in read(*pieces)


# ── how it ends ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("told", "meant"),
    [
        ("stop", "end"),
        ("length", "max_tokens"),
        ("content_filter", "refusal"),
        ("tool_calls", "end"),
        ("function_call", "end"),
        ("a reason of next year", "end"),
    ],
)
def test_why_it_stopped(told: str, meant: str) -> None:
    assert read(say("a"), finish(told), DONE)[-1] == Done(meant)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("told", ["stop", "tool_calls", "function_call", None])
def test_a_call_makes_it_a_stop_for_tools(told: str | None) -> None:
    end = [finish(told)] if told else []
    assert read(ask(call(0, id="a", name="quote", args="{}")), *end, DONE)[-2:] == [ToolUseEnd(2), Done("tool_use")]


def test_words_in_the_event_that_ends_it() -> None:
    assert read(event(choice("stop", content="a"), usage={"prompt_tokens": 1, "completion_tokens": 2})) == [
        TextDelta("a", 1),
        UsageReport(Usage(1, 2)),
        Done("end"),
    ]


@pytest.mark.parametrize("end", [(finish(), DONE), (finish(),), (DONE,), (finish(), finish(), DONE, DONE, say("late"))])
def test_what_counts_as_an_end(end: tuple[bytes, ...]) -> None:
    assert read(say("a"), *end) == [TextDelta("a", 1), Done("end")]


@pytest.mark.parametrize("stream", [b"", say("a"), ask(call(0, id="a", name="b", args="{")), DONE, usage(1, 1) + DONE])
def test_a_stream_without_its_end_is_cut(stream: bytes) -> None:
    with pytest.raises(StreamCut):
        read(stream)


# ── usage ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("DX-49", "N-01")
@pytest.mark.parametrize(
    ("more", "meant"),
    [
        ({}, Usage(100, 7)),
        ({"prompt_tokens_details": None}, Usage(100, 7)),
        ({"prompt_tokens_details": {"cached_tokens": None}}, Usage(100, 7)),
        ({"prompt_tokens_details": {"cached_tokens": 64, "audio_tokens": 0}}, Usage(36, 7, cache_read=64)),
        ({"prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 36}, Usage(36, 7, cache_read=64)),
        (
            {"prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30}},
            Usage(10, 7, cache_read=60, cache_write=30),
        ),
        ({"prompt_tokens_details": {"cached_tokens": 999}}, Usage(0, 7, cache_read=999)),
        ({"prompt_tokens": -5, "prompt_tokens_details": {"cached_tokens": -9}}, Usage(0, 7)),
        ({"completion_tokens": 7.0}, Usage(100, 7)),
        ({"completion_tokens_details": {"reasoning_tokens": 5}}, Usage(100, 7)),
    ],
)
def test_what_the_cache_gave_is_counted_once(more: dict[str, Any], meant: Usage) -> None:
    assert read(say("a"), finish(), usage(100, 7, **more), DONE)[-2:] == [UsageReport(meant), Done("end")]


def test_usage_in_every_event_is_told_when_it_changes() -> None:
    def counted(text: str, output: int) -> bytes:
        return event(choice(content=text), usage={"prompt_tokens": 5, "completion_tokens": output})

    assert read(counted("a", 1), counted("b", 1), counted("c", 2), finish(), usage(5, 2), DONE) == [
        TextDelta("a", 1),
        UsageReport(Usage(5, 1)),
        TextDelta("b", 1),
        TextDelta("c", 1),
        UsageReport(Usage(5, 2)),
        Done("end"),
    ]


# ── what goes wrong ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"type": "server_error", "message": "rate limit, context length"}, ServerFailed),
        ({"type": "insufficient_quota", "code": "insufficient_quota"}, QuotaExceeded),
        ({"type": "invalid_request_error", "code": "context_length_exceeded"}, ContextTooLong),
        ({"type": "invalid_request_error", "code": None}, BadRequest),
        ({"type": "tokens", "code": "rate_limit_exceeded"}, RateLimited),
        ({"code": 429, "message": "slow", "metadata": {"provider_name": "x"}}, RateLimited),
        ({"code": 502, "message": "bad gateway"}, ServerFailed),
        ({"code": 503}, Overloaded),
        ({"code": 401}, AuthFailed),
        ({"type": "overloaded_error"}, Overloaded),
        ("the model fell over", ServerFailed),
        ([1], ServerFailed),
    ],
)
def test_an_error_inside_the_stream(error: Any, kind: type[ProviderError]) -> None:
    for told in (data({"error": error}), event(choice("error", content=""), error=error)):
        with pytest.raises(ProviderError) as raised:
            read(say("a"), told, finish(), DONE)
        assert type(raised.value) is kind


def test_an_error_told_by_the_name_of_its_event() -> None:
    with pytest.raises(RateLimited):
        read(b'event: error\ndata: {"type":"rate_limit_error","message":"x"}\n\n')


@pytest.mark.parametrize(
    ("reason", "kind"), [("error", ServerFailed), ("abort", StreamCut), ("insufficient_system_resource", Overloaded)]
)
def test_a_stop_that_is_no_end(reason: str, kind: type[ProviderError]) -> None:
    with pytest.raises(kind):
        read(say("a"), finish(reason), DONE)


@pytest.mark.parametrize(
    "nonsense",
    [
        b"{",
        b"[1]",
        b"1",
        b"",
        b'{"choices":"x"}',
        b'{"choices":[{"delta":{"content":{}}}]}',
        b'{"choices":\xff}',
        b'{"choices":[{"delta":{"content":"\xff"}}]}',
        b'{"x":' + b"[" * 100_000,
    ],
)
def test_an_event_that_cannot_be_read_cuts_the_stream(nonsense: bytes) -> None:
    with pytest.raises(StreamCut):
        read(say("a"), b"data: " + nonsense + b"\n\n", finish(), DONE)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        (b'"a","x":NaN', "a"),
        (b'"a","x":[Infinity,-Infinity]', "a"),
        (b'"a","x":1e999', "a"),
        (b'"a\\ud83d"', "a"),
        (b'"\\ude42b"', "\N{REPLACEMENT CHARACTER}b"),
        (b'"no","content":"a"', "a"),
        (b'"a","x":' + b"[" * 200 + b"]" * 200, "a"),
    ],
)
def test_what_is_no_json_but_can_be_read(text: bytes, meant: str) -> None:
    odd = b'data: {"choices":[{"index":0,"delta":{"content":' + text + b"}}]}\n\n"
    assert read(odd, finish(), DONE) == [TextDelta(meant, 1), Done("end")]
