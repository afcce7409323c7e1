"""`/stop` in every phase of a turn: after a second nothing more is seen, the person is told once, and it holds."""

import asyncio
import shutil
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from tests.tools import dangerous
from tests.tools.liveness import alive
from tests.walks.house import Gateway, House, in_virtual_time, until
from tests.walks.tools import Desk, hang

from finclaw.approvals.people import PersonSettings
from finclaw.builtins.basics import RESET_WORDS, STOP_WORDS
from finclaw.kernel.chunk import ModelRequest
from finclaw.kernel.envelope import Capabilities
from finclaw.kernel.port import ToolScope
from finclaw.kernel.record import Accepted
from finclaw.pipeline.settings import PipelineSettings, PoolSettings
from finclaw.sessions.settings import QueueSettings, SessionSettings
from finclaw.storage.kinds import StoreKind
from finclaw.testing import call, crash_at, delay, reply, say
from finclaw.testing.channel import PROFILES

NEVER = "words that nobody sees"
LONG = "\n\n".join(f"Paragraph {n} of a long answer. " + "x" * 900 for n in range(6))


class Phase:
    """A gateway whose next message gets as far as a phase, and stays there until it is released."""

    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.is_held = False
        self.desk = Desk()
        self.parts: dict[str, Any] = {}
        self.script: tuple[Any, ...] = (NEVER,)

    async def hold(self, ctx: Any) -> Any:
        """A layer that holds before the core."""
        await self._stay()
        return await ctx.next()

    async def hold_behind(self, ctx: Any) -> Any:
        """A layer that holds behind the core."""
        result = await ctx.next()
        await self._stay()
        return result

    async def _stay(self) -> None:
        if not self.is_held:
            self.is_held = True
            await self.release.wait()

    def is_reached(self) -> bool:
        return self.is_held or "layers" not in self.parts

    async def stubborn(self, text: str, scope: ToolScope) -> str:
        while not self.release.is_set():
            try:
                await self.release.wait()
            except asyncio.CancelledError:
                continue
        return NEVER


def held_by(ring: str, *script: Any, behind: bool = False, tools: tuple[str, ...] = ()) -> Callable[[], Phase]:
    def make() -> Phase:
        phase = Phase()
        phase.parts["layers"] = [(ring, phase.hold_behind if behind else phase.hold)]
        phase.parts["tools"] = [phase.desk.tool(name) for name in tools]
        phase.script = script or phase.script
        return phase

    return make


def scripted(*script: Any, **parts: Any) -> Callable[[], Phase]:
    def make() -> Phase:
        phase = Phase()
        phase.script, phase.parts = script, parts
        return phase

    return make


def in_tool(*, stubborn: bool) -> Callable[[], Phase]:
    def make() -> Phase:
        phase = Phase()
        body = phase.stubborn if stubborn else hang
        phase.parts["tools"] = [phase.desk.tool("look", body, timeout=9999)]
        phase.script = (reply(call("look")), NEVER)
        return phase

    return make


PHASES = {
    "before its stages": held_by("message"),
    "waiting for the model": scripted(reply(delay(99), say(NEVER))),
    "streaming into an edited message": scripted(
        reply(say("Seen. "), delay(3), say(NEVER), delay(99)), capabilities=Capabilities(edits=True)
    ),
    "streaming in blocks": scripted(
        reply(say("Seen. \n\n" * 40), delay(3), say(NEVER * 99), delay(99)), capabilities=Capabilities(blocks=True)
    ),
    "between two steps": held_by("step", reply(call("look")), NEVER, behind=True, tools=("look",)),
    "before a tool": held_by("tool_call", reply(call("look")), NEVER, tools=("look",)),
    "in a tool": in_tool(stubborn=False),
    "in a tool that ignores it": in_tool(stubborn=True),
    "in a layer of the delivery": held_by("delivery"),
}


@asynccontextmanager
async def at(house: House, phase: Phase) -> AsyncGenerator[tuple[Gateway, Accepted]]:
    lines = iter(phase.script)

    def script(request: ModelRequest) -> Any:
        is_next = request.messages[-1].text == "and now?"
        return "the next answer" if is_next else next(lines)

    async with house.open(script, **phase.parts) as gateway:
        accepted = await gateway.channel.write("a long question")
        await asyncio.sleep(1.5)
        assert phase.is_reached(), "it never came to that"
        yield gateway, accepted


