"""Streams of chat completions, and two ways to read them: the official SDK's and ours."""

import json
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Any

from finclaw.agent.model.answer import Answer, collect
from finclaw.kernel.chunk import Chunk
from finclaw.providers.http.sse import EventReader
from finclaw.providers.openai.answer import OpenAIAnswerReader

DONE = b"data: [DONE]\n\n"


def data(fields: object) -> bytes:
    return f"data: {json.dumps(fields, ensure_ascii=False)}\n\n".encode()


def event(*choices: Any, **more: Any) -> bytes:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_760_000_000, "model": "gpt"}
    return data({**head, "choices": choices, **more})


def choice(finish_reason: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}


def say(text: str) -> bytes:
    return event(choice(content=text))


def call(index: int | None = 0, *, id: str | None = None, name: str | None = None, args: Any = None) -> dict[str, Any]:
    """One piece of a call, with the fields that are given and no others."""
    function = {key: value for key, value in (("name", name), ("arguments", args)) if value is not None}
    piece = {"index": index, "id": id, "type": "function" if id else None, "function": function}
    return {key: value for key, value in piece.items() if value is not None}


def ask(*calls: dict[str, Any]) -> bytes:
    return event(choice(tool_calls=calls))


def finish(reason: str = "stop") -> bytes:
    return event(choice(reason))


def usage(prompt: int, completion: int, **more: Any) -> bytes:
    told = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return event(usage={**told, **more})


def lines(*told: str) -> bytes:
    return "".join(f"data: {each}\n\n" for each in told).encode()


# ── streams in the form in which real servers write them ───────────────────────────────────────────────────

_GPT = (
    '"id":"chatcmpl-B9","object":"chat.completion.chunk","created":1741569952,"model":"gpt-4.1-2025-04-14",'
    '"service_tier":"default","system_fingerprint":"fp_b3"'
)
_OPENAI_TEXT = (
    f'{{{_GPT},"choices":[{{"index":0,"delta":{{"role":"assistant","content":"","refusal":null}},"logprobs":null,'
    f'"finish_reason":null}}],"usage":null,"obfuscation":"Xa"}}',
    f'{{{_GPT},"choices":[{{"index":0,"delta":{{"content":"삼성전자는"}},"logprobs":null,"finish_reason":null}}],'
    '"usage":null,"obfuscation":"b"}',
    f'{{{_GPT},"choices":[{{"index":0,"delta":{{"content":" 71,000원 \\ud83d\\ude42"}},"logprobs":null,'
    '"finish_reason":null}],"usage":null,"obfuscation":""}',
    f'{{{_GPT},"choices":[{{"index":0,"delta":{{}},"logprobs":null,"finish_reason":"stop"}}],"usage":null}}',
    f'{{{_GPT},"choices":[],"usage":{{"prompt_tokens":1117,"completion_tokens":46,"total_tokens":1163,'
    '"prompt_tokens_details":{"cached_tokens":1024,"audio_tokens":0},"completion_tokens_details":'
    '{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}}',
    "[DONE]",
)
_OPENAI_CALLS = (
    f'{{{_GPT},"choices":[{{"index":0,"delta":{{"role":"assistant","content":null}},"logprobs":null,'
    '"finish_reason":null}],"usage":null}',
    f'{{{_GPT},"choices":[{{"index":0,"delta":{{"tool_calls":[{{"index":0,"id":"call_DdmO","type":"function",'
    '"function":{"name":"quote","arguments":""}}]},"logprobs":null,"finish_reason":null}],"usage":null}',
    f'{{{_GPT},"choices":[{{"index":0,"delta":{{"tool_calls":[{{"index":0,"function":{{"arguments":"{{\\"sym"}}}}]}},'
    '"logprobs":null,"finish_reason":null}],"usage":null}',
    f'{{{_GPT},"choices":[{{"index":0,"delta":{{"tool_calls":[{{"index":0,"function":{{"arguments":"bol\\":\\"AAPL\\"}}'
    '"}}]},"logprobs":null,"finish_reason":null}],"usage":null}',
    f'{{{_GPT},"choices":[{{"index":0,"delta":{{"tool_calls":[{{"index":1,"id":"call_Ckpw","type":"function",'
    '"function":{"name":"fx","arguments":""}}]},"logprobs":null,"finish_reason":null}],"usage":null}',
    f'{{{_GPT},"choices":[{{"index":0,"delta":{{"tool_calls":[{{"index":1,"function":{{"arguments":"{{}}"}}}}]}},'
    '"logprobs":null,"finish_reason":null}],"usage":null}',
    f'{{{_GPT},"choices":[{{"index":0,"delta":{{}},"logprobs":null,"finish_reason":"tool_calls"}}],"usage":null}}',
    f'{{{_GPT},"choices":[],"usage":{{"prompt_tokens":91,"completion_tokens":51,"total_tokens":142,'
    '"prompt_tokens_details":{"cached_tokens":0}}}',
    "[DONE]",
)
_OLLAMA = (
    '"id":"chatcmpl-388","object":"chat.completion.chunk","created":1735000000,"model":"qwen3:4b",'
    '"system_fingerprint":"fp_ollama"'
)
_OLLAMA_CALLS = (
    f'{{{_OLLAMA},"choices":[{{"index":0,"delta":{{"role":"assistant","content":"","reasoning":"Two "}},'
    '"finish_reason":null}]}',
    f'{{{_OLLAMA},"choices":[{{"index":0,"delta":{{"role":"assistant","content":"","reasoning":"prices."}},'
    '"finish_reason":null}]}',
    f'{{{_OLLAMA},"choices":[{{"index":0,"delta":{{"role":"assistant","content":"","tool_calls":[{{"id":"call_a1",'
    '"index":0,"type":"function","function":{"name":"quote","arguments":"{\\"symbol\\":\\"AAPL\\"}"}}]},'
    '"finish_reason":null}]}',
    f'{{{_OLLAMA},"choices":[{{"index":0,"delta":{{"role":"assistant","content":"","tool_calls":[{{"id":"call_a2",'
    '"index":1,"type":"function","function":{"name":"quote","arguments":"{\\"symbol\\":\\"MSFT\\"}"}}]},'
    '"finish_reason":null}]}',
    f'{{{_OLLAMA},"choices":[{{"index":0,"delta":{{"role":"assistant","content":""}},"finish_reason":"tool_calls"}}]}}',
    f'{{{_OLLAMA},"choices":[],"usage":{{"prompt_tokens":171,"completion_tokens":44,"total_tokens":215}}}}',
    "[DONE]",
)
_ROUTED = (
    '"id":"gen-17","provider":"DeepSeek","model":"deepseek/deepseek-r1","object":"chat.completion.chunk",'
    '"created":1750000000'
)
_OPENROUTER_TEXT = (
    f'{{{_ROUTED},"choices":[{{"index":0,"delta":{{"role":"assistant","content":"","reasoning":"Hm. ",'
    '"reasoning_details":[{"type":"reasoning.text","text":"Hm. ","format":"unknown","index":0}]},'
    '"finish_reason":null,"native_finish_reason":null,"logprobs":null}]}',
    f'{{{_ROUTED},"choices":[{{"index":0,"delta":{{"role":"assistant","content":"Yes."}},"finish_reason":null,'
    '"native_finish_reason":null,"logprobs":null}]}',
    f'{{{_ROUTED},"choices":[{{"index":0,"delta":{{"role":"assistant","content":""}},"finish_reason":"stop",'
    '"native_finish_reason":"stop","logprobs":null}]}',
    f'{{{_ROUTED},"choices":[{{"index":0,"delta":{{"role":"assistant","content":""}},"finish_reason":"stop",'
    '"native_finish_reason":"stop","logprobs":null}],"usage":{"prompt_tokens":14,"completion_tokens":163,'
    '"total_tokens":177,"cost":0.0003,"prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":3}}}',
    "[DONE]",
)

