"""Settings of a Telegram channel, and the capabilities of every one."""

import hashlib
from typing import Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from finclaw.errors import ConfigError
from finclaw.kernel.envelope import ButtonLimits, Capabilities
from finclaw.kernel.port import ChannelSpec
from finclaw.redaction import Secret

MB: Final = 1_000_000
MOST_CAPTION: Final = 1_024
"""UTF-16 units of the words below a picture or file."""
CAPABILITIES: Final = Capabilities(
    max_length=4_096,
    length_unit="utf16",
    max_marks=100,
    markup="inline_html",
    reactions=True,
    typing=True,
    edits=True,
    deletes=True,
    buttons=ButtonLimits(count=100, label=64, data=64),
    media={"image": 10 * MB, "audio": 20 * MB, "video": 20 * MB, "file": 20 * MB},
    threads=True,
    debounce_ms=1_000,
)


class WebhookOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A webhook: the public address, and where we listen behind the proxy that has it."""

    url: str
    host: str = "127.0.0.1"
    port: int = 8443


class TelegramOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What stands under `settings` of a Telegram channel; nothing is needed."""

    api: str = "https://api.telegram.org"
    """Another address for a Bot API server of one's own."""
    webhook: WebhookOptions | None = None
    """None: long polling."""
    messages_per_second: float = 30.0
    messages_per_second_in_chat: float = 1.0
    messages_per_minute_in_group: int = 20


def read_options(spec: ChannelSpec) -> TelegramOptions:
    try:
        options = msgspec.convert(dict(spec.settings), TelegramOptions)
    except msgspec.ValidationError as error:
        raise ConfigError(f"settings: {error}; see docs/guides/telegram.md") from error
    if urlsplit(options.api).scheme not in ("http", "https"):
        raise ConfigError("settings.api must be an address that begins with https://, or http:// in your own network")
    if options.webhook is not None and not options.webhook.url.startswith("https://"):
        raise ConfigError("settings.webhook.url must begin with https://: Telegram calls no other address")
    if min(options.messages_per_second, options.messages_per_second_in_chat, options.messages_per_minute_in_group) <= 0:
        raise ConfigError("the limits of messages in settings must be above 0")
    return options


def read_token(spec: ChannelSpec) -> Secret:
    if set(spec.secrets) != {"token"}:
        raise ConfigError("it needs one secret, such as secrets: {token: env:TELEGRAM_TOKEN}; @BotFather gives it")
    return spec.secrets["token"]


def make_webhook_secret(token: Secret) -> Secret:
    """What Telegram sends with every call of the webhook. It comes from the token, so nobody must keep another one."""
    return Secret(hashlib.sha256(b"finclaw webhook " + token.reveal().encode()).hexdigest())
