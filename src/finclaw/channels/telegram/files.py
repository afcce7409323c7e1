"""Files that people send: found by their id and fetched from Telegram, within a limit."""

from io import BytesIO
from typing import Final

from aiogram import Bot
from aiogram.exceptions import AiogramError, TelegramBadRequest
from aiohttp import ClientError, ClientResponseError

from finclaw.channels.telegram.failures import translate_call
from finclaw.errors import AttachmentRefused, ChannelError
from finclaw.kernel.envelope import Attachment
from finclaw.redaction import hide_known_secrets

DOWNLOAD_SECONDS: Final = 50


async def download_file(bot: Bot, attachment: Attachment, most: int) -> bytes:
    """The bytes of a file. Raises AttachmentRefused (too large or gone) or ChannelError (try later)."""
    too_large = AttachmentRefused(f"file {attachment.name!r} is larger than the {most:,} bytes that a bot may fetch")
    if (attachment.size or 0) > most:
        raise too_large
    content = BytesIO()
    try:
        found = await bot.get_file(attachment.id)
        if (found.file_size or 0) > most:
            raise too_large
        address = bot.session.api.file_url(bot.token, found.file_path or "")
        async for chunk in bot.session.stream_content(address, timeout=DOWNLOAD_SECONDS):
            content.write(chunk)
            if content.tell() > most:
                raise too_large
    except TelegramBadRequest as error:
        raise AttachmentRefused(f"there is no file {attachment.name!r}: {error.message}") from None
    except AiogramError as error:
        raise translate_call(error) from None
    except (ClientError, TimeoutError) as error:  # whose words hold the address, and that holds the token
        said = hide_known_secrets(str(error) or type(error).__name__)
        if isinstance(error, ClientResponseError) and error.status == 404:
            raise AttachmentRefused(f"there is no file {attachment.name!r} any more: {said}") from None
        raise ChannelError(f"a file could not be fetched: {said}") from None
    return content.getvalue()
