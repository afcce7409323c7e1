"""`finclaw models list`, and what `finclaw ask` says when the model cannot be had."""

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tests.cli.terminal import finclaw

SETTINGS = """\
agent: {model: fast}
providers: {box: {kind: openai, base_url: "http://127.0.0.1:9/v1"}}
models:
  box/qwen3: {window: 32768}
  openai/gpt-5: {input_price: 2, output_price: 9}
aliases: {fast: box/qwen3}
"""


def listed(state: Path) -> dict[str, dict[str, Any]]:
    return {
        each["model"]: each for each in json.loads(finclaw("models", "list", "--json", "--state", state).out)["models"]
    }


@pytest.mark.spec("N-02")
def test_the_list_for_people(tmp_path: Path) -> None:
    ended = finclaw("models", "list", "--state", tmp_path)
    assert (ended.code, ended.err) == (0, "")
    rows = {line.split()[1 if line.startswith("*") else 0]: line for line in ended.out.splitlines()}
    assert rows["offline/demo"].startswith("*")
    assert rows["anthropic/claude-sonnet-4-6"].split()[1:7] == ["-", "1,000,000", "128,000", "3", "15", "0.3"]
    assert "tools images thinking caching" in rows["anthropic/claude-sonnet-4-6"]
    assert "catalog of 2026" in rows["openai/gpt-5"]
    assert finclaw("models", "--state", tmp_path).out == ended.out


def test_what_the_settings_say_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "finclaw.yaml").write_text(SETTINGS)
    models = listed(tmp_path)
    own = models["box/qwen3"]
    assert (own["chosen"], own["window"], own["price"], own["aliases"]) == (True, 32_768, None, ["fast"])
    assert own["from"] == "your settings"
    changed = models["openai/gpt-5"]
    assert changed["price"] == {"input": "2", "output": "9", "cache_read": "0.2", "cache_write": "2"}
    assert changed["from"].endswith("with your settings")
    assert not changed["chosen"]
    words = finclaw("models", "list", "--state", tmp_path).out.splitlines()
    (row,) = [line for line in words if "box/qwen3" in line]
    assert row.split()[:8] == ["*", "box/qwen3", "fast", "32,768", "4,096", "-", "-", "-"]
    assert max(map(len, words)) < 160, "a line that is piped is no essay"


@pytest.mark.parametrize("model", ["nothing", "box/zzzz"])
def test_a_chosen_one_that_is_not_there_is_told(tmp_path: Path, model: str) -> None:
    (tmp_path / "finclaw.yaml").write_text(f"agent: {{model: {model}}}\n")
    ended = finclaw("models", "list", "--state", tmp_path)
    assert ended.code == 0
    assert ended.out.splitlines()[-1] == f"agent.model is {model}, which is not in this list"


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("sonet", "agent.model: 'sonet' names no model and no alias (did you mean sonnet?)"),
        ("sonnet", "set the environment variable ANTHROPIC_API_KEY"),
        ("openai/gpt-5", "set the environment variable OPENAI_API_KEY"),
        ("openai/gpt-55", "did you mean openai/gpt-5"),
    ],
)
def test_a_model_that_cannot_be_asked_is_one_line_before_anything_else(tmp_path: Path, model: str, said: str) -> None:
    (tmp_path / "finclaw.yaml").write_text(f"agent: {{model: {model}}}\n")
    ended = finclaw("ask", "hello", "--state", tmp_path, ANTHROPIC_API_KEY="", OPENAI_API_KEY="")
    assert ended.code == 2
    assert said in ended.line()
    checked = finclaw("config", "check", "--state", tmp_path, ANTHROPIC_API_KEY="", OPENAI_API_KEY="")
    assert (checked.code, len(checked.out.splitlines())) == (1, 1)
    assert said in checked.out


# ── one that answers ────────────────────────────────────────────────────────────────────────────────────────