SAMPLES = {
    "openai text": lines(*_OPENAI_TEXT),
    "openai calls": lines(*_OPENAI_CALLS),
    "ollama calls": lines(*_OLLAMA_CALLS),
    "openrouter text": b": OPENROUTER PROCESSING\n\n" + lines(*_OPENROUTER_TEXT),
}


# ── two readers ─────────────────────────────────────────────────────────────────────────────────────────────


def ours(pieces: Iterable[bytes]) -> list[Chunk]:
    """What the provider would give for these reads."""
    events, answer = EventReader(), OpenAIAnswerReader("openai")
    chunks = [chunk for piece in pieces for each in events.feed(piece) for chunk in answer.read(*each)]
    return [*chunks, *answer.close()]


async def our_answer(stream: bytes) -> Answer:
    async def chunks() -> AsyncGenerator[Chunk]:
        for chunk in ours([stream]):
            yield chunk

    return await collect(chunks(), lambda _: None)


def theirs(stream: bytes) -> Any:
    """The completion that the SDK builds of the same bytes."""
    import httpx2  # with openai seconds of imports: not while tests are collected
    from openai import OpenAI
    from openai.lib.streaming.chat import ChatCompletionStreamState

    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=stream)

    state = ChatCompletionStreamState()
    with OpenAI(
        api_key="k", base_url="http://127.0.0.1", http_client=httpx2.Client(transport=httpx2.MockTransport(answer))
    ) as client:
        said: Sequence[Any] = [{"role": "user", "content": "x"}]
        for chunk in client.chat.completions.create(model="gpt", messages=said, stream=True):
            state.handle_chunk(chunk)
    return state.current_completion_snapshot
