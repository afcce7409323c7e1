"""Rules of the Bot API as its documents give them: what is refused, and in which words."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

MOST_TEXT: Final = 4_096
MOST_CAPTION: Final = 1_024
MOST_ENTITIES: Final = 100
"""Of one message. The formatting of the rest is dropped without an error."""
MOST_CALLBACK: Final = 64
"""Bytes of what a button carries."""
MOST_PHOTO: Final = 10_000_000
MOST_DOWNLOAD: Final = 20_000_000
GROUP_MESSAGES: Final = 20
"""In a minute."""
ALL_MESSAGES: Final = 30
"""In a second."""

_COMMAND: Final = re.compile(r"[a-z0-9_]{1,32}")
_SECRET: Final = re.compile(r"[A-Za-z0-9_-]{1,256}")
REACTIONS: Final = frozenset(
    "❤👍👎🔥🥰👏😁🤔🤯😱🤬😢🎉🤩🤮💩🙏👌🕊🤡🥱🥴😍🐳🌚🌭💯🤣⚡🍌🏆💔🤨😐🍓🍾💋🖕😈😴😭🤓👻👀🎃🙈😇😨🤝✍🤗🫡🎅🎄☃💅🤪🗿🆒💘🙉🦄😘💊🙊😎👾🤷😡"
) | {"❤\u200d🔥", "👨\u200d💻", "🤷\u200d♂", "🤷\u200d♀"}
ACTIONS: Final = frozenset({"typing", "upload_photo", "upload_document"})


class ApiRefusal(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, description: str, parameters: Mapping[str, int] | None = None) -> None:
        super().__init__(description)
        self.status = status
        self.description = description
        self.parameters = parameters


def bad_request(why: str) -> ApiRefusal:
    return ApiRefusal(400, f"Bad Request: {why}")


def too_many(seconds: int) -> ApiRefusal:
    return ApiRefusal(429, f"Too Many Requests: retry after {seconds}", {"retry_after": seconds})


def utf16_length(text: str) -> int:
    return len(text.encode("utf-16-le", errors="surrogatepass")) // 2


def check_text(text: str) -> None:
    if not text.strip():
        raise bad_request("message text is empty")
    if utf16_length(text) > MOST_TEXT:
        raise bad_request("message is too long")


def check_caption(caption: str) -> None:
    if utf16_length(caption) > MOST_CAPTION:
        raise bad_request("message caption is too long")


def check_keyboard(markup: Mapping[str, Any] | None) -> list[list[dict[str, Any]]]:
    """The rows of buttons."""
    rows: list[list[dict[str, Any]]] = [] if markup is None else markup["inline_keyboard"]
    for button in (button for row in rows for button in row):
        if not button.get("text"):
            raise bad_request('can\'t parse inline keyboard button: Field "text" must be of type String')
        if not 1 <= len(str(button.get("callback_data", "")).encode()) <= MOST_CALLBACK:
            raise bad_request("BUTTON_DATA_INVALID")
        if button.get("style") not in (None, "danger", "success", "primary"):
            raise bad_request("can't parse inline keyboard button: unknown style")
    if sum(map(len, rows)) > 100:
        raise bad_request("reply markup is too long")
    return rows


def check_commands(commands: Sequence[Mapping[str, str]]) -> None:
    if len(commands) > 100:
        raise bad_request("BOT_COMMANDS_TOO_MUCH")
    for each in commands:
        if not _COMMAND.fullmatch(each["command"]):
            raise bad_request("BOT_COMMAND_INVALID")
        if not 1 <= len(each["description"]) <= 256:
            raise bad_request("BOT_COMMAND_DESCRIPTION_INVALID")


def check_reaction(reaction: Sequence[Mapping[str, str]]) -> None:
    if len(reaction) > 1:
        raise bad_request("REACTIONS_TOO_MANY")
    if any(each["type"] != "emoji" or each["emoji"] not in REACTIONS for each in reaction):
        raise bad_request("REACTION_INVALID")


def check_webhook(url: str, secret: str) -> None:
    if not url.startswith("https://"):
        raise bad_request("bad webhook: An HTTPS URL must be provided for webhook")
    if secret and not _SECRET.fullmatch(secret):
        raise bad_request("secret token contains unallowed characters")


def check_photo(data: bytes) -> None:
    if len(data) > MOST_PHOTO:
        raise bad_request("file is too big")
    if not data.startswith((b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"RIFF")):
        raise bad_request("IMAGE_PROCESS_FAILED")
