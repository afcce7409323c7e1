"""Methods of the Bot API, each as a function of its parameters. They raise ApiRefusal."""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.support.telegram.entities import parse_html
from tests.support.telegram.rules import (
    ACTIONS,
    ALL_MESSAGES,
    GROUP_MESSAGES,
    MOST_DOWNLOAD,
    MOST_ENTITIES,
    ApiRefusal,
    bad_request,
    check_caption,
    check_commands,
    check_keyboard,
    check_photo,
    check_reaction,
    check_text,
    too_many,
)
from tests.support.telegram.world import BOT_ID, DATE, Json, Shown, World

_SAME: Final = (
    "message is not modified: specified new message content and reply markup are exactly the same as a current content "
    "and reply markup of the message"
)


class Methods:
    """What the server does for a bot, apart from handing out updates."""

    def __init__(self, world: World, time: Callable[[], float], *, has_limits: bool) -> None:
        self._world = world
        self._time = time
        self._has_limits = has_limits
        self._all: deque[float] = deque(maxlen=ALL_MESSAGES)
        self._in_group: dict[int, deque[float]] = {}
        self.commands: dict[str, list[Json]] = {}
        """The list of commands, by language; the empty one is for everybody else."""
        self.typing: list[tuple[int, int | None]] = []
        self.refused: list[str] = []
        """What broke a rule of Telegram."""
        self.table: Final[Mapping[str, Callable[[Json], Any]]] = {
            "getMe": lambda _: world.me,
            "sendMessage": self._send_message,
            "sendPhoto": self._send_photo,
            "sendDocument": self._send_document,
            "editMessageText": self._edit_text,
            "editMessageCaption": self._edit_caption,
            "deleteMessage": self._delete,
            "setMessageReaction": self._react,
            "sendChatAction": self._act,
            "answerCallbackQuery": self._answer_press,
            "setMyCommands": self._set_commands,
            "getMyCommands": lambda given: self.commands.get(given.get("language_code", ""), []),
            "getFile": self._get_file,
        }

    # ── messages ────────────────────────────────────────────────────────────────────────────────────────────────

    def _send_message(self, given: Json) -> Json:
        text, entities = _parse(given, "text")
        check_text(text)
        return self._show(given, text, entities, None)

    def _send_photo(self, given: Json) -> Json:
        name, data = given["photo"]
        check_photo(data)
        text, entities = _parse(given, "caption")
        check_caption(text)
        return self._show(given, text, entities, ("photo", name, data))

    def _send_document(self, given: Json) -> Json:
        text, entities = _parse(given, "caption")
        check_caption(text)
        return self._show(given, text, entities, ("document", *given["document"]))

    def _show(self, given: Json, text: str, entities: list[Json], file: tuple[str, str, bytes] | None) -> Json:
        world, chat = self._world, self._must_reach(given)
        thread = given.get("message_thread_id")
        if thread is not None and (chat, thread) not in world.topics:
            raise bad_request("message thread not found")
        reply: Json = given.get("reply_parameters", {})
        reply_to = reply.get("message_id")
        if reply_to is not None and (chat, reply_to) not in world.messages:
            if not reply.get("allow_sending_without_reply"):
                raise bad_request("message to be replied not found")
            reply_to = None
        buttons = check_keyboard(given.get("reply_markup"))
        self._count(chat)
        source = given.get("text") or given.get("caption") or ""
        shown = Shown(chat, world.next_number(chat), text, entities, reply_to, thread, buttons, file, 0, source)
        world.shown.append(shown)
        message = self._describe(shown)
        world.messages[chat, shown.number] = message
        return message

    def _describe(self, shown: Shown) -> Json:
        message: Json = {
            "message_id": shown.number,
            "date": DATE,
            "chat": self._world.chats[shown.chat],
            "from": self._world.user(BOT_ID),
        }
        words = "text" if shown.file is None else "caption"
        if shown.text:
            message |= {words: shown.text, "entities" if words == "text" else "caption_entities": shown.entities}
        if shown.thread is not None:
            message |= {"message_thread_id": shown.thread, "is_topic_message": True}
        if shown.buttons:
            message["reply_markup"] = {"inline_keyboard": shown.buttons}
        if shown.file is not None:
            kind, name, data = shown.file
            file: Json = {"file_id": f"own-{shown.number}", "file_unique_id": "u", "file_size": len(data)}
            is_photo = kind == "photo"
            message[kind] = [{**file, "width": 1, "height": 1}] if is_photo else {**file, "file_name": name}
        return message

    def _edit_text(self, given: Json) -> Json:
        text, entities = _parse(given, "text")
        check_text(text)
        shown = self._must_find(given, "message to edit not found")
        if shown.file is not None:
            raise bad_request("there is no text in the message to edit")
        return self._change(shown, given, text, entities)

    def _edit_caption(self, given: Json) -> Json:
        text, entities = _parse(given, "caption")
        check_caption(text)
        return self._change(self._must_find(given, "message to edit not found"), given, text, entities)

    def _change(self, shown: Shown, given: Json, text: str, entities: list[Json]) -> Json:
        buttons = check_keyboard(given.get("reply_markup"))
        if (shown.text, shown.entities, shown.buttons) == (text, entities, buttons):
            raise bad_request(_SAME)
        shown.text, shown.entities, shown.buttons = text, entities, buttons
        shown.source = given.get("text") or given.get("caption") or ""
        shown.edits += 1
        self._world.messages[shown.chat, shown.number] = message = self._describe(shown)
        return message

    def _delete(self, given: Json) -> bool:
        shown = self._must_find(given, "message to delete not found")
        self._world.shown.remove(shown)
        del self._world.messages[shown.chat, shown.number]
        return True

    # ── signs, commands and files ───────────────────────────────────────────────────────────────────────────────

    def _react(self, given: Json) -> bool:
        chat = self._must_reach(given)
        reaction: list[Json] = given.get("reaction", [])
        check_reaction(reaction)
        if (chat, given["message_id"]) not in self._world.messages:
            raise bad_request("message to react not found")
        self._world.reactions[chat, given["message_id"]] = [each["emoji"] for each in reaction]
        return True

    def _act(self, given: Json) -> bool:
        if given["action"] not in ACTIONS:
            raise bad_request("wrong parameter action in request")
        self.typing.append((self._must_reach(given), given.get("message_thread_id")))
        return True

    def _answer_press(self, given: Json) -> bool:
        if given["callback_query_id"] not in self._world.presses:
            raise bad_request("query is too old and response timeout expired or query ID is invalid")
        self._world.presses.discard(given["callback_query_id"])
        return True

    def _set_commands(self, given: Json) -> bool:
        check_commands(given["commands"])
        self.commands[given.get("language_code", "")] = given["commands"]
        return True

    def _get_file(self, given: Json) -> Json:
        data = self._world.files.get(given["file_id"])
        if data is None:
            raise bad_request("wrong file_id or the file is temporarily unavailable")
        if len(data) > MOST_DOWNLOAD:
            raise bad_request("file is too big")
        about = {"file_id": given["file_id"], "file_unique_id": "u", "file_size": len(data)}
        return {**about, "file_path": f"files/{given['file_id']}"}

    # ── what must hold ──────────────────────────────────────────────────────────────────────────────────────────

    def _must_reach(self, given: Json) -> int:
        chat = int(given["chat_id"])
        if chat in self._world.moved:
            to = {"migrate_to_chat_id": self._world.moved[chat]}
            raise ApiRefusal(400, "Bad Request: group chat was upgraded to a supergroup chat", to)
        if chat in self._world.gone:
            raise ApiRefusal(403, self._world.gone[chat])
        if chat not in self._world.chats:
            raise bad_request("chat not found")
        return chat

    def _must_find(self, given: Json, otherwise: str) -> Shown:
        place = (self._must_reach(given), int(given["message_id"]))
        for shown in self._world.shown:
            if (shown.chat, shown.number) == place:
                return shown
        raise bad_request(otherwise)

    def _count(self, chat: int) -> None:
        """Refuse whoever writes too fast: to a group within a minute, or to everybody within a second."""
        if not self._has_limits:
            return
        now = self._time()
        times = self._in_group.setdefault(chat, deque(maxlen=GROUP_MESSAGES)) if chat < 0 else self._all
        window = 60.0 if chat < 0 else 1.0
        if len(times) == times.maxlen and now - times[0] < window:
            raise too_many(int(window - (now - times[0])) + 1)
        times.append(now)
        if chat < 0:
            self._all.append(now)


def _parse(given: Json, field: str) -> tuple[str, list[Json]]:
    source, mode = str(given.get(field) or ""), given.get("parse_mode")
    if mode == "HTML":
        text, entities = parse_html(source)
        return text, entities[:MOST_ENTITIES]
    if mode:
        raise bad_request("unsupported parse_mode")
    return source.strip(), []
