"""The list of commands that Telegram shows beside the input field, in English and, where its menu is Korean, Korean."""

import logging
import re
from collections.abc import Iterator, Sequence
from typing import Final

from aiogram import Bot
from aiogram.exceptions import AiogramError
from aiogram.types import BotCommand

from finclaw.channels.telegram.failures import describe
from finclaw.commands.declaration import describe_in
from finclaw.kernel.port import Command

log = logging.getLogger(__name__)

_NAME: Final = re.compile(r"[a-z0-9_]{1,32}")
_MOST: Final = 100
_LONGEST: Final = 256


def command_names(commands: Sequence[Command]) -> frozenset[str]:
    """What people can choose from the list, and write in a group without naming the bot."""
    return frozenset(each.name for each in _listed(commands))


async def show_commands(bot: Bot, commands: Sequence[Command], channel: str) -> None:
    """Set the list for everybody, and the one for people whose Telegram is in Korean: names are the same in both."""
    english = list[BotCommand]()
    korean = list[BotCommand]()
    for each in _listed(commands):
        english.append(BotCommand(command=each.name, description=describe_in("en", each.description)[:_LONGEST]))
        korean.append(BotCommand(command=each.name, description=describe_in("ko", each.description)[:_LONGEST]))
    if not english:
        return
    try:
        await bot.set_my_commands(english)
        await bot.set_my_commands(korean, language_code="ko")
    except AiogramError as error:
        log.warning("channel %s: the list of commands could not be set: %s", channel, describe(error))


def _listed(commands: Sequence[Command]) -> Iterator[Command]:
    """Those that everybody may use and whose names Telegram takes."""
    fit = (each for each in commands if not each.roles and _NAME.fullmatch(each.name) and each.description.strip())
    for _, each in zip(range(_MOST), fit, strict=False):
        yield each
