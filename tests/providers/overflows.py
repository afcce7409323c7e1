"""How servers say that a request is too long for their model, as reported by people who ran into it."""

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Overflow:
    server: str
    wire: Literal["anthropic", "openai"]
    status: int
    body: Any
    told: bool = True
    """Whether anything but words says so. Where nothing does, our own count has to decide."""


def _openai(message: str, type: str | None, code: Any = None, **more: Any) -> Any:
    return {"error": {"message": message, "type": type, "param": None, "code": code, **more}}


def _anthropic(message: str, type: str) -> Any:
    return {"type": "error", "error": {"type": type, "message": message}, "request_id": "req_1"}


OVERFLOWS = (
    Overflow("Anthropic", "anthropic", 400, _anthropic("prompt is too long", "invalid_request_error"), told=False),
    Overflow("Anthropic, by bytes", "anthropic", 413, _anthropic("Request exceeds the size", "request_too_large")),
    Overflow("a proxy, by bytes", "anthropic", 413, "<html>413 Request Entity Too Large</html>"),
    Overflow(
        "OpenAI",
        "openai",
        400,
        _openai("maximum context length", "invalid_request_error", "context_length_exceeded", param="messages"),
    ),
    Overflow(
        "OpenAI, one text",
        "openai",
        400,
        _openai("string too long", "invalid_request_error", "string_above_max_length"),
    ),
    Overflow(
        "llama.cpp",
        "openai",
        400,
        _openai(
            "exceeds the available context size", "exceed_context_size_error", 400, n_prompt_tokens=4476, n_ctx=4096
        ),
    ),
    Overflow("vLLM", "openai", 400, _openai("You passed 1015", "BadRequestError", 400, param="input_tokens")),
    Overflow("vLLM, to be", "openai", 400, _openai("You passed", "BadRequestError", "context_length_exceeded")),
    Overflow("vLLM, older", "openai", 400, _openai("maximum context length", "BadRequestError", 400), told=False),
    Overflow(
        "vLLM, oldest",
        "openai",
        400,
        {
            "object": "error",
            "message": "max_tokens must be at least 1, got -186.",
            "type": "BadRequestError",
            "code": 400,
        },
        told=False,
    ),
    Overflow("Ollama", "openai", 400, _openai("exceeds context", "invalid_request_error"), told=False),
    Overflow("Groq, by the minute", "openai", 413, _openai("Request too large", "tokens", "rate_limit_exceeded")),
    Overflow(
        "one that checks the form", "openai", 422, {"error": "too many tokens", "error_type": "validation"}, told=False
    ),
)
