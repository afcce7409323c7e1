"""The window of a model that an Ollama server runs: asked of the server, because no catalog can know it.

The server gives a model less than it could take where memory is short, and cuts longer requests without a word. What
it really gives a loaded model stands in `/api/ps`; before that, `/api/show` has what the model's own file sets and what
the model could take at most.
"""

import http.client
import json
import re
from typing import Any, Final, cast
from urllib.parse import urlsplit

from finclaw.errors import ConfigError

PROVIDER: Final = "ollama"
_TIMEOUT: Final = 5.0
LOADING: Final = 120.0  # seconds in which a server loads a model


def find_window(base_url: str, name: str, *, load: bool) -> int:
    """Raises ConfigError. `load`: have the server load the model, so that it says what it really gives it."""
    parts = urlsplit(base_url)
    root = f"{parts.scheme}://{parts.netloc}"
    try:
        status, shown = _request(base_url, "POST", "/api/show", {"model": name})
        if status == http.HTTPStatus.NOT_FOUND:
            raise ConfigError(f"the Ollama at {root} has no model {name!r}; get it with: ollama pull {name}")
        given = _loaded_window(base_url, name)
        if given is None and load:
            _request(base_url, "POST", "/api/generate", {"model": name}, timeout=LOADING)
            given = _loaded_window(base_url, name)
    except (OSError, http.client.HTTPException) as error:
        raise ConfigError(
            f"no Ollama answers at {root} to say how much {name} takes in; start it with: ollama serve; or say it "
            f"yourself: `models: {{{PROVIDER}/{name}: {{window: TOKENS}}}}`"
        ) from error
    window = given or _window_of_file(shown) or _largest_window(shown)
    if window is None:
        raise ConfigError(
            f"the server at {root} does not say how much {name} takes in; say it yourself: "
            f"`models: {{{PROVIDER}/{name}: {{window: TOKENS}}}}`"
        )
    return window


def _loaded_window(base_url: str, name: str) -> int | None:
    full = name if ":" in name else f"{name}:latest"
    _, loaded = _request(base_url, "GET", "/api/ps")
    models = loaded.get("models")
    for each in cast("list[Any]", models) if isinstance(models, list) else ():
        if isinstance(each, dict):
            model = cast("dict[str, Any]", each)
            if full in (model.get("name"), model.get("model")):
                return _count(model.get("context_length"))
    return None


def _window_of_file(shown: dict[str, Any]) -> int | None:
    """What the model's own file asks for, a line among its parameters."""
    found = re.search(r"^\s*num_ctx\s+([0-9]{1,9})\s*$", str(shown.get("parameters", "")), re.MULTILINE)
    return _count(int(found[1])) if found else None


def _largest_window(shown: dict[str, Any]) -> int | None:
    """What the model was made for, under a name that begins with its architecture."""
    about = shown.get("model_info")
    if not isinstance(about, dict):
        return None
    facts = cast("dict[str, Any]", about)
    return next((_count(value) for key, value in facts.items() if key.endswith(".context_length")), None)


def _count(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    return None


def _request(
    base_url: str, method: str, path: str, body: dict[str, Any] | None = None, *, timeout: float = _TIMEOUT
) -> tuple[int, dict[str, Any]]:
    """The status and the object in the body; empty where there is none."""
    parts = urlsplit(base_url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=timeout)
    try:
        prefix = parts.path.rstrip("/").removesuffix("/v1")
        connection.request(method, prefix + path, None if body is None else json.dumps(body))
        response = connection.getresponse()
        content = response.read(1_000_000)
    finally:
        connection.close()
    try:
        found = cast("object", json.loads(content))
    except ValueError:
        found = None
    return response.status, cast("dict[str, Any]", found) if isinstance(found, dict) else {}
