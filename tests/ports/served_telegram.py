"""The channel of Telegram for the contract of the port. It imports aiogram, so only who needs it imports it."""

from tests.support.telegram import BotApi

from finclaw.channels.telegram.channel import TelegramChannel
from finclaw.clock import SystemClock
from finclaw.kernel.port import ChannelSpec
from finclaw.redaction import Secret


class ServedTelegram(TelegramChannel):
    """The real channel of Telegram beside a server of ours, in whose chat 42 somebody has written."""

    def __init__(self, api: BotApi) -> None:
        self.api = api
        settings = {"api": api.url, "messages_per_second": 1_000, "messages_per_second_in_chat": 1_000}
        secrets = {"token": Secret(api.token)}
        super().__init__(
            ChannelSpec(name="telegram", account="a", secrets=secrets, settings=settings, clock=SystemClock())
        )
