"""Every deliberate error, split by who must act.

    FinclawError
    ├── ConfigError          the operator: start-up is refused, the message says what to change
    │   └── StateBusy        another gateway holds the state directory
    ├── ExtensionError       the extension's author: a layer broke the rules of its ring
    ├── ChannelError         the gateway: something between us and a platform
    │   ├── SendFailed       may work later; the outbox tries again
    │   ├── SendRefused      will never work; the unit is dead
    │   ├── SendUnknown      may have arrived; nobody knows
    │   └── InboundConflict  one platform id, two different bodies
    ├── ProviderError        the gateway: the model could not answer; code reads the class, never the text
    │   ├── RateLimited      later, and it may say when
    │   ├── Overloaded       later
    │   ├── ServerFailed     its own fault; perhaps not the next time
    │   ├── Unreachable      no line to it
    │   ├── ProviderTimeout  silent for too long
    │   ├── StreamCut        the stream ended without its end
    │   ├── AuthFailed       the key is wrong or may not do this
    │   ├── QuotaExceeded    nothing left to pay with
    │   └── BadRequest       it will never take this request
    │       └── ContextTooLong
    ├── ToolError            the model: it sees the message as an error result
    │   ├── ToolDenied
    │   ├── ToolTimeout
    │   ├── InvalidArguments
    │   └── UnfitAnswer      asked for a form, a model gave another, twice
    ├── SessionError         the gateway: what lasts could not be read or written
    │   ├── StoreFailed      the disk refused; nothing is promised
    │   ├── StoreCorrupt     the operator must restore or move the file
    │   └── Superseded       a newer writer owns the session; this one must stop
    └── TurnError            the person: they get a polite line
        ├── TurnTimeout
        ├── TurnStopped      by the person, the operator or the watchdog
        ├── ModelUnknown     the model that somebody picked cannot be asked here
        ├── BudgetExceeded   what may be spent has been, or nobody knows what the model costs
        └── ToolLoop         the model asks for the same thing again and again

`Halt` (a stage ended the road on purpose) is not an error and lives with the road.
"""


class FinclawError(Exception):
    """Base of every deliberate error, so that `except FinclawError` never hides a bug."""


class ConfigError(FinclawError):
    pass


class StateBusy(ConfigError):
    pass


class ExtensionError(FinclawError):
    pass


class ChannelError(FinclawError):
    pass


class SendFailed(ChannelError):
    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class SendRefused(ChannelError):
    pass


class SendUnknown(ChannelError):
    pass


class InboundConflict(ChannelError):
    pass


class ProviderError(FinclawError):
    pass


class RateLimited(ProviderError):
    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Overloaded(ProviderError):
    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ServerFailed(ProviderError):
    pass


class Unreachable(ProviderError):
    pass


class ProviderTimeout(ProviderError):
    pass


class BadRequest(ProviderError):
    pass


class AuthFailed(ProviderError):
    pass


class QuotaExceeded(ProviderError):
    pass


class ContextTooLong(BadRequest):
    pass


class StreamCut(ProviderError):
    pass


class ToolError(FinclawError):
    """`suggestion` says for code what the message says for the model: which names would have worked, for one."""

    def __init__(self, message: str, *, suggestion: str | None = None) -> None:
        super().__init__(message)
        self.suggestion = suggestion


class ToolDenied(ToolError):
    pass


class ToolTimeout(ToolError):
    pass


class InvalidArguments(ToolError):
    pass


class UnfitAnswer(ToolError):
    pass


class SessionError(FinclawError):
    pass


class StoreFailed(SessionError):
    pass


class StoreCorrupt(SessionError):
    pass


class Superseded(SessionError):
    pass


class TurnError(FinclawError):
    pass


class TurnTimeout(TurnError):
    pass


class TurnStopped(TurnError):
    pass


class ModelUnknown(TurnError):
    """`model` is what was asked for, in the words of whoever did."""

    def __init__(self, message: str, *, model: str) -> None:
        super().__init__(message)
        self.model = model


class BudgetExceeded(TurnError):
    """`limit` is the setting that stands in the way; empty when the model's price is unknown."""

    def __init__(self, message: str, *, limit: str = "") -> None:
        super().__init__(message)
        self.limit = limit


class ToolLoop(TurnError):
    pass
