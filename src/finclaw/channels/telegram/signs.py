"""Signs that work goes on: a reaction to the message, and that the bot is typing."""

from typing import Final

from aiogram import Bot
from aiogram.exceptions import AiogramError
from aiogram.methods import SendChatAction, SetMessageReaction
from aiogram.types import ReactionTypeEmoji

from finclaw.channels.telegram.failures import translate_call

_ONE: Final = (
    "❤👍👎🔥🥰👏😁🤔🤯😱🤬😢🎉🤩🤮💩🙏👌🕊🤡🥱🥴😍🐳🌚🌭💯🤣⚡🍌🏆💔🤨😐"
    "🍓🍾💋🖕😈😴😭🤓👻👀🎃🙈😇😨🤝✍🤗🫡🎅🎄☃💅🤪🗿🆒💘🙉🦄😘💊🙊😎👾🤷😡"
)
_JOINED: Final = ("❤‍🔥", "👨‍💻", "🤷‍♂", "🤷‍♀")
ALLOWED: Final = frozenset((*_ONE, *_JOINED))
"""The emoji that a bot may react with. Telegram refuses all others."""
_INSTEAD: Final = {"✅": "👌", "✔": "👌", "☑": "👌", "❌": "😢", "✖": "😢", "⚠": "😢", "⏳": "🤔", "🔄": "🤔"}
"""Signs that elsewhere say done, failed or waiting."""


def allowed_reaction(emoji: str) -> str | None:
    """The emoji as Telegram takes it, or the nearest one; None: there is none."""
    bare = emoji.replace("\ufe0f", "")
    bare = _INSTEAD.get(bare, bare)
    return bare if bare in ALLOWED else None


async def show_reaction(bot: Bot, chat: int, number: int, emoji: str | None) -> None:
    """Set our reaction, or take it back; nothing where Telegram allows none like it. Raises ChannelError."""
    allowed = None if emoji is None else allowed_reaction(emoji)
    if emoji is not None and allowed is None:
        return
    reaction = [] if allowed is None else [ReactionTypeEmoji(emoji=allowed)]
    try:
        await bot(SetMessageReaction(chat_id=chat, message_id=number, reaction=list(reaction)))
    except AiogramError as error:
        raise translate_call(error) from None


async def show_typing(bot: Bot, chat: int, thread: int | None) -> None:
    """Telegram shows it for five seconds or until the next message; nothing takes it back. Raises ChannelError."""
    try:
        await bot(SendChatAction(chat_id=chat, action="typing", message_thread_id=thread))
    except AiogramError as error:
        raise translate_call(error) from None
