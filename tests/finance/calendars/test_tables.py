"""The end of the shipped calendar is told in time, and what nobody has published is told as unknown."""

from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from tests.finance.desk import Desk

from finclaw.composition.extensions import load_registrar
from finclaw.config.schema import Settings
from finclaw.finance.calendar import judge_expiry
from finclaw.testing import FakeClock


@pytest.mark.parametrize(
    ("today", "result", "text"),
    [
        ("2026-11-17", "ok", "known until 2027-12-31"),
        ("2027-10-31", "ok", "known until 2027-12-31"),
        ("2027-11-01", "warning", "known for 60 more days"),
        ("2027-12-31", "warning", "known for 0 more days"),
        ("2028-01-01", "error", "a holiday is taken for a trading day"),
    ],
)
def test_the_end_of_the_calendar_is_told_two_months_before(today: str, result: str, text: str):
    finding = judge_expiry(date.fromisoformat(today))
    assert finding.result == result
    assert text in finding.text
    assert bool(finding.advice) == (result != "ok")


def test_the_doctor_looks_at_the_calendar(tmp_path: Path):
    registrar = load_registrar(Settings(state=tmp_path))
    (finance,) = (each for each in registrar.loaded if each.name == "finance")
    assert [check.name for check in finance.doctor] == ["calendars"]


async def test_the_hours_of_the_exam_day_say_what_is_not_known():
    desk = Desk(FakeClock(datetime(2026, 11, 19, 8, 30, tzinfo=UTC)))  # 17:30 in Seoul
    output = await desk.use("market__hours", {"market": "KRX"})
    assert "phase: KRX unknown 2026-11-19T07:30+00:00 to 2026-11-19T11:00+00:00 (the regular session" in output.content
    output = await desk.use("market__hours", {"market": "KRX", "on": "2026-11-19"})
    fields = {fact.field: datetime.fromtimestamp(int(fact.value), UTC) for fact in output.facts}
    assert (fields["opens_at"].hour, fields["closes_at"].hour, fields["closes_at"].minute) == (1, 7, 30)
    assert fields["KRX unknown ends"] == datetime(2026, 11, 19, 11, tzinfo=UTC)
    assert "\n\n" not in output.content  # one market, one record
    assert "NXT unknown 2026-11-18T23:00+00:00 to 2026-11-19T01:00+00:00" in output.content


async def test_after_the_close_the_after_market_is_named_with_its_end():
    desk = Desk(FakeClock(datetime(2026, 11, 16, 8, tzinfo=UTC)))
    facts = await desk.facts("market__hours", market="KRX")
    assert facts["is_open"].value == 0
    assert facts["KRX after ends"].value == int(datetime(2026, 11, 16, 11, tzinfo=UTC).timestamp())
