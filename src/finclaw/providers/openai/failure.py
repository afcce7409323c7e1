"""Error codes, types and finish reasons of OpenAI's API and of compatible servers, and what they mean."""

from collections.abc import Mapping
from typing import Final

from finclaw.errors import (
    AuthFailed,
    BadRequest,
    ContextTooLong,
    NotFound,
    Overloaded,
    ProviderError,
    ProviderTimeout,
    QuotaExceeded,
    RateLimited,
    ServerFailed,
    StreamCut,
)
from finclaw.providers.http.failure import Kinds

KINDS: Final[Kinds] = {
    "account_deactivated": AuthFailed,
    "authentication_error": AuthFailed,
    "billing_hard_limit_reached": QuotaExceeded,
    "billing_not_active": QuotaExceeded,
    "context_length_exceeded": ContextTooLong,
    "engine_overloaded_error": Overloaded,  # Moonshot, with the status of a rate limit
    "exceed_context_size_error": ContextTooLong,  # llama.cpp
    "exceeded_current_quota_error": QuotaExceeded,  # Moonshot
    "input_tokens": ContextTooLong,  # vLLM: the parameter it complains of, beside a type that says nothing
    "insufficient_quota": QuotaExceeded,
    "invalid_api_key": AuthFailed,
    "model_not_found": NotFound,
    "overloaded_error": Overloaded,
    "permission_error": AuthFailed,
    "rate_limit_error": RateLimited,
    "rate_limit_exceeded": RateLimited,
    "request_too_large": ContextTooLong,
    "service_unavailable": Overloaded,
    "string_above_max_length": ContextTooLong,
    "timeout": ProviderTimeout,
}

IN_STREAM: Final[Kinds] = {**KINDS, "invalid_request_error": BadRequest}
"""That type goes with a 401 as well as a 400: it only counts where there is no status."""

BY_FINISH: Final[Mapping[str, type[ProviderError]]] = {
    "abort": StreamCut,  # vLLM, when its side gave up
    "error": ServerFailed,  # OpenRouter, when the server behind it failed
    "insufficient_system_resource": Overloaded,  # DeepSeek
}
"""Reasons to stop that are no end of an answer."""
