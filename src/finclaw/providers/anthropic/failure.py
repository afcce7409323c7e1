"""Error types of Anthropic's API, and what they mean."""

from typing import Final

from finclaw.errors import (
    AuthFailed,
    BadRequest,
    ContextTooLong,
    NotFound,
    Overloaded,
    ProviderTimeout,
    QuotaExceeded,
    RateLimited,
)
from finclaw.providers.http.failure import Kinds

KINDS: Final[Kinds] = {
    "authentication_error": AuthFailed,
    "billing_error": QuotaExceeded,
    "invalid_request_error": BadRequest,
    "not_found_error": NotFound,
    "overloaded_error": Overloaded,
    "permission_error": AuthFailed,
    "rate_limit_error": RateLimited,
    "request_too_large": ContextTooLong,
    "timeout_error": ProviderTimeout,
}
"""`api_error` is not among them: it says no more than that something failed, and the status says what."""
