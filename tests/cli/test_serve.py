"""The gateway as a process: starting, being found, being asked, stopping, and everything that can be in its way."""

import json
import resource
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from tests.cli.gateway_process import serving
from tests.cli.terminal import Ended, clean_environment, finclaw


def test_a_first_day(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with serving(state) as gateway:
        with urllib.request.urlopen(gateway.url + "/readyz") as response:
            assert response.status == 200
        asked = finclaw("ask", "What is AAPL trading at?", "--state", state)
        assert (asked.code, asked.err) == (0, "")
        assert "AAPL" in asked.out
        status = json.loads(finclaw("status", "--json", "--state", state).out)
        assert (status["running"], status["ready"], status["url"]) == (True, True, gateway.url)
        assert (status["pid"], status["market"], status["model"]) == (gateway.process.pid, "demo", "offline/demo")
        assert status["counts"]["ended"] == 1
        code, out = gateway.stop()
    token = (state / "token").read_text().strip()
    assert code == 0
    assert token in out
    assert "DEMO" in out
    assert "  model   offline/demo\n" in out
    assert "  budget  $3.00 a day for models" in out
    assert "  with    memory (notes people ask it to keep), web (reads pages)\n" in out
    assert not (state / "gateway.json").exists()

    with serving(state) as gateway:  # the second day: the same token, not shown again
        _, out = gateway.stop(signal.SIGINT)
    assert gateway.process.returncode == 0
    assert token not in out
    assert (state / "token").read_text().strip() == token
    assert "no gateway runs" in finclaw("status", "--state", state).out


def test_the_whole_outcome_with_and_without_a_gateway(tmp_path: Path) -> None:
    keys = {
        "outcome",
        "reply",
        "turn_id",
        "stages_executed",
        "tools",
        "facts",
        "usage",
        "cost",
        "model",
        "duration_ms",
        "reason",
        "is_markdown",
    }
    question = ("ask", "--json", "--state", tmp_path, "삼성전자 현재 주가 알려줘")
    here = json.loads(finclaw(*question).out)
    with serving(tmp_path):
        there = json.loads(finclaw(*question).out)
    for outcome in (here, there):
        assert set(outcome) == keys
        assert outcome["outcome"] == "answered"
        assert outcome["stages_executed"][-1] == "deliver"
        assert [tool["status"] for tool in outcome["tools"]] == ["ok"]
        assert outcome["facts"]
        assert isinstance(outcome["cost"], str)


def test_the_question_may_come_by_a_pipe(tmp_path: Path) -> None:
    for text in ([], ["-"]):
        ended = finclaw("ask", *text, "--state", tmp_path, stdin="What is AAPL trading at?\n")
        assert ended.code == 0
        assert "AAPL" in ended.out


def test_two_who_ask_at_once_wait_for_each_other(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "finclaw", "ask", "What is AAPL trading at?", "--state", str(tmp_path)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, env=clean_environment()) for _ in range(2)]
    assert all(b"AAPL" in each.communicate(timeout=60)[0] for each in both)
    assert [each.returncode for each in both] == [0, 0]


_IMPATIENT = """
import asyncio, runpy, sys, time

def wait(*_):
    raise AssertionError("it waits")

time.sleep = asyncio.sleep = wait
sys.argv[0] = "finclaw"
runpy.run_module("finclaw", run_name="__main__")
"""


def impatient(*args: str | Path) -> Ended:
    """A command to which every wait is an error: whether it leaves at once no clock can tell on a busy machine."""
    command = [sys.executable, "-c", _IMPATIENT, *map(str, args)]
    environ = clean_environment()
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environ)
    return Ended(done.returncode, done.stdout, done.stderr)


def test_a_second_gateway_leaves_at_once_and_the_first_goes_on(tmp_path: Path) -> None:
    with serving(tmp_path) as first:
        port = first.url.rpartition(":")[2]
        for choice in ("0", port):  # another port, and the very same
            second = impatient("serve", "--port", choice, "--state", tmp_path)
            assert second.code == 1
            assert "another gateway" in second.line()
            assert "--state" in second.line()
        assert finclaw("ask", "What is AAPL trading at?", "--state", tmp_path).code == 0


def test_after_a_kill_a_new_one_starts_at_once(tmp_path: Path) -> None:
    with serving(tmp_path) as first:
        first.stop(signal.SIGKILL)
    assert (tmp_path / "gateway.json").exists()  # points nowhere now
    assert finclaw("ask", "What is AAPL trading at?", "--state", tmp_path).code == 0
    assert "no gateway runs" in finclaw("status", "--state", tmp_path).out
    (tmp_path / "gateway.json").unlink()
    with serving(tmp_path) as second:
        assert second.stop()[0] == 0


def test_a_port_in_use_touches_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = finclaw("serve", "--port", str(port), "--state", tmp_path / "state")
    assert ended.code == 1
    assert ended.line() == (
        f"finclaw: port {port} is in use by another program; stop it, or use --port N for another port"
    )
    assert not (tmp_path / "state").exists()


def test_a_port_that_another_finclaw_uses_is_said_to_be_so(tmp_path: Path) -> None:
    with serving(tmp_path / "one") as gateway:
        port = gateway.url.rpartition(":")[2]
        ended = finclaw("serve", "--port", port, "--state", tmp_path / "two")
    assert ended.code == 1
    assert f"port {port} is in use by another FinClaw" in ended.line()
    assert not (tmp_path / "two").exists()


def test_a_token_for_everybody(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t" * 43)
    (tmp_path / "token").chmod(0o644)
    ended = finclaw("serve", "--port", "0", "--state", tmp_path)
    assert ended.code == 2
    assert "chmod 600" in ended.line()


def test_a_place_where_nothing_can_be_written() -> None:
    for command in (["serve", "--port", "0"], ["ask", "hi"]):
        ended = finclaw(*command, "--state", "/proc/finclaw")
        assert ended.code == 2
        assert "cannot use the state directory" in ended.line()


def test_a_damaged_database(tmp_path: Path) -> None:
    (tmp_path / "finclaw.db").write_bytes(b"this is no database" * 1_000)
    for command in (["serve", "--port", "0"], ["ask", "hi"], ["status"]):
        ended = finclaw(*command, "--state", tmp_path)
        assert ended.code == 1
        assert "is damaged" in ended.line()


@pytest.mark.parametrize("size", [0, 20_000])
def test_a_disk_that_takes_no_more(tmp_path: Path, size: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "finclaw", "ask", "hi", "--state", str(tmp_path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=clean_environment(),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
    )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("finclaw: ")


KEYED = """
providers: {house: {kind: openai, base_url: "http://127.0.0.1:9/v1", key: env:HOUSE_KEY}}
models: {house/llama: {window: 32000}}
agent: {model: house/llama}
"""


def test_only_who_asks_the_model_needs_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gateway has the key; the second terminal need not."""
    (tmp_path / "finclaw.yaml").write_text(KEYED)
    for looking in ("status", "turns", "costs", "models", "approvals"):
        assert finclaw(looking, "--state", tmp_path).code == 0, looking
    for asking in (("ask", "/help"), ("serve",)):
        alone = finclaw(*asking, "--state", tmp_path)
        assert (alone.code, "HOUSE_KEY, which is not set" in alone.err) == (2, True), asking
    monkeypatch.setenv("HOUSE_KEY", "sk-test")
    with serving(tmp_path):
        monkeypatch.delenv("HOUSE_KEY")
        asked = finclaw("ask", "/help", "--state", tmp_path)
        assert (asked.code, asked.err) == (0, "")
