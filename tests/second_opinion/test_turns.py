"""Whole turns through the gateway, with the tools of the demo market, on good lines and on bad ones."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from tests.providers.protocols import WIRES, Wire
from tests.second_opinion.aimock import Aimock, Json
from tests.support.api_rules import violations

import finclaw
from finclaw.agent.model.retry import GO_ON
from finclaw.agent.settings import AgentSettings
from finclaw.clock import SystemClock
from finclaw.kernel.message import ToolResult
from finclaw.kernel.record import Accepted
from finclaw.kernel.scope import Outcome, ToolUse
from finclaw.testing import MemoryChannel
from finclaw.transcript.request_sanitizer import sanitize_request

pytestmark = [pytest.mark.aimock, pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)]

ANSWER: Final = "삼성전자와 환율을 보았습니다. 둘 다 모의 시세입니다 🙂."
CALLS: Final[Sequence[Json]] = (
    {"name": "market__quote", "arguments": {"symbol": "005930.KS"}},
    {"name": "fx__convert", "arguments": {"amount": "100", "from": "USD", "to": "KRW"}},
)
PEOPLE: Final = 24


def first_tools_then(answer: Json, **how: Any) -> tuple[Json, Json]:
    calls = {"content": "먼저 찾아봅니다. ", "toolCalls": CALLS, "reasoning": "Prices first."}
    return (
        {"match": {"hasToolResult": False}, "response": calls, **how},
        {"match": {"hasToolResult": True}, "response": answer, **how},
    )


@asynccontextmanager
async def gateway(state: Path, wire: Wire, server: Aimock) -> AsyncGenerator[tuple[finclaw.App, MemoryChannel]]:
    clock = SystemClock()
    channel = MemoryChannel(clock)
    settings = finclaw.Settings(state=state, agent=AgentSettings(model=f"{wire.name}/some-model"))
    provider = wire.provider(server.url, clock)
    async with finclaw.build(settings, channels=[channel], provider=provider, clock=clock) as app:
        yield app, channel


async def outcome_of(app: finclaw.App, accepted: Accepted) -> Outcome:
    record = await app.wait(accepted.id, 100)
    assert record is not None
    assert record.outcome is not None, "the message was left without an outcome"
    return record.outcome


async def check_transcript(app: finclaw.App, session: str) -> list[ToolResult]:
    messages = sanitize_request(await app.messages(session))
    assert violations(messages, "anthropic") == violations(messages, "openai") == ()
    return [result for each in messages for result in each.tool_results]


async def test_tools_and_then_an_answer(tmp_path: Path, aimock: Aimock, wire: Wire) -> None:
    aimock.expect(*first_tools_then({"content": ANSWER}))
    async with gateway(tmp_path, wire, aimock) as (app, channel):
        accepted = await channel.write("삼성전자 얼마야? 100달러는?")
        outcome = await outcome_of(app, accepted)
        await app.idle()
        assert outcome.kind == "answered", outcome
        assert (outcome.reply or "").startswith(ANSWER)
        assert outcome.tools == (ToolUse("market__quote", "ok"), ToolUse("fx__convert", "ok"))
        results = await check_transcript(app, accepted.session)
        assert [(each.name, each.status) for each in results] == [("market__quote", "ok"), ("fx__convert", "ok")]
        assert len(channel.sent) == 1
    assert [entry["response"]["status"] for entry in aimock.journal()] == [200, 200]


async def test_two_turns_and_the_second_knows_the_first(tmp_path: Path, aimock: Aimock, wire: Wire) -> None:
    aimock.expect(
        {"match": {"userMessage": "그럼"}, "response": {"content": "네, 그것도 보았습니다."}},
        *first_tools_then({"content": ANSWER}),
    )
    async with gateway(tmp_path, wire, aimock) as (app, channel):
        first = await channel.write("삼성전자 얼마야?")
        await outcome_of(app, first)
        second = await outcome_of(app, await channel.write("그럼 둘 다?"))
        assert (second.kind, second.reply) == ("answered", "네, 그것도 보았습니다.")
        await check_transcript(app, first.session)
    roles = Counter(each["role"] for each in aimock.journal()[-1]["body"]["messages"])
    assert roles["tool"] == 2
    assert roles["assistant"] == 2


async def test_an_answer_that_breaks_off_is_gone_on_with(tmp_path: Path, aimock: Aimock, wire: Wire) -> None:
    """The second answer is asked for behind what a person has already read of the first."""
    rest = {"match": {"userMessage": GO_ON}, "response": {"content": " 나머지입니다."}}
    broken = {"match": {}, "response": {"content": "앞부분입니다." + "." * 200}, "chunkSize": 7, "latency": 40}
    aimock.expect(rest, {**broken, "truncateAfterChunks": 4})
    async with gateway(tmp_path, wire, aimock) as (app, channel):
        accepted = await channel.write("길게 말해 줘")
        outcome = await outcome_of(app, accepted)
        assert outcome.kind == "answered", outcome
        assert (outcome.reply or "").startswith("앞부분입니다.")
        assert (outcome.reply or "").endswith(" 나머지입니다.")
        await check_transcript(app, accepted.session)
    assert len(aimock.journal()) == 2


@pytest.mark.parametrize("step", [0, 1], ids=["calls", "answer"])
async def test_a_line_that_breaks_behind_any_piece_of_a_turn(
    tmp_path: Path, aimock: Aimock, wire: Wire, step: int
) -> None:
    """Everybody's line breaks once, each behind another piece: of what asks for tools, or of the answer after them."""
    whole = first_tools_then({"content": ANSWER}, chunkSize=3, latency=2)
    aimock.expect({"match": {"userMessage": GO_ON}, "response": {"content": "끝."}})
    for number in range(PEOPLE):
        once = {**whole[step]["match"], "userMessage": f"[{number}]", "sequenceIndex": 0}
        aimock.expect({**whole[step], "match": once, "truncateAfterChunks": number + 1})
    aimock.expect(*whole)
    async with gateway(tmp_path, wire, aimock) as (app, channel):
        asked = [await channel.write(f"[{number}] 얼마야?", sender=f"person {number}") for number in range(PEOPLE)]
        outcomes = await asyncio.gather(*(outcome_of(app, each) for each in asked))
        assert {each.kind for each in outcomes} == {"answered"}
        for accepted, outcome in zip(asked, outcomes, strict=True):
            results = await check_transcript(app, accepted.session)
            assert len(results) == len(outcome.tools)
            assert {each.status for each in results} <= {"ok"}
    assert sum("interrupted" in entry["response"] for entry in aimock.journal()) > 10