_OPENAI: Sequence[dict[str, Any]] = (
    {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Good day."}}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"prompt_tokens": 1_000, "completion_tokens": 100}},
)
_ANTHROPIC: Sequence[dict[str, Any]] = (
    {"type": "message_start", "message": {"usage": {"input_tokens": 1_000, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Good day."}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 100}},
    {"type": "message_stop"},
)


@contextmanager
def model_server(events: Sequence[dict[str, Any]]) -> Generator[tuple[str, list[tuple[str, Message, dict[str, Any]]]]]:
    """Gives the same answer to whoever asks, and keeps what was asked."""
    asked: list[tuple[str, Message, dict[str, Any]]] = []

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            asked.append((self.path, self.headers, body))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            for event in events:
                name = f"event: {event['type']}\n" if "type" in event else ""
                self.wfile.write(f"{name}data: {json.dumps(event)}\n\n".encode())

        def log_message(self, format: str, *args: Any) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("kind", "events", "path", "header", "limit"),
    [
        ("openai", _OPENAI, "/v1/chat/completions", ("authorization", "Bearer hush"), "max_completion_tokens"),
        ("anthropic", _ANTHROPIC, "/v1/messages", ("x-api-key", "hush"), "max_tokens"),
    ],
)
def test_the_model_that_the_settings_name_answers_and_its_price_counts(
    tmp_path: Path, kind: str, events: Sequence[dict[str, Any]], path: str, header: tuple[str, str], limit: str
) -> None:
    with model_server(events) as (address, asked):
        base_url = f"{address}/v1" if kind == "openai" else address
        (tmp_path / "finclaw.yaml").write_text(
            "agent: {model: mine, max_tokens: 4096}\n"
            f"providers: {{box: {{kind: {kind}, base_url: '{base_url}', key: env:BOX_KEY}}}}\n"
            "models: {box/m-1: {window: 32768, max_output: 512, input_price: 2, output_price: 10, "
            f"max_completion_tokens: {str(kind == 'openai').lower()}}}}}\n"
            "aliases: {mine: box/m-1}\n"
        )
        ended = finclaw("ask", "hello", "--json", "--state", tmp_path, BOX_KEY="hush")
    assert (ended.code, ended.err) == (0, "")
    outcome = json.loads(ended.out)
    assert outcome["reply"].startswith("Good day.")
    assert Decimal(outcome["cost"]) == Decimal("0.003")
    ((where, headers, body),) = asked
    assert (where, headers[header[0]], body["model"], body[limit]) == (path, header[1], "m-1", 512)


# ── one of them ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("model", "off"),
    [
        ("anthropic/claude-haiku-4-5", "it thinks only when it is asked to"),
        ("sonnet", "it is told not to think before it answers; between tool calls"),
        ("openai/gpt-5.6-luna", "it is told not to think"),
        ("opus", "cannot be switched off; it is asked for little"),
        ("openai/gpt-6-astra", "cannot be switched off"),
    ],
)
def test_what_becomes_of_thinking_off_is_told(tmp_path: Path, model: str, off: str) -> None:
    ended = finclaw("models", "show", model, "--state", tmp_path)
    assert (ended.code, ended.err) == (0, "")
    (line,) = [line for line in ended.out.splitlines() if line.startswith("  off ")]
    assert off in line


@pytest.mark.parametrize(("model", "is_bound"), [("sonnet", True), ("openai/gpt-5", False)])
def test_that_thoughts_are_bound_is_told(tmp_path: Path, model: str, is_bound: bool) -> None:
    words = finclaw("models", "show", model, "--state", tmp_path).out
    told = [line for line in words.splitlines() if line.startswith("  bound ")]
    assert len(told) == is_bound
    assert all("what it thought goes back to it within the same turn only" in line for line in told)


def test_what_it_refuses_is_told(tmp_path: Path) -> None:
    words = finclaw("models", "show", "openai/gpt-6-astra", "--state", tmp_path).out
    (line,) = [line for line in words.splitlines() if line.startswith("  refuses ")]
    assert line.endswith("temperature, stop_sequences; what you set is not sent to it")
    assert "  refuses " not in finclaw("models", "show", "openai/gpt-4o", "--state", tmp_path).out


def test_the_chosen_one_is_shown_unless_another_is_named(tmp_path: Path) -> None:
    (tmp_path / "finclaw.yaml").write_text(SETTINGS)
    words = finclaw("models", "show", "--state", tmp_path).out
    assert words.splitlines()[0] == "box/qwen3, the chosen one"
    assert "not known, so that it cannot be used under a budget" in words
    assert "  off " not in words, "nobody said that it can think"
    told = json.loads(finclaw("models", "show", "gpt-5", "--json", "--state", tmp_path).out or "{}")
    assert told == {}, "`gpt-5` is no alias"
    told = json.loads(finclaw("models", "show", "openai/gpt-5", "--json", "--state", tmp_path).out)
    assert (told["model"], told["features"]["thinking_off"], told["chosen"]) == ("openai/gpt-5", "never", False)


def test_one_that_nobody_knows_is_said(tmp_path: Path) -> None:
    ended = finclaw("models", "show", "sonet", "--state", tmp_path)
    assert ended.code != 0
    assert "did you mean sonnet?" in ended.err
