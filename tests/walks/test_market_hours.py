"""Answers only while a market is open, where the operator wants it so."""

import logging
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.walks.house import House

from finclaw.approvals.people import PersonSettings
from finclaw.pipeline.settings import PipelineSettings
from finclaw.testing import FakeClock

RESPECT = PipelineSettings(respect_market_hours=True)
MINA = PersonSettings(name="Mina", known_as=("memory:local:mina",))
SATURDAY = datetime(2026, 11, 14, 3, tzinfo=UTC)
KOREAN_NOON = datetime(2026, 11, 16, 3, tzinfo=UTC)
"""Seoul is open, New York is not."""
EXAM_MORNING = datetime(2026, 11, 19, 0, 30, tzinfo=UTC)
"""09:30 in Seoul, which opens at ten on this day."""


def ask_at(tmp_path: Path, moment: datetime, text: str, settings: PipelineSettings, **person: str) -> tuple[str, str]:
    """The outcome of a message of Mina's at that moment, and what she reads."""
    house = House(tmp_path, clock=FakeClock(moment))

    async def ask() -> tuple[str, str]:
        async with house.open("fine", people=[MINA], pipeline=settings) as gateway:
            if person:
                await gateway.app.persons.change("Mina", person)
            outcome = await gateway.ask(text, sender="mina")
            assert len(gateway.provider.requests) == (outcome.kind == "answered")
            (said,) = gateway.said
            return outcome.kind, said

    return house.clock.run(ask())


@pytest.mark.spec("P-08")
@pytest.mark.parametrize(
    ("moment", "text", "person", "said"),
    [
        (
            SATURDAY,
            "how is apple",
            {},
            "I answer only while the market is open. KRX opens next on Mon 16 Nov 2026 at 09:00 (Korean time). "
            "Commands work at any hour.",
        ),
        (
            SATURDAY,
            "삼성전자 어때",
            {},
            "장이 열려 있는 동안에만 답변합니다. KRX의 다음 개장은 2026년 11월 16일(월) 09:00(한국 시간)입니다. "
            "명령어는 언제든 쓸 수 있습니다.",
        ),
        (
            EXAM_MORNING,
            "NVDA?",
            {"language": "ko", "timezone": "America/New_York", "market": "KRX"},
            "장이 열려 있는 동안에만 답변합니다. KRX의 다음 개장은 2026년 11월 18일(수) 20:00(뉴욕 시간)입니다. "
            "명령어는 언제든 쓸 수 있습니다.",
        ),
        (
            KOREAN_NOON,
            "삼성전자",
            {"language": "en-GB", "timezone": "Europe/Paris", "market": "NASDAQ"},
            "I answer only while the market is open. NASDAQ opens next on Mon 16 Nov 2026 at 15:30 (Europe/Paris). "
            "Commands work at any hour.",
        ),
    ],
)
def test_outside_of_market_hours_one_line_says_when_it_opens(
    tmp_path: Path, moment: datetime, text: str, person: dict[str, str], said: str
) -> None:
    assert ask_at(tmp_path, moment, text, RESPECT, **person) == ("skipped", said)


@pytest.mark.spec("P-08")
@pytest.mark.parametrize(
    ("moment", "settings", "person"),
    [
        (KOREAN_NOON, RESPECT, {}),
        (SATURDAY, RESPECT, {"market": "CRYPTO"}),
        (KOREAN_NOON, RESPECT, {"market": "XETR"}),  # a market without a calendar: the usual ones count
        (SATURDAY, PipelineSettings(), {}),
    ],
)
def test_within_them_or_without_the_setting_it_is_answered(
    tmp_path: Path, moment: datetime, settings: PipelineSettings, person: dict[str, str]
) -> None:
    assert ask_at(tmp_path, moment, "how is it", settings, **person) == ("answered", "fine")


def test_commands_work_at_any_hour(tmp_path: Path) -> None:
    kind, said = ask_at(tmp_path, SATURDAY, "/help", RESPECT)
    assert kind == "command"
    assert "/help" in said


@pytest.mark.parametrize(
    ("moment", "warned"), [(datetime(2027, 10, 31, tzinfo=UTC), False), (datetime(2027, 11, 1, tzinfo=UTC), True)]
)
def test_a_start_warns_before_the_calendar_ends(
    tmp_path: Path, moment: datetime, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        ask_at(tmp_path, moment, "hi", PipelineSettings())
    lines = [record.getMessage() for record in caplog.records if "holidays and hours of markets" in record.getMessage()]
    assert len(lines) == warned
    assert all("known for 60 more days, until 2027-12-31; install a newer version" in line for line in lines)
