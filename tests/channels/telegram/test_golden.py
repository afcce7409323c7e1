"""A conversation on Telegram in Korean and English, as the server saw it, kept as a file that people have read.

`GOLDEN=write` writes it anew: read it before you commit it.
"""

import os
from pathlib import Path
from typing import Any, Final

from tests.channels.telegram.desk import JUN, MINA, Desk, in_virtual_time
from tests.channels.telegram.shown_text import describe
from tests.support.telegram.world import Shown

import finclaw
from finclaw.approvals.people import PersonSettings
from finclaw.channels.settings import ChannelSettings
from finclaw.redaction import Secret

GOLDEN: Final = Path(__file__).with_name("conversation.golden.txt")
FORUM: Final = -1_002_000_000_001
NAMES: Final = {MINA: "미나", JUN: "Jun"}
LASTING: Final = ("help", "whoami", "reset")
"""Commands that will always be there. Lists of commands are kept without all others: a new one changes nothing."""


class Transcript:
    """What people wrote and saw, in the order in which they did."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._seen: set[tuple[int, int]] = set()
        self.lines: list[str] = []

    def head(self, title: str) -> None:
        self.lines += ["", f"═══ {title} ═══"]

    async def say(self, chat: int, text: str, *, user: int = 0, **fields: Any) -> list[Shown]:
        """Somebody writes, and waits until the gateway has nothing more to say."""
        number = self._desk.api.write(chat, text, user=user or chat, name=NAMES[user or chat], **fields)
        self._write(chat, NAMES[user or chat], number, [text])
        return await self.hear(chat, number)

    async def send_voice(self, chat: int) -> None:
        body = self._desk.api.world.send_file(chat, "voice", b"ogg", mime_type="audio/ogg")
        self._desk.api.push(body)
        self._write(chat, NAMES[chat], body["message"]["message_id"], ["(voice message)"])
        await self.hear(chat, None)

    async def press(self, card: Shown, label: str) -> None:
        self._desk.api.push(self._desk.api.world.press(card, label))
        self.lines += ["", f"  {NAMES[card.chat]} presses [{label}]"]
        await self.hear(card.chat, None)

    async def hear(self, chat: int, number: int | None) -> list[Shown]:
        api, app = self._desk.api, self._desk.app
        assert app is not None
        await api.until(lambda: api.unacknowledged == 0)
        await app.idle()
        await self._desk.clock.sleep(2)
        await app.idle()
        new = [each for each in api.shown_in(chat) if (each.chat, each.number) not in self._seen]
        for each in new:
            self._seen.add((each.chat, each.number))
            self._write(chat, "bot", each.number, describe(each), each.reply_to)
        if number is not None and (left := api.world.reactions.get((chat, number))):
            self.lines.append(f"  (reaction to {number}: {' '.join(left)})")
        return new

    def _write(self, chat: int, who: str, number: int, said: list[str], reply_to: int | None = None) -> None:
        answers = "" if reply_to is None else f", answers {reply_to}"
        self.lines += [
            "",
            f"{number} {who}{answers}",
            *(f"  {line}".rstrip() for text in said for line in text.split("\n")),
        ]


async def hold_conversation(desk: Desk) -> list[str]:
    world = desk.api.world
    world.add_group(FORUM, "투자 모임", topics=[7])
    told = Transcript(desk)
    told.head("Mina, in private, in Korean")
    await told.say(MINA, "/start")
    await told.say(MINA, "삼성전자 현재 주가 알려줘")
    await told.say(MINA, "애플이랑 엔비디아 비교해줘")
    await told.send_voice(MINA)
    told.head("Mina, in private, in English")
    await told.say(MINA, "What is the price of Apple?")
    await told.say(MINA, "/whoami")
    told.head("a group with a topic")
    await told.say(FORUM, "점심 뭐 먹지?", user=JUN, thread=7)
    await told.say(FORUM, "@finclaw_bot 현대차 주가는?", user=JUN, thread=7)
    told.head("a voice message, and a stranger")
    await told.send_voice(MINA)
    await told.say(JUN, "hello? anybody there?")
    return told.lines


@in_virtual_time
async def test_the_conversation_looks_as_it_was_read(desk: Desk) -> None:
    telegram = ChannelSettings(
        kind="telegram",
        secrets={"token": Secret(desk.api.token)},
        allow_senders=(str(MINA),),
        allow_conversations=(str(FORUM),),
        settings={"api": desk.api.url},
    )
    mina = PersonSettings(name="Mina", known_as=(f"telegram:default:{MINA}",), roles=("owner", "approver"))
    settings = finclaw.Settings(state=desk.place / "state", channels={"telegram": telegram}, people=(mina,))
    async with finclaw.build(settings, clock=desk.clock, threaded=False) as app:
        desk.app = app
        await desk.api.until(lambda: desk.api.calls["getUpdates"] > 0)
        lines = await hold_conversation(desk)
    menu = [
        f"{language or 'en'}: /{each['command']} – {each['description']}"
        for language, menu in desk.api.methods.commands.items()
        for each in menu
        if each["command"] in LASTING
    ]
    kept = [line for line in lines if not line.startswith("  /") or " – " not in line or line[3:].split()[0] in LASTING]
    text = "\n".join(["The menu of commands, of which there are more", *menu, *kept]) + "\n"
    if os.environ.get("GOLDEN") == "write":
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")
