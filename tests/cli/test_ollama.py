"""An Ollama by variables alone, `FINCLAW_AGENT__MODEL=ollama/qwen3`. The server is a fake on loopback."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tests.cli.terminal import Ended, finclaw, reserved_port

from finclaw.providers.settings import ProviderSettings, with_ollama_address

_ANSWER: tuple[dict[str, Any], ...] = (
    {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Good day."}}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
)


class Ollama:
    """Runs `qwen3`; `gives` is the window that it has when loaded, `makes` what the model could take at most."""

    def __init__(self, gives: int | None, makes: int | None = 40_960, num_ctx: int | None = None) -> None:
        self.url = ""
        self.loaded = False
        self.asked: list[str] = []
        self._gives = gives
        self._makes = makes
        self._num_ctx = num_ctx

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        self.asked.append(path)
        if path == "/api/ps":
            running = {"name": "qwen3:latest", "model": "qwen3:latest", "size": 1}
            told = {} if self._gives is None else {"context_length": self._gives}
            return 200, json.dumps({"models": [{**running, **told}] if self.loaded else []}).encode()
        if body.get("model") != "qwen3":
            return 404, b'{"error":"model not found"}'
        if path == "/api/show":
            about = (
                {} if self._makes is None else {"qwen3.context_length": self._makes, "general.architecture": "qwen3"}
            )
            parameters = "" if self._num_ctx is None else f"num_ctx                        {self._num_ctx}\nstop  x"
            return 200, json.dumps({"model_info": about, "parameters": parameters}).encode()
        self.loaded = True
        if path == "/api/generate":
            return 200, b'{"done":true,"done_reason":"load"}'
        return 200, b"".join(f"data: {json.dumps(each)}\n\n".encode() for each in _ANSWER)


@contextmanager
def running(ollama: Ollama) -> Generator[Ollama]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.reply({})

        def do_POST(self) -> None:
            self.reply(json.loads(self.rfile.read(int(self.headers["content-length"]))))

        def reply(self, body: dict[str, Any]) -> None:
            status, content = ollama.answer(self.path, body)
            self.send_response(status)
            kind = "text/event-stream" if self.path.startswith("/v1") else "application/json"
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        ollama.url = f"http://127.0.0.1:{server.server_port}/v1"
        try:
            yield ollama
        finally:
            server.shutdown()
            thread.join()


def with_variables(url: str, *args: str | Path, model: str = "ollama/qwen3") -> Ended:
    return finclaw(*args, FINCLAW_AGENT__MODEL=model, OLLAMA_HOST=url.removeprefix("http://").removesuffix("/v1"))


def test_the_window_is_asked_of_the_server(tmp_path: Path) -> None:
    """User trial M18: it could not be used without a settings file."""
    with running(Ollama(gives=32_768)) as ollama:
        asked = with_variables(ollama.url, "ask", "hello", "--json", "--state", tmp_path)
        checked = with_variables(ollama.url, "config", "check", "--state", tmp_path)
    assert (asked.code, asked.err, checked.code) == (0, "", 0)
    outcome = json.loads(asked.out)
    assert (outcome["model"], outcome["reply"].split("\n")[0]) == ("ollama/qwen3", "Good day.")


def test_what_the_server_really_gives_counts(tmp_path: Path) -> None:
    """It cuts what is longer without a word: a model made for 40,960 tokens may be given 4,096."""
    with running(Ollama(gives=4_096)) as ollama:
        asked = with_variables(ollama.url, "ask", "hello", "--state", tmp_path)
        assert "/api/generate" in ollama.asked
        checked = with_variables(ollama.url, "config", "check", "--state", tmp_path)
    assert asked.code == 1
    assert "the window of ollama/qwen3 is 4,096 tokens" in checked.out
    assert "OLLAMA_CONTEXT_LENGTH" in checked.out


def test_the_models_own_file_counts_before_what_it_could_take(tmp_path: Path) -> None:
    with running(Ollama(gives=None, num_ctx=2_048)) as ollama:
        checked = with_variables(ollama.url, "config", "check", "--state", tmp_path)
        assert "/api/generate" not in ollama.asked  # a check loads nothing
    assert "is 2,048 tokens" in checked.out


@pytest.mark.parametrize("command", [("ask", "hello"), ("serve", "--port", "0")])
def test_no_server_is_one_clear_line(tmp_path: Path, command: tuple[str, ...]) -> None:
    with reserved_port() as port:
        ended = with_variables(f"http://127.0.0.1:{port}/v1", *command, "--state", tmp_path)
        checked = with_variables(f"http://127.0.0.1:{port}/v1", "config", "check", "--state", tmp_path)
    assert ended.code == 2
    for said in (ended.line(), checked.out):
        assert f"no Ollama answers at http://127.0.0.1:{port}" in said
        assert "ollama serve" in said


def test_a_model_that_the_server_lacks_says_how_to_get_it(tmp_path: Path) -> None:
    with running(Ollama(gives=1)) as ollama:
        ended = with_variables(ollama.url, "ask", "hello", "--state", tmp_path, model="ollama/qwen9")
    assert ended.code == 2
    assert "ollama pull qwen9" in ended.line()


def test_a_server_that_does_not_say_is_told_apart(tmp_path: Path) -> None:
    with running(Ollama(gives=None, makes=None)) as ollama:
        ended = with_variables(ollama.url, "ask", "hello", "--state", tmp_path)
    assert ended.code == 2
    assert "`models: {ollama/qwen3: {window: TOKENS}}`" in ended.line()


def test_what_the_settings_declare_is_not_asked(tmp_path: Path) -> None:
    (tmp_path / "finclaw.yaml").write_text("models: {ollama/qwen3: {window: 32768}}\n")
    with running(Ollama(gives=4_096)) as ollama:
        assert with_variables(ollama.url, "ask", "hello", "--state", tmp_path).code == 0
    assert ollama.asked == ["/v1/chat/completions"]


def test_looking_at_what_is_kept_asks_nobody(tmp_path: Path) -> None:
    with running(Ollama(gives=4_096)) as ollama:
        for command in ("status", "turns", "models"):
            assert with_variables(ollama.url, command, "--state", tmp_path).code == 0
    assert ollama.asked == []


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("gpu:1234", "http://gpu:1234/v1"),
        ("127.0.0.1", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0:11434", "http://127.0.0.1:11434/v1"),
        ("https://models.example.org", "https://models.example.org:443/v1"),
        ("http://[::1]:8000", "http://[::1]:8000/v1"),
        ("", None),
        ("ftp://x", None),
        ("http://x:port", None),
    ],
)
def test_where_it_is_is_read_as_its_own_tools_read_it(host: str, address: str | None) -> None:
    assert with_ollama_address({}, {"OLLAMA_HOST": host}).get("ollama", ProviderSettings()).base_url == address
    own = {"ollama": ProviderSettings(base_url="http://own:1/v1")}
    assert with_ollama_address(own, {"OLLAMA_HOST": host}) == own
