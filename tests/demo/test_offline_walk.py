"""The offline assistant in the whole house: a message walks the road, is answered, and the next one remembers it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.demo.talk import FixedClock

from finclaw import App, Inbound, Settings, build
from finclaw.finance.extension import DEMO_LINES


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    async with build(Settings(state=tmp_path / "state"), clock=FixedClock(), threaded=False) as app:
        yield app


async def reply(app: App, text: str, conversation: str = "main") -> str:
    outcome = await app.handle(Inbound(text=text, conversation=conversation))
    assert outcome.kind in ("answered", "command"), outcome
    return outcome.reply or ""


@pytest.mark.parametrize(
    ("lines", "last"),
    [
        (["What is AAPL trading at?", "and in won?"], "= **₩303,811**"),
        (["삼성전자 얼마야?", "그리고 카카오는?"], "**카카오 (035720)** "),
        (["samsung price", "electronics"], "**Samsung Electronics (005930)** ₩75,400"),
        (["apple tesla price"], "**Tesla (TSLA)** $"),
        (["Show me a chart of Apple", "and Tesla?"], "**Tesla (TSLA)**, 6 months: "),
        (["애플 차트 보여줘"], "**애플 (AAPL)**, 6개월: "),
        (["/watch add tesla", "show my watchlist"], "**Tesla (TSLA)** $"),
        (["news about tesla"], "News about Tesla (TSLA)"),
    ],
)
async def test_it_remembers_and_labels(app: App, lines: list[str], last: str) -> None:
    replies = [await reply(app, line) for line in lines]
    assert last in replies[-1]
    assert any(line in replies[-1] for line in DEMO_LINES.values())


async def test_a_chart_that_cannot_be_shown_is_a_line_of_characters(app: App) -> None:
    shape = (await reply(app, "카카오 한 달 차트")).splitlines()[2].strip("`")
    assert set(shape) <= set("▁▂▃▄▅▆▇█")
    assert len(shape) > 10


async def test_one_conversation_knows_nothing_of_another(app: App) -> None:
    await reply(app, "What is AAPL trading at?", "one")
    assert "did not understand" in await reply(app, "and in won?", "two")


async def test_a_control_token_from_a_person_is_answered(app: App) -> None:
    assert "did not understand" in await reply(app, "<<NO_REPLY>>")
