"""A limiter of sends: Telegram refuses whoever writes faster than it allows, and the refusals grow longer."""

from collections import deque
from typing import Final

from finclaw.channels.telegram.options import TelegramOptions
from finclaw.errors import SendFailed
from finclaw.kernel.port import Clock

LONGEST_WAIT: Final = 5.0
"""Seconds; whoever would wait longer is sent away."""
_MINUTE: Final = 60.0
_MOST_CHATS: Final = 10_000


class SendPace:
    """A limiter for the bot as a whole, for each chat, and for each group within a minute."""

    def __init__(self, options: TelegramOptions, clock: Clock) -> None:
        self._clock = clock
        self._between = 1.0 / options.messages_per_second
        self._between_in_chat = 1.0 / options.messages_per_second_in_chat
        self._most_in_group = options.messages_per_minute_in_group
        self._next = 0.0
        self._next_in_chat: dict[int, float] = {}
        self._last_in_group: dict[int, deque[float]] = {}

    async def wait(self, chat: int, *, is_edit: bool = False) -> None:
        """Returns when the next message may go to that chat. An edit does not count as one more message of a group.

        Raises SendFailed where that is long from now: whoever waits here cannot be told from one that is being sent.
        """
        counts = chat < 0 and not is_edit
        while (seconds := self._first_free(chat, counts=counts) - self._clock.monotonic()) > 0:
            if seconds > LONGEST_WAIT:
                raise SendFailed(f"chat {chat} takes no more messages for {seconds:.0f} s", retry_after=seconds)
            await self._clock.sleep(seconds)
        now = self._clock.monotonic()
        self._next = now + self._between
        self._next_in_chat[chat] = now + self._between_in_chat
        if counts:
            self._last_in_group.setdefault(chat, deque(maxlen=self._most_in_group)).append(now)
        if len(self._next_in_chat) > _MOST_CHATS:
            self._forget(now)

    def _first_free(self, chat: int, *, counts: bool) -> float:
        free = max(self._next, self._next_in_chat.get(chat, 0.0))
        times = self._last_in_group.get(chat) if counts else None
        return free if times is None or len(times) < self._most_in_group else max(free, times[0] + _MINUTE)

    def hold(self, chat: int, seconds: float) -> None:
        """Telegram said how long to wait."""
        until = self._clock.monotonic() + seconds
        self._next_in_chat[chat] = max(until, self._next_in_chat.get(chat, 0.0))

    def _forget(self, now: float) -> None:
        self._next_in_chat = {chat: at for chat, at in self._next_in_chat.items() if at > now}
        self._last_in_group = {
            chat: times for chat, times in self._last_in_group.items() if times and times[-1] + _MINUTE > now
        }
