"""`finclaw costs`: what the models have cost, in words and for programs, with and without a gateway."""

import asyncio
import json
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from tests.cli.gateway_process import serving
from tests.cli.recorded_turns import Recorder
from tests.cli.terminal import finclaw

from finclaw.agent.settings import AgentSettings
from finclaw.cli.main import main
from finclaw.clock import SystemClock, local_day
from finclaw.kernel.chunk import Usage
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.record import ClaimOnAccept, Spend
from finclaw.storage.sqlite.database import DATABASE
from finclaw.storage.sqlite.store import open_store
from finclaw.testing import FakeClock, reply


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """Two days, one dear model: yesterday wrote to the cache what today reads from it. Today has no midnight."""
    clock = FakeClock()
    monkeypatch.setattr("finclaw.cli.attach.SystemClock", lambda: clock)
    recorder = Recorder(tmp_path, AgentSettings(model="anthropic/claude-sonnet-4-6"), clock=clock)
    recorder.record("one", reply("fine", usage=Usage(input=1_000, output=100, cache_write=6_000)))
    clock.jump(timedelta(days=1))
    recorder.record("two", reply("fine", usage=Usage(input=1_000, output=100, cache_read=6_000)))
    return recorder


def told(recorder: Recorder, capsys: pytest.CaptureFixture[str], *args: str) -> list[str]:
    assert main(["costs", *args, "--state", str(recorder.state)]) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.spec("PC-03", "PC-04", "CO-01", "DX-51b")
def test_costs_by_day_with_what_the_cache_saved(recorder: Recorder, capsys: pytest.CaptureFixture[str]):
    head, yesterday, today, total, note, limit = told(recorder, capsys)
    assert head.split() == ["DAY", "CALLS", "IN", "OUT", "CACHE", "READ", "CACHE", "WRITE", "HIT", "COST", "SAVED"]
    assert yesterday.split()[1:] == ["1", "1,000", "100", "0", "6,000", "0%", "$0.027", "-$0.0045"]
    assert today.split()[1:] == ["1", "1,000", "100", "6,000", "0", "86%", "$0.0063", "$0.0162"]
    assert total.split() == ["total", "2", "2,000", "200", "6,000", "6,000", "43%", "$0.0333", "$0.0117"]
    assert "UTC" in note
    assert limit == "today: $0.0063 of $3.00 (budget.agent_day_usd)"
    assert len({len(line) for line in (head, yesterday, today, total)}) == 1, "in columns"
    assert told(recorder, capsys, "--days", "1")[1].split() == today.split(), "today alone"


def test_costs_say_how_many_calls_reported_more_than_they_could_cost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder = Recorder(
        tmp_path, AgentSettings(model="anthropic/claude-sonnet-4-6"), clock=FakeClock(SystemClock().now())
    )
    recorder.record("one", reply("fine", usage=Usage(input=10**19, output=100)))
    assert "overstated: the provider reported more than 1 call could cost" in "\n".join(told(recorder, capsys))
    (line,) = told(recorder, capsys, "--json")
    assert json.loads(line)["total"]["overstated"] == 1


