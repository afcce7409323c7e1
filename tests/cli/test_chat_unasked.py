"""What reaches a chat unasked at a real terminal: cards, reminders and late answers, whole, once and in order."""

import asyncio
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.cli.chat_terminal import CTRL_C, CTRL_D, ENTER, LEFT, chatting, reachable
from tests.cli.terminal import finclaw
from tests.cli.trading_chat import ORDER, kim_wants_to_buy, kims, trading

from finclaw.app import App
from finclaw.clock import SystemClock
from finclaw.sessions.session_key import session_key
from finclaw.testing.provider import ScriptedProvider, hold, reply, say
from finclaw.web.principal import OWNER, MessageBody, inbound

pytestmark = pytest.mark.spec("DX-22")


class LeapingClock:
    """The real clock, and as far ahead of it as the test says."""

    def __init__(self) -> None:
        self._real = SystemClock()
        self.ahead = timedelta()

    def now(self) -> datetime:
        return self._real.now() + self.ahead

    def monotonic(self) -> float:
        return self._real.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._real.sleep(seconds)


async def remark(app: App, text: str, key: str) -> None:
    """An extension's own words for the owner's conversation."""
    said = replace(inbound(OWNER, MessageBody(message_id=key, text=text)), from_extension="calendar")
    await app.say(said, session_key(app.settings.agent.name, said))
    await app.idle()


@pytest.mark.parametrize(
    ("text", "title", "asker"),
    [
        ("please buy", "Approval needed. Nothing has been done yet.", "Asked for by"),
        ("애플 사줘", "승인이 필요합니다. 아직 아무것도 실행하지 않았습니다.", "요청한 사람"),
    ],
)
async def test_a_card_of_somebody_elses_request_appears_while_a_line_is_typed(
    tmp_path: Path, text: str, title: str, asker: str
) -> None:
    provider = ScriptedProvider(ORDER, "Got it.")
    async with trading(tmp_path, provider, own="never") as app, reachable(tmp_path, app):
        with chatting(tmp_path) as terminal:
            await terminal.prompt()
            terminal.type("/whoami" + ENTER)  # who never wrote cannot be found
            await terminal.expect("owner (web:owner:owner)")
            await terminal.prompt()
            terminal.type("가나 다" + LEFT)
            await terminal.see("가나 다")
            approval = await kim_wants_to_buy(app, text)
            (addressee,) = approval.sent_to
            await terminal.expect(title)
            shown = await terminal.expect("> 가나 다")
            for line in addressee.card.splitlines()[1:]:
                assert line in shown
            assert asker in shown
            assert f"/approve {approval.id[:11]}" in shown
            assert f"/deny {approval.id[:11]}" in shown
            terminal.type("라" + ENTER)  # where the cursor was
            await terminal.expect("Got it.")
        assert "가나 라다" in provider.requests[-1].messages[-1].text
        assert terminal.text.count(title) == 1


async def test_without_the_toolkit_a_card_waits_until_the_line_is_sent(tmp_path: Path) -> None:
    async with trading(tmp_path, ScriptedProvider("Got it.")) as app, reachable(tmp_path, app):
        with chatting(tmp_path, toolkit=False) as terminal:
            await terminal.prompt()
            terminal.type("half a line")
            await terminal.expect("half a line")
            await remark(app, "A remark.", "1")
            terminal.type(", and the rest" + ENTER)
            before = await terminal.expect("A remark.")
            await terminal.expect("Got it.")
            await terminal.prompt()
        assert "half a line, and the rest" in terminal.text
        assert "half" not in before  # the line was not drawn again


async def test_a_card_in_the_middle_of_an_answer_tears_nothing(tmp_path: Path) -> None:
    released = asyncio.Event()
    provider = ScriptedProvider(reply(say("The first part. "), hold(released), say("The second part.")), ORDER)
    async with trading(tmp_path, provider, own="never") as app, reachable(tmp_path, app):
        with chatting(tmp_path) as terminal:
            await terminal.prompt()
            terminal.type("/whoami" + ENTER)
            await terminal.prompt()
            terminal.type("go" + ENTER)
            await terminal.expect("The first part.")
            await app.accept(kims("buy", "k"))
            await terminal.expect("/deny ap-")
            await terminal.expect("The first part.")  # again, whole, below the card
            released.set()
            await terminal.expect("The second part.")
            await terminal.prompt()


