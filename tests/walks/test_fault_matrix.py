"""Whatever a model's server does, in whichever step: one outcome, one answer to see, and a next message that works."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.providers.fault import WAIT, Fault
from tests.providers.faults import FAULTS
from tests.providers.faulty_server import FaultyServer
from tests.providers.protocols import WIRES, Call, Said, Wire
from tests.support.api_rules import violations
from tests.walks.fault_tools import Tools, anybody
from tests.walks.house import FOREVER
from tests.walks.tools import Desk

import finclaw
from finclaw.agent.settings import AgentSettings
from finclaw.kernel.event import Event, ModelRetried, PreviewUpdated, StepStarted, TextStreamed
from finclaw.kernel.scope import Outcome
from finclaw.testing import FakeClock, MemoryChannel
from finclaw.transcript.request_sanitizer import sanitize_request

STEPS = (
    Said("먼저 찾아봅니다. 목록을 엽니다 🙂. 있습니다. ", (Call("call_1", "look", '{"text": "목록"}'),)),
    Said("이제 적습니다. 그 줄을 넣습니다 ✅. 됐습니다. ", (Call("call_2", "order", '{"text": "한 줄"}'),)),
    Said("모두 끝났습니다. 줄을 넣었습니다 🌱. 고맙습니다."),
)
RUNS = (("look", "목록"), ("order", "한 줄"))
NEXT = Said("네, 그 다음 말씀도 들었습니다.")
NOTICES = (
    *("지금은 답변을 드릴 수 없습니다", "시간이 너무 오래 걸려 중단했습니다", "처리가 멈춰서 중단했습니다"),
    *("한 번에 읽기에는 너무 깁니다", "모델이 이 요청을 받아들이지 않았습니다"),
)

CUT = "(답변이 길이 한도에 도달해 여기서 끊겼습니다. 계속해 달라고 하시면 이어서 답변하겠습니다.)"
WORDLESS = "죄송합니다. 이번에는 답변을 만들지 못했습니다. 다른 표현으로 다시 물어봐 주세요."

Case = tuple[Wire, Fault, int]


PLACES = ("first", "middle", "last")


def _case(wire: Wire, fault: Fault, step: int, *, always: bool) -> Any:
    marks = [] if always else [pytest.mark.soak]
    return pytest.param((wire, fault, step), id=f"{wire.name}-{fault.name}-{PLACES[step]}", marks=marks)


# Every run sees each fault in the first step of one protocol and in the last of the other (a middle step is a last one
# with another behind it), and in both where only one has it; `make soak` sees all.
CASES: Sequence[Any] = [
    _case(wire, fault, step, always=step != 1 and (fault.only is not None or (number + place) % 2 == (step == 0)))
    for place, wire in enumerate(WIRES)
    for number, fault in enumerate(FAULTS)
    if fault.only in (None, wire.name)
    for step in range(len(PLACES))
]


@dataclass
class Talk:
    """A gateway with a real provider, and what could be seen of it."""

    app: finclaw.App
    channel: MemoryChannel
    events: list[Event] = field(default_factory=list[Event])

    async def ask(self, text: str) -> tuple[Outcome, str]:
        accepted = await self.channel.write(text)
        record = await self.app.wait(accepted.id, FOREVER)
        await self.app.idle()
        assert record is not None
        assert record.outcome is not None, "the message was left without an outcome"
        return record.outcome, accepted.session

    @property
    def streamed(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, TextStreamed))

    def check_previews(self) -> None:
        """In each step, every piece stands right behind the last one, and all of them were said."""
        said = shown = ""
        for event in self.events:
            match event:
                case StepStarted():
                    said = shown = ""
                case TextStreamed(text=text):
                    said += text
                case PreviewUpdated(at=at, text=text):
                    assert at == len(shown)
                    shown += text
                    assert said.startswith(shown)
                case _:
                    pass

    @property
    def waits(self) -> list[float]:
        return [event.wait_s for event in self.events if isinstance(event, ModelRetried)]


@asynccontextmanager
async def talking(state: Path, clock: FakeClock, wire: Wire, url: str, desk: Desk) -> AsyncGenerator[Talk]:
    channel = MemoryChannel(clock)
    async with finclaw.build(
        finclaw.Settings(state=state, agent=AgentSettings(model=f"{wire.name}/some-model")),
        channels=[channel],
        provider=wire.provider(url, clock),
        extensions=[Tools(desk)],
        consent=anybody,
        clock=clock,
        threaded=False,
    ) as app:
        talk = Talk(app, channel)
        app.events.observe(talk.events.append)
        yield talk


@pytest.mark.spec("RT-01", "RT-02", "A-05", "DX-21")
@pytest.mark.parametrize("case", CASES)
def test_a_fault(case: Case, tmp_path: Path) -> None:
    clock = FakeClock()
    clock.run(_walk(case, tmp_path, clock))


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
def test_there_are_faults_enough(wire: Wire) -> None:
    names = [fault.name for fault in FAULTS if fault.only in (None, wire.name)]
    assert len(names) == len({*names}) >= 60


async def _walk(case: Case, state: Path, clock: FakeClock) -> None:
    wire, fault, step = case
    server, desk = FaultyServer(wire), Desk()
    async with server.serving() as url, talking(state, clock, wire, url, desk) as talk:
        server.expect(
            *STEPS,
            faults=fault.spoils,
            step=step,
            taken=fault.then in ("taken", "ended", "cut", "wordless"),
            instead=WAIT if fault.then == "told" else None,
        )
        outcome, session = await talk.ask("목록에서 한 줄만 적어 줘")
        _check_outcome(fault, step, outcome, talk, desk)
        _check_requests(fault, step, server)
        server.expect(NEXT)
        following, _ = await talk.ask("그 다음은?")
        assert (following.kind, following.reply) == ("answered", NEXT.text)
        seen = [NEXT.text] if outcome.reply is None else [outcome.reply, NEXT.text]
        assert [each.text for each in talk.channel.sent] == seen
        assert server.complaints == []
        messages = sanitize_request(await talk.app.messages(session))
        assert violations(messages, "anthropic") == violations(messages, "openai") == ()
        _check_nothing_runs(talk.app)
    await _check_nothing_is_left(server)


def _check_outcome(fault: Fault, step: int, outcome: Outcome, talk: Talk, desk: Desk) -> None:
    texts = [said.text for said in STEPS]
    before, after = RUNS[:step], RUNS[step:]
    match fault.then:
        case "saved" | "taken":
            expected = ("answered", texts[-1], "".join(texts), RUNS)
        case "told":
            expected = (
                "answered",
                texts[-1],
                "".join([*texts[:step], WAIT.text, *texts[step:]]),
                (*before, *fault.runs, *after),
            )
        case "ended":
            expected = ("answered", texts[step].strip(), "".join(texts[: step + 1]), before)
        case "cut":
            expected = ("answered", f"{texts[step].strip()}\n\n{CUT}", "".join(texts[: step + 1]), before)
        case "wordless":
            expected = ("answered", WORDLESS, "".join(texts[:step]), before)
        case "failed":
            assert outcome.reply is not None
            assert any(words in outcome.reply for words in NOTICES), outcome
            assert "".join(texts).startswith(talk.streamed)
            assert outcome.kind in ("failed", "stopped")
            expected = (outcome.kind, outcome.reply, talk.streamed, before)
    assert (outcome.kind, outcome.reply, talk.streamed, tuple(desk.runs)) == expected, outcome
    talk.check_previews()
    assert all(wait >= fault.waits for wait in talk.waits)
    assert min(msgspec.structs.astuple(outcome.usage)) >= 0


def _check_requests(fault: Fault, step: int, server: FaultyServer) -> None:
    """Nobody is asked more often than helps."""
    asked = len(server.requests)
    match fault.then:
        case "saved" | "told":
            assert asked == len(STEPS) + len(fault.spoils)
        case "taken":
            assert asked == len(STEPS)
        case "ended" | "cut" | "wordless":
            assert asked == step + 1
        case "failed":
            assert step < asked <= step + 3


def _check_nothing_runs(app: finclaw.App) -> None:
    assert len(app._core.lanes) == 0  # pyright: ignore[reportPrivateUsage]
    assert app._parts.pools.running("main") == app._parts.pools.waiting("main") == 0  # pyright: ignore[reportPrivateUsage]


async def _check_nothing_is_left(server: FaultyServer) -> None:
    await asyncio.sleep(60)  # the server has yet to see that the line is gone
    assert server.talking == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}
