"""A Bot API server on 127.0.0.1 with the rules of Telegram and its faults."""

from tests.support.telegram.server import BotApi

__all__ = ["BotApi"]
