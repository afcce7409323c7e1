"""Stages 1 and 2: the standard form of a message (normalize), and whether it is for us and from whom (gate).

The text a person wrote is kept as it is; only a copy is tidied. Who wrote is what the channel authenticated; what they
are here, we know. After the commands, where the operator wants it, `MarketHours` asks whether a market is open.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Struct

from finclaw.approvals.people import People
from finclaw.delivery.notice import make_notice
from finclaw.errors import ToolError
from finclaw.kernel.calendar import Calendar, Opening
from finclaw.kernel.envelope import Inbound, Sender
from finclaw.kernel.person import Person
from finclaw.kernel.port import Clock
from finclaw.pipeline.persons import PersonDirectory
from finclaw.pipeline.stage import Halt, skip
from finclaw.text import Language

_MENTION: Final = re.compile(r"<@!?([A-Za-z0-9_.:-]{1,128})>")
_MENTIONS_IN_FRONT: Final = re.compile(rf"(?:{_MENTION.pattern} ?)+")
_URL: Final = re.compile(r"https?://[^\s<>]{1,2000}", re.IGNORECASE)
_TRAILING: Final = ".,;:!?\"'、。」』】…"
_BRACKETS: Final = {")": "(", "]": "[", "}": "{"}
USUAL_MARKETS: Final = ("KRX", "NYSE")
"""Those that count for somebody who has no home market: one of them is enough."""

_WORDS: Final[dict[Language, str]] = {
    "en": "I answer only while the market is open. {market} opens next on {day} at {time} ({zone}). "
    "Commands work at any hour.",
    "ko": "장이 열려 있는 동안에만 답변합니다. {market}의 다음 개장은 {day} {time}({zone})입니다. "
    "명령어는 언제든 쓸 수 있습니다.",
}

_ZONES: Final[dict[Language, dict[str, str]]] = {
    "en": {"Asia/Seoul": "Korean time", "America/New_York": "New York time"},
    "ko": {"Asia/Seoul": "한국 시간", "America/New_York": "뉴욕 시간"},
}

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_DAYS_KO: Final = "월화수목금토일"
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class NormalMessage(Struct, frozen=True):
    """A message in standard form. `content` is one tidy line for matching, without the mentions in front."""

    inbound: Inbound
    content: str
    mentions: tuple[str, ...]
    urls: tuple[str, ...]
    is_bot: bool


def normalize(inbound: Inbound) -> NormalMessage:
    if inbound.sender.is_self:
        raise skip("our own message")
    if inbound.sender.is_bot:
        raise skip("written by another bot: two bots could talk for ever")
    if inbound.kind in ("delete", "reaction"):
        raise skip(f"{inbound.kind} of message {inbound.target}: recorded, and nothing to answer")
    if not inbound.text.strip() and not inbound.attachments:
        raise skip("empty message")
    return NormalMessage(
        inbound=inbound,
        content=tidy(inbound.text),
        mentions=tuple(dict.fromkeys(_MENTION.findall(inbound.text))),
        urls=tuple(dict.fromkeys(map(_trim, _URL.findall(inbound.text)))),
        is_bot=inbound.sender.is_bot,
    )


def tidy(text: str) -> str:
    """One line, without the mentions in front."""
    line = " ".join(text.split())
    front = _MENTIONS_IN_FRONT.match(line)
    return line if front is None else line[front.end() :]


def _trim(url: str) -> str:
    """Leave out the sentence's own punctuation, and a closing bracket that was never opened inside the address."""
    while url and (url[-1] in _TRAILING or _lacks_opening_bracket(url)):
        url = url[:-1]
    return url


def _lacks_opening_bracket(url: str) -> bool:
    opening = _BRACKETS.get(url[-1])
    return opening is not None and url.count(url[-1]) > url.count(opening)


class Heard(NamedTuple):
    """Who is heard on a channel: these people everywhere, and everybody in these conversations."""

    senders: frozenset[str]
    conversations: frozenset[str]

    def admits(self, inbound: Inbound) -> bool:
        return inbound.sender.id in self.senders or inbound.conversation in self.conversations


