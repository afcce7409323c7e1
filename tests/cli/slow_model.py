"""A model server on loopback that begins an answer and waits for the test before it goes on."""

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any


class SlowModel:
    """Speaks the OpenAI protocol. `requests` counts what it was asked; `models` are the names it was asked by."""

    def __init__(self, answer: Sequence[str]) -> None:
        self.url = ""
        self.models: list[str] = []
        self._answer = answer
        self._asked = Event()
        self._released = Event()

    @property
    def requests(self) -> int:
        return len(self.models)

    def go_on(self) -> None:
        self._released.set()

    def wait_for_request(self) -> None:
        assert self._asked.wait(60), "the model was never asked"

    def events(self, model: str) -> Generator[dict[str, Any]]:
        self.models.append(model)
        first, *rest = self._answer
        yield {"choices": [{"index": 0, "delta": {"role": "assistant", "content": first}}]}
        self._asked.set()
        self._released.wait(60)
        for text in rest:
            yield {"choices": [{"index": 0, "delta": {"content": text}}]}
        yield {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        yield {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 10}}


@contextmanager
def slow_model(*answer: str) -> Generator[SlowModel]:
    model = SlowModel(answer or ("Once upon a time there was a market. ", "It was happy."))

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            with suppress(OSError):  # whoever asked has left
                for event in model.events(body["model"]):
                    self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
                    self.wfile.flush()

        def log_message(self, format: str, *args: Any) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        server.daemon_threads = True
        thread = Thread(target=server.serve_forever)
        thread.start()
        model.url = f"http://127.0.0.1:{server.server_port}/v1"
        try:
            yield model
        finally:
            model.go_on()
            server.shutdown()
            thread.join()


def settings_file(state: Path, model: SlowModel, *, storage: str = "sqlite") -> Path:
    """A state directory whose settings name this server; returns the directory."""
    (state / "finclaw.yaml").write_text(
        "agent: {model: box/small}\n"
        f"providers: {{box: {{kind: openai, base_url: '{model.url}'}}}}\n"
        "models: {box/small: {window: 32768, input_price: 0, output_price: 0}, "
        "box/big: {window: 32768, input_price: 0, output_price: 0}}\n"
        f"storage: {{kind: {storage}}}\n"
    )
    return state
