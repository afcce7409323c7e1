"""The deliberate errors, split by who must act.

    FinclawError
    ├── ConfigError          the operator: start-up is refused, the message says what to change
    │   └── StateBusy        another gateway holds the state directory
    ├── ExtensionError       the extension's author: a layer broke the rules of its ring
    ├── ChannelError         the gateway: something between us and a platform
    │   ├── SendFailed       may work later; the outbox tries again
    │   ├── SendRefused      will never work; the unit is dead
    │   │   └── MarkupRefused  the platform cannot read the markup; the unit is sent once more as plain text
    │   ├── SendUnknown      may have arrived; nobody knows
    │   ├── InboundConflict  one platform id, two different bodies
    │   └── AttachmentRefused  a file that is too large, gone, or of a kind that the channel does not carry
    ├── ProviderError        the gateway: the model could not answer; code reads the class, never the text
    │   ├── RateLimited      later, and it may say when
    │   ├── Overloaded       later
    │   ├── ServerFailed     its own fault; perhaps not the next time
    │   ├── Unreachable      no line to it
    │   ├── ProviderTimeout  silent for too long
    │   ├── StreamCut        the stream ended without its end
    │   ├── NoStream         an answer, but in another form than was asked for; it will have none better
    │   ├── AuthFailed       the key is wrong or may not do this
    │   ├── QuotaExceeded    nothing left to pay with
    │   ├── NotFound         there is no such model, or nothing that answers at that address
    │   └── BadRequest       it will never take this request
    │       └── ContextTooLong
    ├── ToolError            the model: it sees the message as an error result
    │   ├── ToolDenied
    │   ├── ToolAwaiting     a person has yet to say whether it may run
    │   ├── ToolTimeout
    │   ├── ToolStopped      somebody stopped it, and it did not fail
    │   ├── ToolUnavailable  what it needs does not answer now; perhaps later
    │   ├── InvalidArguments
    │   └── UnfitAnswer      asked for a form, a model gave another, twice
    ├── SessionError         the gateway: what lasts could not be read or written
    │   ├── StoreFailed      the disk refused; nothing is promised
    │   │   └── SessionFull  too many messages of the session wait already; later
    │   ├── BlobRefused      a file that is not kept: too large, or not what it is said to be
    │   ├── StoreCorrupt     the operator must restore or move the file
    │   └── Superseded       a newer writer owns the session; this one must stop
    └── TurnError            the person: they get a polite line
        ├── TurnTimeout
        ├── TurnStopped      by the person, the operator or the watchdog
        ├── ModelUnknown     the model that somebody picked cannot be asked here
        ├── NotOwner         only the owner may do this
        ├── BudgetExceeded   what may be spent has been, or nobody knows what the model costs
        └── ToolLoop         the model asks for the same thing again and again

`Halt` (a stage ended the pipeline on purpose) is not an error and lives with the pipeline.
"""


class FinclawError(Exception):
    """Base of every deliberate error, so that `except FinclawError` never hides a bug."""


class ConfigError(FinclawError): ...


class StateBusy(ConfigError): ...


class ExtensionError(FinclawError): ...


class ChannelError(FinclawError): ...


class SendFailed(ChannelError):
    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class SendRefused(ChannelError): ...


class MarkupRefused(SendRefused): ...


class SendUnknown(ChannelError): ...


class InboundConflict(ChannelError): ...


class AttachmentRefused(ChannelError): ...


class ProviderError(FinclawError):
    """`beside` is what the operator needs besides: who was asked, by which key, and what to do."""

    beside: str = ""


class RateLimited(ProviderError):
    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Overloaded(ProviderError):
    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ServerFailed(ProviderError): ...


class Unreachable(ProviderError): ...


class ProviderTimeout(ProviderError): ...


class BadRequest(ProviderError): ...


class AuthFailed(ProviderError): ...


class QuotaExceeded(ProviderError): ...


class NotFound(ProviderError): ...


class ContextTooLong(BadRequest): ...


class StreamCut(ProviderError): ...


class NoStream(ProviderError): ...


class ToolError(FinclawError):
    """`code` and `suggestion` say for programs what the message says for the model: what it was, and what would do."""

    code: str = "failed"

    def __init__(self, message: str, *, suggestion: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.suggestion = suggestion
        if code is not None:
            self.code = code


class ToolDenied(ToolError):
    code = "denied"


class ToolAwaiting(ToolError):
    code = "awaiting_approval"


class ToolTimeout(ToolError):
    code = "timeout"


class ToolStopped(ToolError):
    code = "stopped"


class ToolUnavailable(ToolError):
    """Only this and a timeout are held against who should have answered: raise it when a line breaks or a server
    is down. `retry_after` is in seconds.
    """

    code = "unavailable"

    def __init__(self, message: str, *, retry_after: float | None = None, **about: str | None) -> None:
        super().__init__(message, **about)
        self.retry_after = retry_after


class InvalidArguments(ToolError):
    code = "invalid_arguments"


class UnfitAnswer(ToolError):
    code = "unfit_answer"


class SessionError(FinclawError): ...


class StoreFailed(SessionError):
    """`why` is for programs: `full`, `read_only` or `failed`."""

    def __init__(self, message: str = "", *, why: str = "failed") -> None:
        super().__init__(message)
        self.why = why


class SessionFull(StoreFailed):
    """A program is told and may send the message again. What a channel brings is accepted and then refused."""


class BlobRefused(SessionError): ...


class StoreCorrupt(SessionError): ...


class Superseded(SessionError): ...


class TurnError(FinclawError): ...


class TurnTimeout(TurnError): ...


class TurnStopped(TurnError): ...


class ModelUnknown(TurnError):
    """`model` is what was asked for, in the words of whoever did."""

    def __init__(self, message: str, *, model: str) -> None:
        super().__init__(message)
        self.model = model


class NotOwner(TurnError): ...


class BudgetExceeded(TurnError):
    """`limit` is the setting that stands in the way; empty when the model's price is unknown."""

    def __init__(self, message: str, *, limit: str = "") -> None:
        super().__init__(message)
        self.limit = limit


class ToolLoop(TurnError): ...