@pytest.mark.spec("R-06", "DX-25")
@pytest.mark.parametrize("name", PHASES)
@in_virtual_time
async def test_after_a_stop_nothing_more_is_seen_and_it_is_told_once(house: House, name: str) -> None:
    phase = PHASES[name]()
    async with at(house, phase) as (gateway, accepted):
        waiting = await gateway.channel.write("and another one")
        seen = list(gateway.said)
        stop = await gateway.channel.write("/stop")
        await asyncio.sleep(0.99)
        assert gateway.said[: len(seen)] == seen
        (told,) = gateway.said[len(seen) :]
        assert told == "Stopped. 1 waiting message was dropped too."
        phase.release.set()
        for each in (accepted, waiting):
            outcome = await gateway.outcome(each)
            assert (outcome.kind, outcome.reason) == ("stopped", "stopped by the person")
        assert (await gateway.outcome(stop)).kind == "command"
        await asyncio.sleep(200)
        assert gateway.said == [*seen, told]
        assert (await gateway.ask("and now?")).reply == "the next answer"


@pytest.mark.spec("R-06")
@in_virtual_time
async def test_the_rest_of_an_answer_that_is_being_sent_is_not_sent(house: House) -> None:
    async with house.open(LONG, capabilities=Capabilities(max_length=1_000)) as gateway:
        gateway.channel.hold_sends()
        accepted = await gateway.channel.write("a long question")
        assert (await gateway.outcome(accepted)).kind == "answered"
        await gateway.channel.until_tried(1)
        stop = await gateway.channel.write("/stop")
        await gateway.outcome(stop)
        gateway.channel.release_sends()
        await gateway.app.idle()
        first, told = gateway.said
        assert "Paragraph 0" in first
        assert told == "Stopped: the rest of the answer is not sent."
    async with house.open() as gateway:
        await gateway.app.idle()
        assert gateway.said == [], "a restart brings nothing of it back"


@in_virtual_time
async def test_who_waits_for_a_seat_is_stopped_too(house: House) -> None:
    one_seat = PipelineSettings(pools=PoolSettings(main=1))
    async with house.open(reply(delay(50), say("first")), pipeline=one_seat) as gateway:
        first = await gateway.channel.write("1", conversation="a")
        second = await gateway.channel.write("2", conversation="b")
        await asyncio.sleep(1)
        assert (await gateway.outcome(await gateway.channel.write("stop!", conversation="b"))).kind == "command"
        assert (await gateway.outcome(second)).kind == "stopped"
        assert (await gateway.outcome(first)).reply == "first"


@pytest.mark.spec("E-20")
@pytest.mark.parametrize(("text", "words"), [("buy", "it is not known whether"), ("사 줘", "알 수 없습니다")])
@in_virtual_time
async def test_what_may_have_moved_money_is_told_as_unknown(house: House, text: str, words: str) -> None:
    desk = Desk()
    tools = [desk.tool("broker__buy", hang, transactional=True, timeout=9999)]

    async def everybody(*_: object) -> bool:
        return True

    async with house.open(reply(call("broker__buy")), tools=tools, consent=everybody) as gateway:
        accepted = await gateway.channel.write(text)
        await until(lambda: bool(desk.runs))
        told = await gateway.ask("/stop")
        assert told.reply is not None
        assert words in told.reply
        assert "broker buy" in told.reply
        assert (await gateway.outcome(accepted)).kind == "stopped"
        (result,) = [each for message in await gateway.app.messages(accepted.session) for each in message.tool_results]
        assert result.status == "unknown"


@in_virtual_time
async def test_nobody_stops_the_turn_of_another_but_the_owner(house: House) -> None:
    group: dict[str, Any] = {"chat_type": "group", "mentions_us": True, "conversation": "desk"}
    people = [PersonSettings(name="olga", known_as=("memory:local:olga",), roles=("owner",))]
    async with house.open(reply(delay(5), say("for ada")), reply(delay(99), say(NEVER)), people=people) as gateway:
        first = await gateway.channel.write("1", **group)
        await asyncio.sleep(1)
        refused = await gateway.ask("/stop", sender="bob", **group)
        assert refused.reply == "There is nothing to stop here. 1 other message is still waiting."
        assert (await gateway.outcome(first)).reply == "for ada"
        second = await gateway.channel.write("2", **group)
        await asyncio.sleep(1)
        assert (await gateway.ask("/stop", sender="olga", **group)).reply == "Stopped."
        assert (await gateway.outcome(second)).kind == "stopped"


