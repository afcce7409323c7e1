"""The queue modes: what a message does while another of its session is being answered, and who has chosen that."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.walks.house import Gateway, House, Parts, in_virtual_time
from tests.walks.tools import Desk

import finclaw
from finclaw.agent.settings import AgentSettings
from finclaw.channels.settings import ChannelSettings
from finclaw.cli.commands.replay import replay
from finclaw.cli.commands.trace import trace_of, tree_lines
from finclaw.config.schema import Settings
from finclaw.kernel.context import Context
from finclaw.kernel.envelope import QueueMode, TurnOptions
from finclaw.kernel.event import QueueChanged
from finclaw.kernel.port import ToolScope
from finclaw.kernel.record import Accepted, TurnTrace
from finclaw.kernel.scope import TurnContext, TurnResult
from finclaw.sessions.settings import DropPolicy, QueueSettings, SessionSettings
from finclaw.sessions.waiting import LONGEST_LINE
from finclaw.testing import MemoryChannel, call, delay, reply
from finclaw.web.live import LiveStream
from finclaw.web.principal import CHANNEL as WEB
from finclaw.web.principal import OWNER, MessageBody, inbound

LOOK = reply(call("look", {"text": "AAPL"}, id="c1"))


@pytest.fixture(params=["sqlite", "jsonl"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> House:
    return House(tmp_path, kind=request.param)


@pytest.fixture
def one_house(tmp_path: Path) -> House:
    return House(tmp_path)


def by(mode: QueueMode, cap: int = 20, drop: DropPolicy = "summarise") -> SessionSettings:
    return SessionSettings(queue=QueueSettings(mode=mode, cap=cap, drop=drop))


async def slowly(text: str, scope: ToolScope) -> str:
    await asyncio.sleep(10)
    return f"looked at {text}"


def room(sender: str = "local") -> dict[str, Any]:
    return {"chat_type": "group", "conversation": "room", "mentions_us": True, "sender": sender}


async def write(gateway: Gateway, text: str, **fields: Any) -> Accepted:
    accepted = await gateway.channel.write(text, message_id=text, **fields)
    await asyncio.sleep(0.1)
    return accepted


async def kinds(gateway: Gateway, *messages: Accepted) -> list[str]:
    found = [(await gateway.outcome(each)).kind for each in messages]
    await gateway.app.idle()
    return found


def answers(gateway: Gateway) -> list[tuple[str, str | None]]:
    """What people could read, and with which message it is shown."""
    return [(each.text, each.unit.outbound.reply_to) for each in gateway.channel.sent]


class Contexts:
    """A turn layer that notes the contexts it sees."""

    def __init__(self) -> None:
        self.seen: list[Context] = []

    async def __call__(self, ctx: TurnContext) -> TurnResult:
        self.seen.append(ctx.context)
        return await ctx.next()


# ── each mode ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("Q-01", "Q-05", "M-46", "Q-16")
def test_collect_answers_all_that_waited_in_one_turn_and_names_the_last(house: House) -> None:
    contexts, stories = Contexts(), list[TurnTrace]()

    async def walk() -> None:
        async with house.open(
            reply(delay(5), "one"), "all", sessions=by("collect"), layers=[("turn", contexts)]
        ) as gateway:
            running, *waiting = [await write(gateway, text) for text in ("a", "b", "c", "d")]
            assert await kinds(gateway, running, *waiting) == ["answered", "joined", "joined", "answered"]
            assert answers(gateway) == [("one", "a"), ("all", "d")]
            assert [each.text for each in gateway.seen] == ["a", "one", "b", "c", "d"]
            outcomes = [await gateway.outcome(each) for each in waiting]
            assert len({each.turn_id for each in outcomes}) == 1
            assert [each.reply for each in outcomes[1:]] == [None, "all"]
            assert all(waiting[-1].id in each.reason for each in outcomes[:2]), "which answer has covered it"
            assert contexts.seen[1].admission.joined == tuple(each.id for each in waiting[1:])
            story = await gateway.app.turn(waiting[1].id)
            stories.extend([] if story is None else [story])

    house.clock.run(walk())
    (story,) = stories
    assert [each.inbound.text for each in story.joined] == ["c", "d"]
    settings = Settings(state=house.state, agent=AgentSettings(default_extensions=()))
    assert replay(settings, story, [Parts()]) == []


@pytest.mark.spec("Q-05")
@pytest.mark.parametrize("good_order", [True, False])
@in_virtual_time
async def test_a_collected_turn_that_a_restart_cut_off_is_answered_once(house: House, good_order: bool) -> None:
    desk = Desk()
    tools = [desk.tool("look", slowly)]
    async with house.open(reply(delay(5), "one"), LOOK, sessions=by("collect"), tools=tools) as gateway:
        messages = [await write(gateway, text) for text in ("a", "b", "c", "d")]
        await asyncio.sleep(8)
        if not good_order:
            house.troubles["release"] = [RuntimeError("the process is dead")]
    house.troubles.clear()
    async with house.open("all", sessions=by("collect"), tools=tools) as gateway:
        assert await kinds(gateway, *messages) == ["answered", "joined", "joined", "answered"]
        assert answers(gateway) == [("all", "d")]


@pytest.mark.spec("Q-06", "M-45", "Q-16")
@in_virtual_time
async def test_interrupt_stops_the_running_turn_says_so_and_comes_first(house: House) -> None:
    contexts = Contexts()
    async with house.open(
        reply(delay(60), "late"), "new", "then this", sessions=by("interrupt"), layers=[("turn", contexts)]
    ) as gateway:
        running = await write(gateway, "a")
        waiting = await write(gateway, "b", wishes=TurnOptions(queue="followup"))
        newest = await write(gateway, "c")
        assert await kinds(gateway, running, waiting, newest) == ["stopped", "answered", "answered"]
        assert gateway.said == ["Stopped: your newer message comes first.", "new", "then this"]
        assert newest.id in (await gateway.outcome(running)).reason
        assert [bool(each.admission.interrupted) for each in contexts.seen] == [False, True, False]
        assert [each.text for each in await gateway.app.messages(running.session) if each.role == "user"] == [
            "a",
            "c",
            "b",
        ]


@pytest.mark.spec("Q-06")
@in_virtual_time
async def test_of_many_that_interrupt_the_newest_is_answered_and_all_are_in_the_conversation(house: House) -> None:
    async with house.open(reply(delay(60), "late"), "new", sessions=by("interrupt")) as gateway:
        first = await write(gateway, "a")
        messages = [first, *await asyncio.gather(*[gateway.channel.write(text, message_id=text) for text in "bcde"])]
        assert await kinds(gateway, *messages) == ["stopped"] * 4 + ["answered"]
        assert gateway.said[-1] == "new"
        assert len(gateway.said) == 2, "told once"
        texts = [each.text for each in await gateway.app.messages(messages[0].session) if each.role == "user"]
        assert texts == list("abcde")


@pytest.mark.spec("Q-07", "Q-16")
@in_virtual_time
async def test_steer_backlog_takes_along_what_waits_before_it(house: House) -> None:
    desk = Desk()
    tools = [desk.tool("look", slowly)]
    async with house.open(LOOK, "all", "never", sessions=by("queue"), tools=tools) as gateway:
        running, one, two = [await write(gateway, text) for text in ("a", "b", "c")]
        last = await write(gateway, "d", wishes=TurnOptions(queue="steer-backlog"))
        assert await kinds(gateway, running, one, two, last) == ["answered", "joined", "joined", "joined"]
        assert gateway.said == ["all"]
        assert [each.text for each in gateway.seen][-3:] == ["b", "c", "d"]


@pytest.mark.spec("Q-03", "Q-04", "Q-16", "M-44")
@pytest.mark.parametrize("mode", ["queue", "followup"])
def test_who_waits_in_line_has_a_turn_of_their_own_in_order(one_house: House, mode: QueueMode) -> None:
    contexts = Contexts()

    async def walk() -> None:
        slow = reply(delay(5), "one")
        async with one_house.open(slow, "x", "two", "three", sessions=by(mode), layers=[("turn", contexts)]) as gateway:
            messages = [await write(gateway, text) for text in "abc"]
            await write(gateway, "elsewhere", conversation="other", sender="grace")
            assert await kinds(gateway, *messages) == ["answered"] * 3
            assert [each.admission.position for each in contexts.seen if each.inbound.text in "abc"] == [0, 1, 2]
            stages = (await gateway.outcome(messages[2])).stages
            assert next(each.reason for each in stages if each.name == "dispatch") == f"{mode} by settings, 2 before it"

    one_house.clock.run(walk())


# ── who chooses ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("M-43", "M-47", "M-48", "DX-16b", "DX-18", "Q-11", "Q-12", "Q-18")
def test_the_context_tells_the_mode_who_chose_it_and_when_it_was_admitted(one_house: House) -> None:
    contexts = Contexts()

    async def walk() -> None:
        async with one_house.open(
            *[reply(delay(5), str(each)) for each in range(8)],
            sessions=SessionSettings(),
            layers=[("turn", contexts)],
            channel_settings=ChannelSettings(kind="mailbox"),
        ) as gateway:
            first = await write(gateway, "a")
            await write(gateway, "in a room", **room())
            await write(gateway, "later", **room())
            await write(gateway, "b", wishes=TurnOptions(queue="collect"))
            await gateway.app.idle()
            await gateway.app.options.keep(first.session, TurnOptions(queue="queue"))
            await write(gateway, "c")
            await gateway.app.idle()
            seen = {each.inbound.text: each for each in contexts.seen}
            said = {text: (each.admission.mode, each.admission.origin) for text, each in seen.items()}
            assert said == {
                "a": ("steer", "auto"),
                "in a room": ("steer", "auto"),
                "later": ("queue", "auto"),
                "b": ("collect", "message"),
                "c": ("queue", "session"),
            }
            assert [seen[text].admission.running for text in ("a", "in a room")] == [1, 2]
            admitted = seen["b"].admission.dispatched_at
            assert admitted is not None
            assert admitted.utcoffset() is not None
            assert (admitted - seen["b"].accepted_at).total_seconds() == pytest.approx(4.7, abs=0.2)

    one_house.clock.run(walk())


@pytest.mark.spec("Q-02", "Q-11", "DX-17", "Q-19")
@in_virtual_time
async def test_by_default_a_person_steers_their_own_answer_in_a_direct_chat(house: House) -> None:
    desk = Desk()
    async with house.open(LOOK, "both", tools=[desk.tool("look", slowly)], sessions=SessionSettings()) as gateway:
        messages = [await write(gateway, text) for text in ("AAPL?", "in won")]
        assert await kinds(gateway, *messages) == ["answered", "joined"]
        changes = [(each.change, each.other) for each in gateway.events if isinstance(each, QueueChanged)]
        assert changes == [("waiting", ""), ("joined", messages[0].id)]


@pytest.mark.parametrize("mode", ["steer", "collect", "interrupt", "steer-backlog"])
def test_nothing_is_merged_with_or_stopped_by_another_person(one_house: House, mode: QueueMode) -> None:
    desk = Desk()
    tools = [desk.tool("look", slowly)]
    own_end = "stopped" if mode == "interrupt" else "answered"  # by a later message of the same person

    async def walk() -> None:
        async with one_house.open(LOOK, "1", "2", "3", "4", tools=tools, sessions=by(mode)) as gateway:
            people = ("ada", "grace", "ada", "grace")
            messages = [await write(gateway, f"{name} {n}", **room(name)) for n, name in enumerate(people)]
            assert await kinds(gateway, *messages) == [own_end, *["answered"] * 3]
            assert len(gateway.said) == 4

    one_house.clock.run(walk())


@pytest.mark.spec("DX-16b", "M-45", "M-47")
@in_virtual_time
async def test_the_trace_tells_of_the_turn_that_was_stopped_and_of_the_load(house: House) -> None:
    """What the context knows of the moment is where whoever asks why an answer came late looks for it."""
    script = (reply(delay(60), "late"), reply(delay(60), "elsewhere"), "new")
    async with house.open(*script, sessions=by("interrupt")) as gateway:
        stopped = await write(gateway, "a")
        await write(gateway, "b", conversation="other")
        newest = await write(gateway, "c")
        stages = (await gateway.outcome(newest)).stages
        told = f"interrupt by settings, 1 before it, stopped the turn of {stopped.id}, 2 turns running"
        assert next(each.reason for each in stages if each.name == "dispatch") == told


# ── a line that is full ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("Q-15", "Q-17", "DX-19")
@pytest.mark.parametrize(
    ("drop", "expected"),
    [
        ("old", ["answered", "dropped", "dropped", "answered", "answered"]),
        ("summarise", ["answered", "dropped", "dropped", "answered", "answered"]),
        ("new", ["answered", "answered", "answered", "dropped", "dropped"]),
    ],
)
def test_a_full_line_leaves_out_and_says_so_once(one_house: House, drop: DropPolicy, expected: list[str]) -> None:
    async def walk() -> None:
        script = (reply(delay(60), "one"), "two", "three")
        async with one_house.open(*script, sessions=by("queue", cap=2, drop=drop)) as gateway:
            running = await write(gateway, "a")
            others = [await write(gateway, f"{name}{' x' * 200}") for name in "bcde"]
            assert await kinds(gateway, running, *others) == expected
            notices = [each for each in gateway.said if "leave some of it out" in each]
            assert len(notices) == 1
            kept = [each.text for each in gateway.provider.requests[1].messages if "left out" in each.text]
            assert bool(kept) == (drop == "summarise")
            if kept:
                lines = kept[0].splitlines()[1:]
                assert [line[:3] for line in lines] == ["- b", "- c"]
                assert all(len(line) <= LONGEST_LINE + 2 for line in lines)

    one_house.clock.run(walk())


@pytest.mark.spec("Q-17")
def test_who_floods_a_room_pushes_nobody_else_out(one_house: House) -> None:
    async def walk() -> None:
        slow = [reply(delay(30), str(each)) for each in range(9)]
        async with one_house.open(*slow, sessions=by("queue", cap=3)) as gateway:
            await write(gateway, "first", **room("ada"))
            quiet = await write(gateway, "mine", **room("grace"))
            for number in range(10):
                await write(gateway, f"flood {number}", **room("ada"))
            late = await write(gateway, "and this", **room("linus"))
            assert await kinds(gateway, quiet, late) == ["answered", "answered"]

    one_house.clock.run(walk())


# ── seen from outside ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("Q-15")
def test_a_line_is_counted_listed_taken_from_and_cleared(one_house: House) -> None:
    async def walk() -> None:
        async with one_house.open(reply(delay(60), "one"), "two", sessions=by("queue")) as gateway:
            app = gateway.app
            running, *waiting = [await write(gateway, text) for text in "abcd"]
            session = running.session
            listed = [(each.inbound_id, each.state, each.mode) for each in app.queue(session)]
            assert listed == [(running.id, "running", None), *[(each.id, "waiting", "queue") for each in waiting]]
            assert app.stop_message(waiting[0].id)
            await asyncio.sleep(1)
            assert len(app.queue(session)) == 3
            assert app.clear_queue(session) == 2
            assert await kinds(gateway, running, *waiting) == ["answered", *["stopped"] * 3]
            assert app.queue(session) == []

    one_house.clock.run(walk())


def test_the_live_stream_and_the_trace_tell_of_a_joined_message(one_house: House) -> None:
    desk = Desk()
    live, told = LiveStream(), list[dict[str, Any]]()

    async def walk() -> None:
        channel = MemoryChannel(one_house.clock, name=WEB)
        script, tools = (LOOK, "both"), [desk.tool("look", slowly)]
        async with one_house.open(*script, tools=tools, channel=channel, sessions=SessionSettings()) as gateway:
            gateway.app.events.observe(live.observe)
            body = MessageBody(message_id="m-1", text="AAPL?")
            later = MessageBody(message_id="m-2", text="in won", mode="steer")
            first, second = [await channel.deliver(inbound(OWNER, each)) for each in (body, later)]
            assert await kinds(gateway, first, second) == ["answered", "joined"]
            async for event in live.follow(OWNER.name, None, live.beginning):
                told.extend([event.data] if event.type == "queue" else [])
                if event.type == "outcome":
                    break
            assert [(each["inbound_id"], each["change"], each["joined_to"]) for each in told] == [
                (second.id, "waiting", ""),
                (second.id, "joined", first.id),
            ]
            story = await gateway.app.turn(second.id)
            assert story is not None
            lines = list(tree_lines(trace_of(story)))
            assert any("joined" in line and second.id in line and "in won" in line for line in lines)

    one_house.clock.run(walk())


async def test_the_offline_assistant_answers_each_question_of_several_at_once(tmp_path: Path) -> None:
    """It reads one question at a time: joined ones would be lost."""
    async with finclaw.build(Settings(state=tmp_path), threaded=False) as app:
        asked = [
            await app.accept(finclaw.Inbound(text=text, message_id=text))
            for text in ("AAPL price?", "삼성전자 주가", "MSFT price?")
        ]
        found = [await app.wait(each.id, 60) for each in asked]
    outcomes = [each.outcome for each in found if each is not None and each.outcome is not None]
    assert [each.kind for each in outcomes] == ["answered"] * 3
    for outcome, name in zip(outcomes, ("AAPL", "005930", "MSFT"), strict=True):
        assert name in (outcome.reply or "")
