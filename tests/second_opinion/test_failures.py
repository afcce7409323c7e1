"""Somebody else's idea of a server that fails, and of a line that breaks: each is told by the right error."""

from typing import Any, Final

import anthropic
import openai
import pytest
from tests.providers.protocols import WIRES, Wire
from tests.second_opinion.aimock import Aimock, Json
from tests.second_opinion.asking import ASKED, chunks, provider
from tests.second_opinion.sdk import SDKS, heard

from finclaw.errors import (
    AuthFailed,
    BadRequest,
    NoStream,
    NotFound,
    Overloaded,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    ServerFailed,
    StreamCut,
)
from finclaw.kernel.chunk import Chunk, TextDelta, UsageReport

pytestmark = [pytest.mark.aimock, pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)]

LONG: Final[Json] = {
    "reasoning": "Let me see what was asked.",
    "content": "삼성전자는 71,000원입니다.",
    "toolCalls": [{"id": "call_1", "name": "market__quote", "arguments": {"symbol": "005930.KS"}}],
    "usage": {"input_tokens": 9, "output_tokens": 7, "prompt_tokens": 9, "completion_tokens": 7},
}


async def heard_until(wire: Wire, server: Aimock) -> tuple[list[Chunk], ProviderError | None]:
    """What came, and the failure that ended it, if one did."""
    got: list[Chunk] = []
    async with provider(wire, server) as client:
        try:
            async for chunk in client.stream(ASKED):
                got.append(chunk)
        except ProviderError as error:
            return got, error
    return got, None


def refusal(status: int, kind: str | None, **more: Any) -> Json:
    return {"error": {"message": "words for people", **({"type": kind} if kind else {})}, "status": status, **more}


@pytest.mark.parametrize(
    ("response", "error"),
    [
        (refusal(429, "rate_limit_error", retryAfter=7), RateLimited),
        (refusal(429, None, retryAfter=7), RateLimited),
        (refusal(529, "overloaded_error"), Overloaded),
        (refusal(529, None), Overloaded),
        (refusal(503, None), Overloaded),
        (refusal(500, None), ServerFailed),
        (refusal(401, "authentication_error"), AuthFailed),
        (refusal(402, "billing_error"), QuotaExceeded),
        (refusal(400, "invalid_request_error"), BadRequest),
    ],
)
async def test_a_refusal(aimock: Aimock, wire: Wire, response: Json, error: type[ProviderError]) -> None:
    aimock.say(response)
    got, told = await heard_until(wire, aimock)
    assert (got, type(told)) == ([], error)
    if isinstance(told, RateLimited):
        assert told.retry_after == 7
    with pytest.raises((anthropic.APIStatusError, openai.APIStatusError)) as theirs:
        SDKS[wire.name](aimock.url, ASKED)
    assert theirs.value.status_code == response["status"]


async def test_a_question_nobody_expected_is_our_mistake(aimock: Aimock, wire: Wire) -> None:
    assert type((await heard_until(wire, aimock))[1]) in (BadRequest, NotFound)


@pytest.mark.parametrize(
    ("trouble", "error"), [("dropRate", ServerFailed), ("rateLimitRate", RateLimited), ("disconnectRate", StreamCut)]
)
async def test_trouble(aimock: Aimock, wire: Wire, trouble: str, error: type[ProviderError]) -> None:
    aimock.say({"content": "Yes."})
    aimock.fail(**{trouble: 1})
    got, told = await heard_until(wire, aimock)
    assert (got, type(told)) == ([], error)


async def test_what_is_no_stream_at_all(aimock: Aimock, wire: Wire) -> None:
    """Compatible servers are many, and their addresses often wrong: the operator is told so."""
    aimock.say({"content": "Yes."})
    aimock.fail(malformedRate=1)
    got, told = await heard_until(wire, aimock)
    assert (got, type(told)) == ([], NoStream)


async def test_half_of_the_lines_break_and_the_next_call_is_not_harmed(aimock: Aimock, wire: Wire) -> None:
    """One provider throughout: a broken connection must not come back from the pool."""
    aimock.say({"content": "Yes."})
    aimock.fail(disconnectRate=0.5)
    answered = broken = 0
    async with provider(wire, aimock) as client:
        for _ in range(60):
            try:
                got = [chunk async for chunk in client.stream(ASKED)]
            except StreamCut:
                broken += 1
            else:
                assert "".join(each.text for each in got if isinstance(each, TextDelta)) == "Yes."
                answered += 1
    actions = [entry["response"].get("chaosAction") for entry in aimock.journal()]
    assert (answered, broken) == (actions.count(None), actions.count("disconnect"))  # each was asked once
    assert broken > 0


async def test_a_line_that_breaks_behind_any_piece(aimock: Aimock, wire: Wire) -> None:
    """What was heard is the beginning of the whole. Who has heard why the model stopped may miss the usage only."""
    aimock.say(LONG, chunkSize=4)
    whole, cuts = spoken(await chunks(wire, aimock)), 0
    for place in range(1, 60):
        aimock.reset()
        aimock.say(LONG, chunkSize=4, truncateAfterChunks=place, latency=1)
        got, told = await heard_until(wire, aimock)
        if told is None:
            assert spoken(got) == whole
        else:
            cuts += 1
            assert (type(told), spoken(got)) == (StreamCut, whole[: len(spoken(got))])
    assert 15 < cuts < 40


def spoken(chunks: list[Chunk]) -> list[Chunk]:
    return [each for each in heard(chunks) if not isinstance(each, UsageReport)]


@pytest.mark.parametrize("after", [5, 20, 40], ids=lambda after: f"{after} ms")
async def test_a_line_that_breaks_in_the_middle_of_time(aimock: Aimock, wire: Wire, after: int) -> None:
    aimock.say(LONG, chunkSize=1, latency=5, disconnectAfterMs=after)
    assert type((await heard_until(wire, aimock))[1]) is StreamCut