@pytest.mark.parametrize(
    "trouble",
    [{"disconnectRate": 0.5}, {"disconnectRate": 0.2, "dropRate": 0.2, "rateLimitRate": 0.2}],
    ids=["lines", "all"],
)
async def test_on_bad_lines_every_message_ends_once(
    tmp_path: Path, aimock: Aimock, wire: Wire, trouble: dict[str, float]
) -> None:
    aimock.expect(*first_tools_then({"content": ANSWER}))
    aimock.fail(**trouble)
    async with gateway(tmp_path, wire, aimock) as (app, channel):
        asked = [await channel.write("삼성전자 얼마야?", sender=f"person {number}") for number in range(PEOPLE)]
        assert len({each.session for each in asked}) == PEOPLE
        outcomes = await asyncio.gather(*(outcome_of(app, each) for each in asked))
        await app.idle()
        kinds = Counter(each.kind for each in outcomes)
        assert set(kinds) <= {"answered", "failed"}
        assert kinds["answered"] > 0
        for accepted, outcome in zip(asked, outcomes, strict=True):
            results = await check_transcript(app, accepted.session)
            assert outcome.kind == "failed" or [each.status for each in results] == ["ok", "ok"]
        replied = Counter(sent.unit.inbound_id for sent in channel.sent)
        assert replied == Counter(each.id for each in asked)
        await _check_all_recover(app, channel, aimock)
    assert any(entry["response"].get("chaosAction") for entry in aimock.journal())


async def _check_all_recover(app: finclaw.App, channel: MemoryChannel, server: Aimock) -> None:
    """The line is good again, and nothing that was left behind is refused."""
    server.fail()
    for number in range(PEOPLE):
        following = await outcome_of(app, await channel.write("그 다음은?", sender=f"person {number}"))
        assert following.kind == "answered", following
