"""Names of messages. Telegram counts messages in each chat anew, so a name is the chat and the number: `-1001/45`.

A group that becomes a supergroup begins to count again, under another chat: its new messages have other names.
"""


def name_message(chat: int, number: int) -> str:
    return f"{chat}/{number}"


def read_name(name: str | None) -> tuple[int, int] | None:
    """The chat and the number; None for what is no name of a message, such as that of an update."""
    chat, slash, number = (name or "").partition("/")
    try:
        return (int(chat), int(number)) if slash else None
    except ValueError:
        return None
