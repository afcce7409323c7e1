"""A busy chat on Telegram in Korean and English, kept as a file that people have read: stop, steer, edit, queue.

`GOLDEN=write` writes it anew: read it before you commit it.
"""

import asyncio
import os
from pathlib import Path
from typing import Final

from tests.channels.telegram.desk import MINA, Desk, in_virtual_time
from tests.channels.telegram.shown_text import describe
from tests.support.telegram.world import Shown

from finclaw.kernel.chunk import ModelRequest
from finclaw.kernel.extension import ExtensionApi
from finclaw.policy.rule import Rule
from finclaw.testing import Reply, call, delay, reply, say
from finclaw.tools.define import tool

GOLDEN: Final = Path(__file__).with_name("busy.golden.txt")


@tool("look", "Looks something up, slowly.")
async def look(what: str) -> str:
    await asyncio.sleep(10)
    return f"{what}: 230 USD, 310,500 KRW"


class Looking:
    name = "looking"

    def register(self, api: ExtensionApi) -> None:
        api.tools.register(look)


def answer(request: ModelRequest) -> Reply:
    """A model that writes slowly what is asked in detail, looks up prices with a tool, and repeats the rest."""
    asked = [each.text for each in request.messages if each.role == "user" and "from the gateway" not in each.text]
    last = asked[-1]
    if last == "삼성전자에 대해 자세히":
        return reply(say("삼성전자는 반도체 회사입니다. "), delay(20), say("그리고 "), delay(99))
    if last == "Tell me all about Apple":
        return reply(say("Apple makes phones. "), delay(20), say("And it "), delay(99))
    if "찾아" in last or "look up" in last:
        return reply(call("look", {"what": "AAPL"}, id=f"c{len(request.messages)}"))
    if last in ("원화로", "in won, please"):
        return reply(say("애플은 310,500원입니다." if last == "원화로" else "Apple is at 310,500 won."))
    is_korean = any("가" <= letter <= "힣" for letter in last)
    return reply(delay(3), say(f"“{last}”에 대한 답변입니다." if is_korean else f"This is the answer to “{last}”."))


class BusyTranscript:
    """What Mina writes and sees, with the seconds at which she does. Answers that change are shown as they are then."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._began = desk.clock.now()
        self._seen: dict[int, list[str]] = {}
        self.lines: list[str] = []

    def head(self, title: str) -> None:
        self.lines += ["", f"═══ {title} ═══"]
        self._began = self._desk.clock.now()

    def write(self, text: str) -> int:
        number = self._desk.api.write(MINA, text, name="미나")
        self._add(f"{number} 미나", [text])
        return number

    def edit(self, number: int, text: str) -> None:
        self._desk.api.push(self._desk.api.world.edit(MINA, number, text))
        self._add(f"{number} 미나, edited", [text])

    def press(self, shown: Shown, label: str) -> None:
        self._desk.api.push(self._desk.api.world.press(shown, label))
        self._add(f"미나 presses [{label}]", [])

    async def wait(self, seconds: float) -> list[Shown]:
        """Let time pass, and write down what is new or another in the chat."""
        await self._desk.api.until(lambda: self._desk.api.unacknowledged == 0)
        await self._desk.clock.sleep(seconds)
        shown = list(self._desk.api.shown_in(MINA))
        for each in shown:
            said = describe(each)
            if self._seen.get(each.number) != said:
                answers = "" if each.reply_to is None else f", answers {each.reply_to}"
                changed = ", changed" if each.number in self._seen else ""
                self._add(f"{each.number} bot{answers}{changed}", said)
                self._seen[each.number] = said
        return shown

    def _add(self, head: str, said: list[str]) -> None:
        at = (self._desk.clock.now() - self._began).total_seconds()
        self.lines += [
            "",
            f"[{at:3.0f} s] {head}",
            *(f"  {line}".rstrip() for text in said for line in text.split("\n")),
        ]


async def hold_busy_conversation(desk: Desk) -> list[str]:
    told = BusyTranscript(desk)
    for korean in (True, False):

        def word(ko: str, en: str, korean: bool = korean) -> str:
            return ko if korean else en

        detailed = word("삼성전자에 대해 자세히", "Tell me all about Apple")
        told.head(word("stopped by the button, in Korean", "stopped by the button, in English"))
        told.write(detailed)
        shown = await told.wait(4)
        told.press(shown[-1], shown[-1].labels[0])
        await told.wait(2)
        told.head("stopped by a word, with one that waits")
        told.write(detailed)
        await told.wait(4)
        told.write(word("하이닉스는?", "And Microsoft?"))
        await told.wait(1)
        told.write(word("/대기", "/queue"))
        await told.wait(1)
        told.write(word("그만", "stop"))
        await told.wait(4)
        told.head("steered while a tool runs")
        told.write(word("애플 주가 찾아줘", "look up Apple"))
        await told.wait(3)
        told.write(word("원화로", "in won, please"))
        await told.wait(1)
        told.write(word("/대기", "/queue"))
        await told.wait(1)
        await told.wait(20)
        told.head("an edit of what waits, and of what was answered")
        told.write(word("인사", "Greetings"))
        await told.wait(1)
        number = told.write(word("테슬라", "Tesla"))
        await told.wait(1)
        told.edit(number, word("엔비디아", "NVIDIA"))
        await told.wait(10)
        told.edit(number, word("인텔", "Intel"))
        await told.wait(10)
    return told.lines


@in_virtual_time
async def test_the_busy_conversation_looks_as_it_was_read(desk: Desk) -> None:
    async with desk.gateway(answer, extensions=[Looking()], rules=[Rule("*", "allow")]):
        lines = await hold_busy_conversation(desk)
    assert desk.api.errors == []
    text = "\n".join(lines).lstrip() + "\n"
    if os.environ.get("GOLDEN") == "write":
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")
