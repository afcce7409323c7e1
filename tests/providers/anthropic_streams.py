"""Answers of the Messages API as bytes: single events, and whole streams as the API's documentation records them."""

import json
from typing import Any, Final

Json = dict[str, Any]


def event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields}, ensure_ascii=False)}\n\n".encode()


def begin(**usage: int) -> bytes:
    message: Json = {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 9, "output_tokens": 1, **usage},
    }
    return event("message_start", message=message)


def block(index: int, **fields: Any) -> bytes:
    return event("content_block_start", index=index, content_block=fields)


def delta(index: int, **fields: Any) -> bytes:
    return event("content_block_delta", index=index, delta=fields)


def say(text: str, index: int = 0) -> bytes:
    return delta(index, type="text_delta", text=text)


def given(text: str, index: int = 0) -> bytes:
    return delta(index, type="input_json_delta", partial_json=text)


def stop(index: int = 0) -> bytes:
    return event("content_block_stop", index=index)


def why(reason: str | None = "end_turn", **usage: int) -> bytes:
    told = {"stop_reason": reason, "stop_sequence": None}
    return event("message_delta", delta=told, usage={"output_tokens": 20, **usage})


def end(reason: str = "end_turn", **usage: int) -> bytes:
    return why(reason, **usage) + event("message_stop")


def call(index: int, id: str, name: str = "market__quote") -> bytes:
    return block(index, type="tool_use", id=id, name=name, input={})


HELLO: Final = [begin(), block(0, type="text", text=""), say("삼성전자는 "), say("71,000원 🙂"), stop(), end()]

RECORDED: Final[dict[str, bytes]] = {
    "text": b"".join(HELLO),
    "text with pings and a cache": b"".join(
        [
            begin(cache_read_input_tokens=7_000, cache_creation_input_tokens=300),
            block(0, type="text", text=""),
            event("ping"),
            say("Hello"),
            say("!"),
            stop(),
            end("stop_sequence", input_tokens=25),
        ]
    ),
    "two calls behind a text": b"".join(
        [
            begin(),
            block(0, type="text", text=""),
            say("두 종목을 "),
            say("보겠습니다."),
            stop(0),
            call(1, "toolu_01T1x1fJ34qAmk2tNTrN7Up6"),
            given("", 1),
            given('{"symbol":', 1),
            given(' "005930', 1),
            given('.KS"}', 1),
            stop(1),
            call(2, "toolu_01A09q90qw90lq917835lq9", "portfolio__list"),
            given("", 2),
            stop(2),
            end("tool_use"),
        ]
    ),
    "signed thinking": b"".join(
        [
            begin(),
            block(0, type="thinking", thinking="", signature=""),
            delta(0, type="thinking_delta", thinking="Let me solve this:\n\n1. "),
            delta(0, type="thinking_delta", thinking="453 = 3 · 151"),
            delta(0, type="signature_delta", signature="EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pki"),
            stop(0),
            block(1, type="redacted_thinking", data="EmwKAhgBEgy3va3pzix/LafPsn4aDFIT2Xlxh0L5L8rLVyIw"),
            stop(1),
            block(2, type="text", text=""),
            say("The answer is 3.", 2),
            stop(2),
            end(),
        ]
    ),
    "a call cut by the limit": b"".join(
        [begin(), call(0, "toolu_01"), given('{"symbol": "00'), stop(0), end("max_tokens")]
    ),
    "a full window": b"".join(
        [begin(), block(0, type="text", text=""), say("So"), stop(), end("model_context_window_exceeded")]
    ),
    "a refusal": b"".join([begin(), block(0, type="text", text=""), say("I"), stop(), end("refusal")]),
    "nothing at all": begin() + end(),
}
