"""Telegram for a gateway that is killed: our Bot API server, with the history that the checker reads."""

from collections import defaultdict
from typing import Final

from tests.chaos.child import picture
from tests.support.history import Acked, History, SentIn
from tests.support.platform import FakePlatform
from tests.support.telegram import BotApi
from tests.support.telegram.server import BotFault
from tests.support.telegram.world import Json
from tests.support.wire import SendBody

MARK: Final = " #"
"""Between the words of an answer and the name of its outbox item, which the gateway under test writes behind them."""
FIRST_CHAT: Final = 1_000


class TelegramPlatform(FakePlatform):
    """The fake platform of the other chaos tests, with Telegram's server in place of its own."""

    def __init__(self, history: History) -> None:
        super().__init__(history)
        self.api = _RecordingApi(self)
        self.api.fault = self._ask_for_fault
        self.numbers: defaultdict[int, list[int]] = defaultdict(list)
        """What was asked in each chat, in order."""

    async def start(self) -> None:
        await self.api.start()

    async def stop(self) -> None:
        await self.api.stop()

    @property
    def url(self) -> str:
        return self.api.url

    @property
    def unacknowledged(self) -> int:
        return self.api.unacknowledged

    def write(self, conversation: str, text: str, *, sender: str = "ada") -> str:
        """A person writes; every fourth message is a picture with these words below it."""
        chat = FIRST_CHAT + int(conversation.removeprefix("c"))
        number = int(text.rpartition("=")[2])
        self.numbers[chat].append(number)
        is_picture = number % 4 == 0
        world = self.api.world
        body = world.send_file(chat, "photo", picture(number // 8), text) if is_picture else world.write(chat, text)
        message_id = name_of(body)
        self.history.write(SentIn(str(chat), len(self.numbers[chat]), message_id))
        self.api.push(body)
        if number % 10 == 0:
            self.api.push(body)  # Telegram does not always know what it has given
        return message_id

    def acknowledge(self, update: Json) -> None:
        self.history.write(Acked(name_of(update)))

    def show(self, given: Json) -> None:
        self._show(_read_send(given))
        self._pulse()

    def _ask_for_fault(self, method: str, given: Json) -> BotFault | None:
        fault = self.fault(_read_send(given))
        if fault is None or fault.kind == "refused":
            return None
        return BotFault(fault.kind, fault.seconds or 0.0)


class _RecordingApi(BotApi):
    def __init__(self, platform: TelegramPlatform) -> None:
        super().__init__(has_limits=False)
        self._platform = platform

    def acknowledge(self, update: Json) -> None:
        self._platform.acknowledge(update)

    def after_call(self, method: str, given: Json, result: object) -> None:
        if method == "sendMessage":
            self._platform.show({**given, "text": self.world.shown[-1].text})
        elif method == "editMessageText":
            (shown,) = [each for each in self.shown_in(given["chat_id"]) if each.number == given["message_id"]]
            self._platform.show({**given, "text": shown.text})
        self._pulse()


def name_of(update: Json) -> str:
    return f"{update['message']['chat']['id']}/{update['message']['message_id']}"


def _read_send(given: Json) -> SendBody:
    words, _, token = str(given["text"]).rpartition(MARK)
    answered = given.get("reply_parameters", {}).get("message_id")
    reply_to = None if answered is None else f"{given['chat_id']}/{answered}"
    return SendBody(str(given["chat_id"]), token, words, reply_to)