class Gate:
    def __init__(
        self, *, require_mention: bool, people: People | None = None, heard: Mapping[str, Heard] | None = None
    ) -> None:
        """`heard`: the allow lists of the channels that have some."""
        self._heard = heard or {}
        self._require_mention = require_mention
        self._people = people

    def admit(self, message: NormalMessage) -> Sender:
        reason = self.find_objection(message.inbound)
        if reason is not None:
            raise skip(reason)
        return self.identify_sender(message.inbound)

    def find_objection(self, inbound: Inbound) -> str | None:
        """Why a message is not for us; None: it is."""
        if not self.hears(inbound):
            return f"the sender is not on the allow lists of channel {inbound.channel}"
        addressed = inbound.mentions_us or inbound.kind == "action" or inbound.is_internal
        if inbound.chat_type != "direct" and self._require_mention and not addressed:
            return "not mentioned in a shared conversation"
        return None

    def hears(self, inbound: Inbound) -> bool:
        heard = self._heard.get(inbound.channel)
        return heard is None or heard.admits(inbound) or inbound.is_internal

    def identify_sender(self, inbound: Inbound) -> Sender:
        limits = inbound.limits
        is_own_task = limits is not None and limits.approval is None and limits.pool != "cron"
        if self._people is None or is_own_task:  # whoever gave the task was admitted then
            return inbound.sender
        return self._people.sender(inbound)


class MarketHours:
    """A check that ends a message outside of market hours, with one line that says when to ask again.

    It is about the regular session. Commands are answered at any hour, and so is what schedules and extensions begin.
    """

    def __init__(self, calendar: Calendar, persons: PersonDirectory, clock: Clock) -> None:
        self._calendar = calendar
        self._persons = persons
        self._clock = clock

    def admit(self, inbound: Inbound) -> None:
        """Raises Halt outside of market hours."""
        opening = self.find_next_opening(inbound)
        if opening is None:
            return
        text = self._format_line(opening, inbound, self._persons.find(inbound))
        reply = make_notice(text, inbound)
        reason = f"outside of market hours, by pipeline.respect_market_hours: {opening.market} {opening.reason}"
        raise Halt(reason, outcome="skipped", reply=reply)

    def find_next_opening(self, inbound: Inbound) -> Opening | None:
        """Of the person's markets, the one that opens first; None: one is open, or it is nobody's message."""
        if inbound.kind != "message" or inbound.unasked:
            return None
        openings = self._find_openings(self._persons.find(inbound).market)
        if any(each.is_open for each in openings):
            return None
        return min(openings, key=lambda each: each.session.opens)

    def _find_openings(self, home: str) -> list[Opening]:
        now = self._clock.now()
        if home:
            try:
                return [self._calendar.opening(home, now)]
            except ToolError:  # a home market that the calendar lacks
                pass
        return [self._calendar.opening(market, now) for market in USUAL_MARKETS]

    def _format_line(self, opening: Opening, inbound: Inbound, person: Person) -> str:
        language = inbound.reply_language
        zone = person.timezone or self._calendar.zone(opening.market)
        try:
            opens = opening.session.opens.astimezone(ZoneInfo(zone))
        except (ZoneInfoNotFoundError, ValueError):  # one that this machine does not know
            zone = "UTC"
            opens = opening.session.opens
        day = _format_day(opens, language)
        zone = _ZONES[language].get(zone, zone)
        return _WORDS[language].format(market=opening.market, day=day, time=f"{opens:%H:%M}", zone=zone)


def _format_day(moment: datetime, language: Language) -> str:
    if language == "ko":
        return f"{moment.year}년 {moment.month}월 {moment.day}일({_DAYS_KO[moment.weekday()]})"
    return f"{_DAYS[moment.weekday()]} {moment.day} {_MONTHS[moment.month - 1]} {moment.year}"