@pytest.mark.spec("DB-03")
@pytest.mark.parametrize(
    ("text", "stops"),
    [
        ("Stop!", True),
        ("  그만해… ", True),
        ("СТОП", True),
        ("зупиніться.", True),
        ("/중지", True),
        ("please stop.", True),
        ("stop loss at 180", False),
        ("Where should I stop?", False),
        ("> stop", False),
        ("`stop`", False),
        ("그만큼 사 줘", False),
    ],
)
@in_virtual_time
async def test_stop_words_are_whole_messages(house: House, text: str, stops: bool) -> None:
    async with house.open(reply(delay(9), say("first")), "an answer") as gateway:
        first = await gateway.channel.write("1")
        await asyncio.sleep(1)
        outcome = await gateway.ask(text)
        assert outcome.kind == ("command" if stops else "answered")
        assert (await gateway.outcome(first)).kind == ("stopped" if stops else "answered")


def test_words_are_as_the_command_stage_compares_them() -> None:
    for each in (*STOP_WORDS, *RESET_WORDS):
        assert each == " ".join(each.casefold().split())
        assert len(each) <= 40
        assert not set(each) & set(".,!?;:~'")
    assert not set(STOP_WORDS) & set(RESET_WORDS)


@in_virtual_time
async def test_a_full_conversation_takes_a_stop(house: House) -> None:
    async with house.open(reply(delay(99), say(NEVER)), pipeline=PipelineSettings(max_waiting=2)) as gateway:
        open_messages = [await gateway.channel.write(str(n)) for n in range(2)]
        assert (await gateway.ask("stop")).reply == "Stopped. 1 waiting message was dropped too."
        assert [(await gateway.outcome(each)).kind for each in open_messages] == ["stopped", "stopped"]


@in_virtual_time
async def test_what_is_written_behind_a_stop_is_answered(house: House) -> None:
    async with house.open(reply(delay(99), say(NEVER)), "the other one") as gateway:
        first = await gateway.channel.write("1")
        stop, behind = await asyncio.gather(gateway.channel.write("/stop"), gateway.channel.write("2"))
        assert (await gateway.outcome(behind)).reply == "the other one"
        assert [(await gateway.outcome(each)).kind for each in (first, stop)] == ["stopped", "command"]
        assert (await gateway.ask("/stop")).reply == "There is nothing to stop here."


@pytest.mark.spec("R-06")
@in_virtual_time
async def test_an_approval_that_waits_is_said_and_nothing_runs(house: House) -> None:
    desk = Desk()
    tools = [desk.tool("broker__buy", transactional=True)]
    async with house.open(reply(call("broker__buy")), tools=tools, consent=None) as gateway:
        assert (await gateway.ask("buy")).kind == "answered"
        (pending,) = await gateway.app.approvals()
        told = (await gateway.ask("/stop")).reply
        assert told is not None
        assert told.startswith("There is nothing to stop here.\nStill waiting for an approval: ")
        assert pending.id in told
        assert desk.runs == []


@pytest.mark.spec("C-13", "P-55")
@in_virtual_time
async def test_a_reset_while_busy_stops_first(house: House) -> None:
    async with house.open(reply(delay(99), say(NEVER)), "fresh") as gateway:
        first = await gateway.channel.write("1")
        second = await gateway.channel.write("2")
        told = (await gateway.ask("start over")).reply
        assert told is not None
        assert told.startswith("Stopped. 1 waiting message was dropped too.\nThe conversation starts anew.")
        assert [(await gateway.outcome(each)).kind for each in (first, second)] == ["stopped", "stopped"]
        assert (await gateway.ask("3")).reply == "fresh"
        assert [message.text for message in gateway.seen if message.role == "user"] == ["3"]
        assert gateway.said == [told, "fresh"]


@pytest.mark.parametrize("point", ["accept:after_commit", "stop:before_commit", "stop:after_commit"])
@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
@in_virtual_time
async def test_a_stop_holds_after_a_crash(house: House, point: str, kind: StoreKind) -> None:
    house.kind = kind
    left = house.state.with_name(f"{house.state.name}-left")
    async with house.open(reply(delay(99), say(NEVER))) as gateway:
        asked = [await gateway.channel.write(text) for text in ("1", "2")]
        await asyncio.sleep(1)
        with crash_at(point, 1, lambda _: shutil.copytree(house.state, left)):
            await gateway.ask("/stop")
    after = House(left, clock=house.clock, kind=kind)
    async with after.open() as gateway:
        await gateway.app.idle()
        assert [(await gateway.outcome(each)).kind for each in asked] == ["stopped", "stopped"]
        assert gateway.provider.requests == []
        assert gateway.said == ["Stopped."]