async def test_ones_own_card_its_reminder_and_what_came_of_it(tmp_path: Path) -> None:
    provider, clock = ScriptedProvider(ORDER, "It was bought."), LeapingClock()
    async with trading(tmp_path, provider, clock, order_expire_s=7_200) as app, reachable(tmp_path, app):
        with chatting(tmp_path) as terminal:
            await terminal.prompt()
            terminal.type("buy" + ENTER)
            await terminal.expect("Approval needed.")
            await terminal.prompt()
            clock.ahead = timedelta(hours=1)
            app.consents.asked.set()  # or the one who looks at the clock would sleep the hour
            await terminal.expect("Still waiting for a decision: broker__order")
            await terminal.prompt()
            (approval,) = await app.approvals()
            terminal.type(f"/approve {approval.id}" + ENTER)
            await terminal.expect("Approved")
            await terminal.expect("It was bought.")
            await terminal.prompt()
        assert terminal.text.count("Still waiting") == terminal.text.count("It was bought.") == 1


async def test_what_was_told_while_the_line_was_broken_or_nobody_was_there(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        async with trading(tmp_path, ScriptedProvider()) as app, reachable(tmp_path, app):
            terminal = stack.enter_context(chatting(tmp_path))
            await terminal.prompt()
            await remark(app, "Remark one.", "1")
            await terminal.expect("Remark one.")
        async with trading(tmp_path, ScriptedProvider()) as app:
            await remark(app, "Remark two.", "2")
        async with trading(tmp_path, ScriptedProvider()) as app:
            await remark(app, "Remark three.", "3")
            async with reachable(tmp_path, app):
                await terminal.expect("Remark two.")
                await terminal.expect("Remark three.")
                await remark(app, "Remark four.", "4")
                await terminal.expect("Remark four.")
                terminal.type(CTRL_D)
                assert await terminal.ended() == 0
            await remark(app, "Remark five.", "5")
    with chatting(tmp_path) as alone:  # with a gateway of its own, and the same conversation
        await alone.expect("Remark five.")
        alone.type("/whoami" + ENTER)
        await alone.expect("owner (web:owner:owner)")
        await alone.prompt()
        alone.type(CTRL_D)
        assert await alone.ended() == 0
    for number in ("one", "two", "three", "four"):
        assert terminal.text.count(f"Remark {number}.") == 1
    assert "Remark four" not in alone.text


async def test_a_line_of_several_rows_and_an_interrupt_behind_it(tmp_path: Path) -> None:
    async with trading(tmp_path, ScriptedProvider()) as app, reachable(tmp_path, app):
        with chatting(tmp_path, columns=20) as terminal:
            await terminal.prompt()
            terminal.type("a line that is longer than the screen")
            await terminal.see("\n  ger than the scre")  # in rows of its own making
            await remark(app, "A remark.", "1")
            await terminal.expect("A remark.")
            await terminal.expect("\n  ger than the scre")
            terminal.type(CTRL_C)
            await terminal.prompt()
            await terminal.interrupt("Ctrl-C again")


async def test_a_script_gets_them_beside_its_answers(tmp_path: Path) -> None:
    provider = ScriptedProvider(reply(hold(released := asyncio.Event()), say("The answer.")))
    async with trading(tmp_path, provider) as app, reachable(tmp_path, app):
        running = asyncio.ensure_future(asyncio.to_thread(lambda: finclaw("chat", "--state", tmp_path, stdin="go\n")))
        async with asyncio.timeout(60):
            while not provider.streaming:  # noqa: ASYNC110  the fake tells its state and nothing else
                await asyncio.sleep(0.01)
        said = replace(inbound(OWNER, MessageBody(message_id="1", text="A remark.")), from_extension="approval cards")
        accepted = await app.say(said, session_key(app.settings.agent.name, said))
        await app.wait(accepted.id, 60)  # a script ends with its last answer, and hears nothing that comes later
        released.set()
        ended = await running
    assert (ended.code, ended.out, ended.err) == (0, "The answer.\n", "A remark.\n")
