import re
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.demo.talk import MODEL, NOW, Talk

from finclaw.demo.assistant import OfflineProvider
from finclaw.demo.assistant.answer import PHRASES, Exchange, answer
from finclaw.demo.assistant.provider import TOOLS, decide
from finclaw.kernel.chunk import (
    Chunk,
    Done,
    ModelRequest,
    TextDelta,
    ToolInputDelta,
    ToolSpec,
    ToolUseEnd,
    ToolUseStart,
    UsageReport,
)
from finclaw.kernel.message import Block, Message, Role, Source, Text, ToolCall, ToolResult, ToolStatus
from finclaw.kernel.port import Provider

TALK = Talk()
QUOTE = TALK.tools["market__quote"]


def message(role: Role, *blocks: Block, id: str = "m") -> Message:
    return Message(id, role, blocks, Source("user"), NOW)


def request(*messages: Message, tools: tuple[ToolSpec, ...] = (QUOTE.spec,), max_tokens: int = 4_096) -> ModelRequest:
    return ModelRequest(model=MODEL, system="Be brief.", messages=messages, tools=tools, max_tokens=max_tokens)


async def collect(asked: ModelRequest) -> list[Chunk]:
    provider: Provider = OfflineProvider()
    return [chunk async for chunk in provider.stream(asked)]


def text_of(chunks: Sequence[Chunk]) -> str:
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))


def calls_of(chunks: Sequence[Chunk]) -> list[ToolCall]:
    """As a turn would assemble them."""
    starts = {chunk.index: chunk for chunk in chunks if isinstance(chunk, ToolUseStart)}
    inputs = dict.fromkeys(starts, "")
    for chunk in chunks:
        if isinstance(chunk, ToolInputDelta):
            inputs[chunk.index] += chunk.delta
    assert {chunk.index for chunk in chunks if isinstance(chunk, ToolUseEnd)} == starts.keys()
    return [
        ToolCall(start.id, start.name, msgspec.json.decode(inputs[index], type=dict[str, Any]))
        for index, start in starts.items()
    ]


# ── asking ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_price_question_becomes_a_call_of_the_quote_tool():
    chunks = await collect(request(message("user", Text("What is AAPL trading at?"))))
    (call,) = calls_of(chunks)
    assert (call.name, call.args) == ("market__quote", {"symbol": "AAPL"})
    assert chunks[-1] == Done("tool_use")


async def test_two_names_are_two_calls_once_a_tool_has_told_them_apart():
    question = message("user", Text("삼성전자랑 애플 얼마예요?"))
    (both,) = calls_of(await collect(request(question)))
    told = (question, message("assistant", both), message("tool", await TALK.run(both)))
    calls = calls_of(await collect(request(*told)))
    assert [call.args["symbol"] for call in calls] == ["삼성전자랑", "애플"]
    assert len({both.id, *(call.id for call in calls)}) == 3


async def test_the_same_request_gets_the_same_chunks_and_another_message_other_ids():
    one = request(message("user", Text("price of apple"), id="one"))
    two = request(message("user", Text("price of apple"), id="two"))
    assert await collect(one) == await collect(one)
    assert calls_of(await collect(one))[0].id != calls_of(await collect(two))[0].id


@example("᠐")  # a zero, but none that is read
@given(st.text(max_size=200))
def test_no_text_makes_it_call_a_strangers_tool(text: str):
    others = tuple(ToolSpec(name, "", {}) for name in ("bank__transfer", "market__quote", "shell__run"))
    decision = decide(request(message("user", Text(f"price of {text}")), tools=others))
    assert isinstance(decision, str) or {call.name for call in decision} <= TOOLS


async def test_it_never_calls_a_tool_it_was_not_given():
    question = message("user", Text("AAPL 주가 알려줘"))
    other = ToolSpec("chat__send", "Send.", {})
    assert "도구를 쓸 수 없습니다" in text_of(await collect(request(question, tools=(other,))))


# ── answering ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("status", ["denied", "timeout", "awaiting", "skipped", "unknown", "error", "ok"])
@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize("tool", sorted(TOOLS - {"calc__evaluate"}))
def test_every_failed_call_gets_a_sentence_without_a_figure(status: ToolStatus, language: str, tool: str) -> None:
    call = ToolCall("c", tool, {"symbol": "AAPL"})
    result = ToolResult("c", tool, '"days" is not of type "integer"', status=status)
    said = answer("ko" if language == "ko" else "en", None, Exchange("price", "m", (call,), (result,)))
    assert said
    assert "integer" not in said
    assert not re.search(r"\d", said)
    assert bool(re.search("[가-힣]", said)) == (language == "ko")


@pytest.mark.parametrize(("text", "line"), [("why is that so", "offline assistant"), ("안녕하세요", "오프라인 도우미")])
async def test_anything_else_gets_an_honest_introduction(text: str, line: str):
    chunks = await collect(request(message("user", Text(text))))
    assert line in text_of(chunks)
    assert not calls_of(chunks)


async def test_a_new_question_is_not_answered_from_old_results():
    call = ToolCall("c", "market__quote", {"symbol": "AAPL"})
    old = (message("user", Text("AAPL?")), message("assistant", call), message("tool", await TALK.run(call)))
    chunks = await collect(request(*old, message("assistant", Text("...")), message("user", Text("TSLA?"))))
    assert [each.args for each in calls_of(chunks)] == [{"symbol": "TSLA"}]


def test_no_fixed_sentence_holds_a_figure():
    assert not re.search(r"\d", " ".join(text for texts in PHRASES.values() for text in texts.values()))


# ── the closing answer ──────────────────────────────────────────────────────────────────────────────────────


async def test_without_tools_it_answers_from_the_facts_it_has():
    call = ToolCall("c", "market__quote", {"symbol": "AAPL"})
    asked = (message("user", Text("AAPL?")), message("assistant", call), message("tool", await TALK.run(call)))
    assert text_of(await collect(request(*asked, tools=()))).startswith("**Apple (AAPL)** $")


async def test_without_tools_and_facts_it_says_that_it_failed():
    chunks = await collect(request(message("user", Text("삼성전자 얼마야?")), tools=()))
    assert text_of(chunks) == "처리하지 못했습니다. 수치를 추측하지 않습니다. 다시 물어봐 주세요."
    assert chunks[-1] == Done("end")


# ── streaming and usage ─────────────────────────────────────────────────────────────────────────────────────


async def test_text_comes_word_by_word_with_usage_before_the_end():
    chunks = await collect(request(message("user", Text("why is that so"))))
    words = [chunk for chunk in chunks if isinstance(chunk, TextDelta)]
    assert all(len(word.text.split()) == 1 for word in words)
    report, done = chunks[-2:]
    assert isinstance(report, UsageReport)
    described = len(QUOTE.spec.description.split())
    assert report.usage.input == len(["Be", "brief.", "why", "is", "that", "so"]) + described
    assert report.usage.output == len(words)
    assert done == Done("end")


async def test_it_is_a_provider_like_any_other_even_with_nothing_to_read():
    provider: Provider = OfflineProvider()
    assert provider.name == "offline"
    assert "offline assistant" in text_of(await collect(request()))
    await provider.close()


async def test_it_stops_at_the_limit():
    chunks = await collect(request(message("user", Text("why is that so")), max_tokens=3))
    assert text_of(chunks).split() == ["Sorry,", "I", "did"]
    assert chunks[-1] == Done("max_tokens")