@pytest.mark.parametrize(
    ("question", "label", "told"),
    [
        ("go", "Stop", "Stopped. 1 other message is still waiting."),
        ("알려 줘", "중단", "중단했습니다. 이 대화의 메시지 1개는 계속 차례를 기다립니다."),
    ],
)
@in_virtual_time
async def test_a_button_under_the_running_answer_stops_it_and_goes(
    house: House, question: str, label: str, told: str
) -> None:
    slowly = reply(say("Seen. "), delay(3), say("Also seen. "), delay(99), say(NEVER))
    async with house.open(slowly, "the next", capabilities=PROFILES["telegram"]) as gateway:
        accepted = await gateway.channel.write(question)
        waiting = await gateway.channel.write(question)
        await asyncio.sleep(5)
        (shown,) = gateway.channel.sent
        (button,) = shown.unit.outbound.actions
        assert button.label == label
        await gateway.ask(button.command, kind="action", target=shown.platform_id, message_id="press")
        assert (await gateway.outcome(accepted)).kind == "stopped"
        assert (await gateway.outcome(waiting)).reply == "the next", "the one that waits is kept"
        stopped, *others = gateway.channel.sent
        assert (stopped.text, stopped.unit.outbound.actions) == ("Seen. Also seen.", ())
        assert sorted(each.text for each in others) == sorted([told, "the next"])


@pytest.mark.spec("P-55")
@pytest.mark.parametrize(("text", "line"), [("hi", "(A new conversation:"), ("안녕하세요", "(새 대화입니다.")])
@in_virtual_time
async def test_who_comes_back_after_a_long_silence_is_told_that_it_is_a_new_conversation(
    house: House, text: str, line: str
) -> None:
    async with house.open("one", "two", sessions=SessionSettings(idle_minutes=60)) as gateway:
        await gateway.ask("1")
        house.clock.jump(timedelta(hours=2))
        await gateway.ask(text)
        assert [message.text for message in gateway.seen] == [text]
        assert gateway.said[0] == "one"
        assert gateway.said[1].startswith(line)
        assert gateway.said[2] == "two"


@pytest.mark.spec("DX-25")
@in_virtual_time
async def test_a_stop_leaves_no_process_of_a_tool_behind(house: House) -> None:
    pids = house.state / "pids"
    slow = reply(call("own__hang", {"file": str(pids)}))
    async with house.open(slow, tools=[dangerous.hang], pipeline=PipelineSettings(timeout_ms=10**9)) as gateway:
        accepted = await gateway.channel.write("go")
        await until(pids.exists)
        assert (await gateway.ask("/stop")).reply == "Stopped."
        assert (await gateway.outcome(accepted)).kind == "stopped"
        numbers = [int(each) for each in pids.read_text().split()]
        await until(lambda: not any(map(alive, numbers)))


# ── answers that wait to be sent ────────────────────────────────────────────────────────────────────────────────


@in_virtual_time
async def test_an_answer_that_a_stop_withdrew_says_so_in_each_outcome(house: House) -> None:
    """Also in that of the message which is called answered where several share a turn."""
    collect = SessionSettings(queue=QueueSettings(mode="collect"))
    async with house.open(reply(delay(5), say("one")), "both", sessions=collect) as gateway:
        gateway.channel.connected = False
        asked = [await gateway.channel.write(text) for text in ("1", "2", "3")]
        outcomes = [await gateway.outcome(each) for each in asked]
        assert [each.kind for each in outcomes] == ["answered", "joined", "answered"]
        assert (await gateway.outcome(await gateway.channel.write("/stop"))).kind == "command"
        reasons = [(await gateway.outcome(each)).reason for each in asked]
        assert all(each.endswith("its answer was withdrawn: stopped by the person") for each in reasons)
        gateway.channel.connected = True
        await gateway.app.idle()
        assert gateway.said == ["Stopped: the rest of the answer is not sent."]


@in_virtual_time
async def test_a_stop_of_the_owner_withdraws_no_finished_answer_of_another(house: House) -> None:
    group: dict[str, Any] = {"chat_type": "group", "mentions_us": True, "conversation": "desk"}
    people = [PersonSettings(name="olga", known_as=("memory:local:olga",), roles=("owner",))]
    async with house.open("for ada", "for olga", people=people) as gateway:
        gateway.channel.connected = False
        await gateway.outcome(await gateway.channel.write("1", **group))
        await gateway.outcome(await gateway.channel.write("2", sender="olga", **group))
        await gateway.outcome(await gateway.channel.write("/stop", sender="olga", **group))
        gateway.channel.connected = True
        await gateway.app.idle()
        assert "for ada" in gateway.said
        assert "for olga" not in gateway.said
