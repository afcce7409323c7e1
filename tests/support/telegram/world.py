"""Chats, people and messages of the fake Telegram, and what people do: write, press, react, block, move.

What people do becomes updates, as JSON, for the bot.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.support.telegram.entities import find_entities

DATE: Final = 1_736_154_000
BOT_ID: Final = 700_000_001

Json = dict[str, Any]


@dataclass
class Shown:
    """A message of the bot as people see it now."""

    chat: int
    number: int
    text: str
    """The words, or the caption of a file."""
    entities: list[Json]
    reply_to: int | None = None
    thread: int | None = None
    buttons: list[list[Json]] = field(default_factory=list[list[Json]])
    file: tuple[str, str, bytes] | None = None
    """`photo` or `document`, its name and its bytes."""
    edits: int = 0
    source: str = ""
    """As the bot wrote it, with its markup."""

    @property
    def labels(self) -> list[str]:
        return [str(button["text"]) for row in self.buttons for button in row]


class World:
    """All that exists on the fake platform."""

    def __init__(self, username: str, *, privacy: bool) -> None:
        self.me: Json = {
            "id": BOT_ID,
            "is_bot": True,
            "first_name": "FinClaw",
            "username": username,
            "can_join_groups": True,
            "can_read_all_group_messages": not privacy,
            "supports_inline_queries": False,
        }
        self.chats: dict[int, Json] = {}
        self.topics: set[tuple[int, int]] = set()
        self.gone: dict[int, str] = {}
        """Chats that take nothing any more, and in which words Telegram says so."""
        self.moved: dict[int, int] = {}
        self.messages: dict[tuple[int, int], Json] = {}
        """Everything that was said, by chat and number; the bot's own too."""
        self.shown: list[Shown] = []
        self.reactions: dict[tuple[int, int], list[str]] = {}
        self.files: dict[str, bytes] = {}
        self.presses: set[str] = set()
        """Pressed buttons whose spinner still turns."""
        self._numbers: dict[int, int] = {}
        self._users: dict[int, Json] = {}

    # ── places and people ───────────────────────────────────────────────────────────────────────────────────────

    def add_group(self, chat: int, title: str = "team", *, topics: Sequence[int] = ()) -> None:
        kind = "supergroup" if chat < -1_000_000_000 else "group"
        self.chats[chat] = {"id": chat, "type": kind, "title": title, **({"is_forum": True} if topics else {})}
        self.topics |= {(chat, topic) for topic in topics}

    def user(self, user: int, name: str = "") -> Json:
        if user == BOT_ID:
            return {key: self.me[key] for key in ("id", "is_bot", "first_name", "username")}
        return self._users.setdefault(user, {"id": user, "is_bot": False, "first_name": name or f"User {user}"})

    def chat(self, chat: int) -> Json:
        """A private chat is there as soon as its person has written."""
        if chat > 0 and chat not in self.chats:
            self.chats[chat] = {"id": chat, "type": "private", "first_name": self.user(chat)["first_name"]}
        return self.chats[chat]

    def next_number(self, chat: int) -> int:
        self._numbers[chat] = self._numbers.get(chat, 0) + 1
        return self._numbers[chat]

    # ── what people do: each gives the body of an update ────────────────────────────────────────────────────────

    def write(self, chat: int, text: str, *, user: int | None = None, **fields: Any) -> Json:
        """`reply_to`, `thread`, `entities`, `name`, and any field of a Message such as `photo`."""
        author = self.user(user or chat, str(fields.pop("name", "")))
        message: Json = {
            "message_id": self.next_number(chat),
            "date": DATE,
            "chat": self.chat(chat),
            "from": author,
            "text": text,
        }
        entities: list[Json] = fields.pop("entities", None) or find_entities(text)
        if entities:
            message["entities"] = entities
        self._place(message, fields.pop("thread", None), fields.pop("reply_to", None))
        message |= fields
        if any(each in message for each in ("photo", "document", "voice", "video")):
            message["caption"] = message.pop("text")
            message["caption_entities"] = message.pop("entities", [])
        self.messages[chat, message["message_id"]] = message
        return {"message": message}

    def _place(self, message: Json, thread: int | None, reply_to: int | None) -> None:
        chat = message["chat"]["id"]
        if thread is not None:
            message |= {"message_thread_id": thread, "is_topic_message": True}
            began = {"message_id": thread, "date": DATE, "chat": message["chat"], "from": message["from"]}
            message["reply_to_message"] = {**began, "forum_topic_created": {"name": "topic", "icon_color": 1}}
        if reply_to is not None:
            answered = self.messages[chat, reply_to]
            message["reply_to_message"] = {key: value for key, value in answered.items() if key != "reply_to_message"}

    def send_file(self, chat: int, kind: str, data: bytes, caption: str = "", **fields: Any) -> Json:
        """`kind` is `photo`, `document`, `voice` or `video`; `file_name` and `mime_type` are those of a document."""
        file_id = f"file-{len(self.files) + 1}"
        self.files[file_id] = data
        described: Json = {"file_id": file_id, "file_unique_id": f"u{file_id}", "file_size": len(data)}
        described |= {key: fields.pop(key) for key in ("file_name", "mime_type") if key in fields}
        if kind == "photo":
            small = {**described, "file_id": f"{file_id}-small", "width": 90, "height": 90, "file_size": 900}
            return self.write(chat, caption, photo=[small, {**described, "width": 800, "height": 600}], **fields)
        described |= {"duration": 3} if kind in ("voice", "video") else {}
        described |= {"width": 640, "height": 480} if kind == "video" else {}
        return self.write(chat, caption, **{kind: described}, **fields)

    def edit(self, chat: int, number: int, text: str, *, at: int = DATE + 5) -> Json:
        change = {"text": text, "edit_date": at, "entities": find_entities(text)}
        self.messages[chat, number] = message = {**self.messages[chat, number], **change}
        return {"edited_message": message}

    def press(self, shown: Shown, label: str, *, user: int | None = None) -> Json:
        (data,) = [each["callback_data"] for row in shown.buttons for each in row if each["text"] == label]
        query = f"query-{len(self.messages)}-{shown.number}-{user or shown.chat}-{label}"
        self.presses.add(query)
        return {
            "callback_query": {
                "id": query,
                "from": self.user(user or shown.chat),
                "chat_instance": "1",
                "data": data,
                "message": self.messages[shown.chat, shown.number],
            }
        }

    def react(self, chat: int, number: int, emoji: str, *, user: int | None = None) -> Json:
        new = [{"type": "emoji", "emoji": emoji}] if emoji else []
        place = {"chat": self.chat(chat), "message_id": number, "date": DATE}
        return {"message_reaction": {**place, "user": self.user(user or chat), "old_reaction": [], "new_reaction": new}}

    def block(self, chat: int, *, user: int | None = None, blocked: bool = True) -> Json:
        """The bot is blocked by a person, or put out of a group; or the other way round."""
        is_group = chat < 0
        words = "bot was kicked from the group chat" if is_group else "bot was blocked by the user"
        if blocked:
            self.gone[chat] = f"Forbidden: {words}"
        else:
            self.gone.pop(chat, None)
        old, new = ("member", "kicked") if blocked else ("kicked", "member")
        return {
            "my_chat_member": {
                "chat": self.chat(chat),
                "from": self.user(user or abs(chat)),
                "date": DATE,
                "old_chat_member": self._member(old),
                "new_chat_member": self._member(new),
            }
        }

    def _member(self, status: str) -> Json:
        return {"user": self.user(BOT_ID), "status": status, **({"until_date": 0} if status == "kicked" else {})}

    def migrate(self, old: int, new: int, *, user: int) -> tuple[Json, Json]:
        """A group becomes a supergroup, which counts its messages anew."""
        self.add_group(new, str(self.chats[old]["title"]))
        told = self.write(old, "", user=user, migrate_to_chat_id=new)
        self.moved[old] = new
        told_again = self.write(new, "", user=user, migrate_from_chat_id=old)
        for each in (told, told_again):
            each["message"].pop("text", None)
        return told, told_again