def test_what_a_server_that_tells_no_usage_costs_is_estimated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its answers are not free because it does not say what they used."""
    recorder = Recorder(
        tmp_path, AgentSettings(model="anthropic/claude-sonnet-4-6"), clock=FakeClock(SystemClock().now())
    )
    recorder.record("one", reply("fine", usage=Usage()))
    calls, asked, said = told(recorder, capsys)[1].split()[1:4]
    assert calls == "1"
    assert int(asked.replace(",", "")) > 0
    assert int(said) > 0
    assert "$0.0000" not in told(recorder, capsys)[1]


@pytest.mark.parametrize(
    ("by", "name"), [("model", "anthropic/claude-sonnet-4-6"), ("user", "web:local:ada"), ("agent", "main")]
)
def test_costs_by_something_else(recorder: Recorder, capsys: pytest.CaptureFixture[str], by: str, name: str):
    head, line, *_ = told(recorder, capsys, "--by", by)
    assert (head.split()[0], line.split()[0], line.split()[1]) == (by.upper(), name, "2")


@pytest.mark.spec("PC-04")
def test_costs_for_programs(recorder: Recorder, capsys: pytest.CaptureFixture[str]):
    (line,) = told(recorder, capsys, "--json", "--by", "user", "--days", "7")
    view = json.loads(line)
    assert (view["days"], view["by"], view["items"][0]["name"]) == (7, "user", "web:local:ada")
    assert (view["total"]["cost"], view["total"]["saved"]) == ("0.0333", "0.0117"), "exact, as text"
    assert view["hit_rate"] == round(6_000 / 14_000, 4)


def test_what_has_no_price_is_counted_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    recorder = Recorder(tmp_path, AgentSettings(model="scripted/secret"), clock=FakeClock(SystemClock().now()))
    recorder.record("one", "fine")
    lines = told(recorder, capsys)
    assert lines[1].split()[1:4] == ["1", "100", "20"]
    assert lines[-1] == "No price is known of scripted/secret: its calls are counted, their cost not."
    assert "No price" not in "\n".join(told(recorder, capsys, "--json"))


def test_where_nothing_was_spent(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert told(Recorder(tmp_path / "new"), capsys, "--days", "1") == ["nothing was spent in the last 1 day"]
    assert not (tmp_path / "new").exists(), "asking does not make a state"


def test_an_interrupted_call_is_marked(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """User trial H6: the process died in the middle of an answer; nobody has started a gateway since."""
    asyncio.run(_die_in_a_call(tmp_path))
    recorder = Recorder(tmp_path)
    lines = told(recorder, capsys)
    assert lines[1].split()[1] == "1"
    assert lines[4] == "interrupted: 1 call of these, cut off by a crash or a restart; their $0.25 is an estimate."
    assert lines[5] == "today: $0.25 of $3.00 (budget.agent_day_usd)"
    total = json.loads(told(recorder, capsys, "--json")[0])["total"]
    assert (total["calls"], total["interrupted"], total["cost"], total["interrupted_cost"]) == (1, 1, "0.25", "0.25")


async def _die_in_a_call(state: Path) -> None:
    """What a process leaves that was killed when its request had left."""

    def reserve(context: int) -> Spend:
        return Spend(
            day=local_day(SystemClock().now()),
            agent="main",
            user="web:ada",
            model="offline/demo",
            calls=1,
            usage=Usage(1_000 + context, 200),
            cost=Decimal("0.25"),
            saved=Decimal(0),
        )

    store = open_store(state / DATABASE, SystemClock())
    await store.accept(Inbound(text="hi", message_id="1"), "s", lambda _: None, ClaimOnAccept(None, reserve))
    await store.close()


@pytest.mark.parametrize("days", ["0", "3661", "-1", "many", "١", ""])
def test_days_are_a_number(days: str):
    with pytest.raises(SystemExit, match="2"):
        main(["costs", "--days", days])


def test_a_running_gateway_is_asked_for_costs(tmp_path: Path):
    with serving(tmp_path):
        finclaw("ask", "What is AAPL trading at?", "--state", tmp_path)
        said = finclaw("costs", "--by", "model", "--state", tmp_path)
    assert "offline/demo" in said.out
    assert finclaw("costs", "--by", "model", "--state", tmp_path).out == said.out


@pytest.mark.spec("CO-02")
def test_a_budget_for_a_model_without_a_price_is_found_before_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    settings = tmp_path / "finclaw.yaml"
    settings.write_text(
        "agent: {model: ollama/qwen3}\nmodels: {ollama/qwen3: {window: 32768}}\nbudget: {month_usd: 5}\n"
    )
    assert main(["config", "check", "--state", str(tmp_path)]) != 0
    assert "declare models.ollama/qwen3.input_price" in "".join(capsys.readouterr())
    settings.write_text(settings.read_text().replace("32768", "32768, input_price: 0, output_price: 0"))
    assert main(["config", "check", "--state", str(tmp_path)]) == 0
