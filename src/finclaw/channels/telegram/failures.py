"""Translation of errors: what aiogram raises becomes what the port promises, without the bot's token."""

import re
from typing import Final

import aiohttp
from aiogram import exceptions

from finclaw.errors import ChannelError, MarkupRefused, SendFailed, SendRefused, SendUnknown
from finclaw.redaction import hide_known_secrets

_NEVER_LEFT: Final = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
"""There was no connection, so nothing was written to it."""
_REFUSALS: Final = (
    exceptions.TelegramBadRequest, exceptions.TelegramForbiddenError, exceptions.TelegramEntityTooLarge,
)  # fmt: skip
_LASTING: Final = (
    exceptions.TelegramBadRequest, exceptions.TelegramConflictError, exceptions.TelegramForbiddenError,
    exceptions.TelegramNotFound, exceptions.TelegramUnauthorizedError,
)  # fmt: skip
_BACKGROUND: Final = re.compile(r"\n\(background on this error at: .*\)")


def describe(error: Exception) -> str:
    """What happened, in one line, without secrets: addresses of the Bot API hold the token."""
    match error:
        case exceptions.TelegramAPIError():
            said = error.message
        case exceptions.ClientDecodeError():
            # Its own text repeats the whole answer, shortened in the middle of a secret.
            said = f"Telegram's answer could not be read: {type(error.original).__name__}"
        case _:
            said = f"{type(error).__name__}: {error}"
    return " ".join(_BACKGROUND.sub("", hide_known_secrets(said)).split())[:500]


def translate_send(error: Exception) -> SendFailed | SendRefused | SendUnknown:
    """What the outbox should make of a call that failed."""
    said = describe(error)
    if isinstance(error, exceptions.TelegramRetryAfter):
        return SendFailed(said, retry_after=float(error.retry_after))
    if isinstance(error, _REFUSALS):
        if "can't parse entities" in said:
            return MarkupRefused(said)
        return SendRefused(f"the text is longer than Telegram takes: {said}" if "too long" in said else said)
    if isinstance(error, exceptions.TelegramNetworkError):
        never_left = isinstance(error.__cause__, _NEVER_LEFT)
    else:  # after a 5xx nothing was shown; a revoked token can be replaced, and then the message arrives
        never_left = isinstance(error, exceptions.TelegramAPIError)
    return SendFailed(said) if never_left else SendUnknown(said)


def translate_call(error: exceptions.AiogramError) -> ChannelError:
    """What the operator should know of a call that is no send, and what to do."""
    said = describe(error)
    match error:
        case exceptions.TelegramUnauthorizedError() | exceptions.TelegramNotFound():
            return ChannelError(
                f"Telegram does not know this bot token ({said}); copy it again from @BotFather: /mybots, the bot, "
                "API Token"
            )
        case exceptions.TelegramConflictError() if "webhook" in said:
            return ChannelError(f"a webhook was set for this bot meanwhile, perhaps by another program ({said})")
        case exceptions.TelegramConflictError():
            return ChannelError(
                f"another program receives the messages of this bot ({said}); stop the other one, or give each its own "
                "bot"
            )
        case _:
            return ChannelError(said)


def is_passing(error: exceptions.AiogramError) -> bool:
    """Return whether the same call may work a little later: the network or the server is down."""
    return not isinstance(error, _LASTING)
