"""What a person's next turn has to know: what they were asked, and what was left out. A kill loses none of it."""

import asyncio
from pathlib import Path
from typing import Any, get_args

import pytest
from tests.walks.deciding import MINA as DECIDER
from tests.walks.deciding import asked, state, wrote
from tests.walks.house import Gateway, House, in_virtual_time
from tests.walks.tools import Desk

from finclaw.kernel.envelope import Capabilities, QueueMode, TurnOptions
from finclaw.kernel.port import ToolScope
from finclaw.kernel.record import Accepted
from finclaw.sessions.settings import DropPolicy, QueueSettings, SessionSettings
from finclaw.testing import call, delay, reply

ASKS = "Which account?\n<<NEED_INPUT>>"
MODES: tuple[QueueMode, ...] = get_args(QueueMode)
PAUSES = Capabilities(debounce_ms=1_000)


@pytest.fixture(params=["sqlite", "jsonl"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> House:
    return House(tmp_path, kind=request.param)


def by(mode: QueueMode, cap: int = 20, drop: DropPolicy = "summarise") -> SessionSettings:
    return SessionSettings(queue=QueueSettings(mode=mode, cap=cap, drop=drop))


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
    return [(each.text, each.unit.outbound.reply_to) for each in gateway.channel.sent]


async def slowly(text: str, scope: ToolScope) -> str:
    await asyncio.sleep(10)
    return f"looked at {text}"


LOOK = reply(call("look", {"text": "AAPL"}, id="c1"))

# ── the answer to a question ────────────────────────────────────────────────────────────────────────────────


@in_virtual_time
async def test_the_answer_to_a_question_has_its_own_turn_next_in_every_mode(house: House) -> None:
    """Two more of the person's own messages were there before the question was: the first runs, the second waits."""
    script = (reply(delay(5), ASKS), reply(delay(20), "first"), "bought", "second", "third")
    async with house.open(*script * len(MODES), sessions=by("queue")) as gateway:
        for mode in MODES:
            del gateway.channel.sent[:]
            asked = await write(gateway, "buy", conversation=mode)
            earlier = [await write(gateway, text, conversation=mode) for text in ("price?", "news?")]
            assert (await gateway.outcome(asked)).kind == "answered"
            await gateway.app.options.keep(asked.session, TurnOptions(queue=mode))
            answer = await write(gateway, "savings", conversation=mode)
            assert [(each.inbound_id, each.state, each.origin) for each in gateway.app.queue(asked.session)] == [
                (earlier[0].id, "running", ""),
                (answer.id, "waiting", "reply"),
                (earlier[1].id, "waiting", "settings"),
            ], mode
            later = await write(gateway, "and then?", conversation=mode, wishes=TurnOptions(queue="queue"))
            assert await kinds(gateway, *earlier, answer, later) == ["answered"] * 4, mode
            shown = [("Which account?", "buy"), ("first", "price?"), ("bought", "savings"), ("second", "news?")]
            assert answers(gateway)[:4] == shown, mode
            stages = (await gateway.outcome(answer)).stages
            assert next(each.reason for each in stages if each.name == "dispatch") == "followup by reply, 2 before it"


@in_virtual_time
async def test_the_answer_waits_for_no_pause(house: House) -> None:
    async with house.open(ASKS, "bought", "welcome", capabilities=PAUSES) as gateway:
        await gateway.ask("buy")
        assert await seconds(gateway, "savings") < 0.5
        assert await seconds(gateway, "thanks") >= 1, "a question has one answer"


async def seconds(gateway: Gateway, text: str, **fields: Any) -> float:
    """How long it takes until a message is answered."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    await gateway.ask(text, **fields)
    return loop.time() - begun


@in_virtual_time
async def test_it_is_the_answer_after_a_kill_too_in_every_mode(house: House) -> None:
    def place(mode: QueueMode, sender: str) -> dict[str, Any]:
        return {**room(sender), "conversation": mode}

    sessions = dict[QueueMode, str]()
    async with house.open(*(ASKS, "for grace") * len(MODES)) as gateway:
        for mode in MODES:
            sessions[mode] = (await write(gateway, f"buy {mode}", **place(mode, "ada"))).session
            await gateway.ask(f"hello {mode}", **place(mode, "grace"))
            await gateway.app.options.keep(sessions[mode], TurnOptions(queue=mode))
        house.troubles["release"] = [RuntimeError("the process is dead")]
    house.troubles.clear()
    script = (reply(delay(20), "first"), "bought") * len(MODES)
    async with house.open(*script, "again", capabilities=PAUSES) as gateway:
        for mode in MODES:
            del gateway.channel.sent[:]
            running = await write(gateway, f"price {mode}", **place(mode, "grace"))
            await asyncio.sleep(2)
            answer = await write(gateway, f"savings {mode}", **place(mode, "ada"))
            (waiting,) = [each for each in gateway.app.queue(sessions[mode]) if each.state == "waiting"]
            assert (waiting.inbound_id, waiting.origin) == (answer.id, "reply"), mode
            assert await kinds(gateway, running, answer) == ["answered", "answered"], mode
            assert answers(gateway) == [("first", f"price {mode}"), ("bought", f"savings {mode}")]
    async with house.open("again", capabilities=PAUSES) as gateway:
        assert await seconds(gateway, "more", **place("collect", "ada")) >= 1, "what was answered is not open any more"


@in_virtual_time
async def test_an_answer_that_a_kill_cut_off_is_answered_once_and_the_next_message_is_none(house: House) -> None:
    async with house.open(ASKS, reply(delay(60), "never"), sessions=by("collect")) as gateway:
        await gateway.ask("buy")
        answer = await write(gateway, "savings")
        house.troubles["release"] = [RuntimeError("the process is dead")]
    house.troubles.clear()
    async with house.open(reply(delay(5), "bought"), "both", sessions=by("collect")) as gateway:
        more = [await write(gateway, text) for text in ("price?", "news?")]
        assert [each.origin for each in gateway.app.queue(answer.session)][1:] == ["settings", "settings"]
        assert await kinds(gateway, answer, *more) == ["answered", "joined", "answered"]


@in_virtual_time
async def test_only_the_person_who_was_asked_answers_and_a_command_is_no_answer(house: House) -> None:
    script = (reply(delay(5), ASKS), reply(delay(20), "one"), "bought", "two")
    async with house.open(*script, sessions=by("queue")) as gateway:
        asked = await write(gateway, "buy", **room("ada"))
        await write(gateway, "price?", **room("grace"))
        await gateway.outcome(asked)
        other = await write(gateway, "savings, I think", **room("grace"))
        await write(gateway, "/whoami", **room("ada"))
        answer = await write(gateway, "savings", **room("ada"))
        origins = {each.inbound_id: each.origin for each in gateway.app.queue(asked.session)}
        assert (origins[other.id], origins[answer.id]) == ("settings", "reply")
        await gateway.app.idle()
        assert [target for _, target in answers(gateway) if target != "/whoami"] == [
            "buy",
            "price?",
            "savings, I think",
            "savings",
        ], "nobody is overtaken by somebody else"


@in_virtual_time
async def test_an_answer_is_never_left_out_of_a_full_line(house: House) -> None:
    script = (reply(delay(5), ASKS), reply(delay(20), "one"), "bought", "two")
    async with house.open(*script, sessions=by("queue", cap=1, drop="old")) as gateway:
        asked = await write(gateway, "buy")
        running = await write(gateway, "price?")
        await gateway.outcome(asked)
        waiting = await write(gateway, "savings")
        others = [await write(gateway, text) for text in ("a", "b")]
        assert await kinds(gateway, running, waiting, *others) == ["answered", "answered", "dropped", "answered"]


@pytest.mark.parametrize("how", ["/reset", "/undo"])
@in_virtual_time
async def test_a_question_is_withdrawn_with_its_turn(house: House, how: str) -> None:
    async with house.open(ASKS, "bought", sessions=by("queue"), capabilities=PAUSES) as gateway:
        await gateway.ask("buy")
        await gateway.ask(how)
        assert await seconds(gateway, "savings") >= 1
    async with house.open("again", sessions=by("queue"), capabilities=PAUSES) as gateway:
        assert await seconds(gateway, "savings?") >= 1


@in_virtual_time
async def test_a_decision_waits_for_nothing_in_every_mode(house: House) -> None:
    async with house.open(*[reply(delay(30), "slow")] * len(MODES), people=[DECIDER], capabilities=PAUSES) as gateway:
        for number, mode in enumerate(MODES):
            running = await gateway.channel.deliver(wrote("question", conversation=mode, message_id=f"q-{mode}"))
            await gateway.app.options.keep(running.session, TurnOptions(queue=mode))
            await asyncio.sleep(2)
            approval = await asked(gateway, wrote("buy", "ada", conversation=mode), call=f"c-{number}")
            begun = asyncio.get_running_loop().time()
            decision = wrote(f"/deny {approval.id}", conversation=mode, message_id=f"d-{mode}")
            assert (await gateway.outcome(await gateway.channel.deliver(decision))).kind == "command", mode
            assert asyncio.get_running_loop().time() - begun < 0.5, mode
            assert await state(gateway, approval) == "denied", mode
            assert gateway.app.queue(running.session)[0].state == "running", "and it stops nobody"
            assert await kinds(gateway, running) == ["answered"]


# ── messages that were left out ─────────────────────────────────────────────────────────────────────────────


def told_of(gateway: Gateway) -> list[str]:
    """What the model was told of them, in every request."""
    found = [each.text for request in gateway.provider.requests for each in request.messages if "left out" in each.text]
    return list(dict.fromkeys(found))


async def leave_out(gateway: Gateway) -> tuple[list[Accepted], list[str]]:
    """Five messages, of which one runs, two wait and two are left out."""
    messages = [await write(gateway, text) for text in ("a", "b is long", "c is longer", "d", "e")]
    return messages, ["- b is long", "- c is longer"]


@pytest.mark.spec("Q-17")
@in_virtual_time
async def test_the_lines_of_what_was_left_out_outlive_a_kill_and_are_told_once(house: House) -> None:
    sessions = by("queue", cap=2)
    async with house.open(reply(delay(60), "never"), sessions=sessions) as gateway:
        messages, lines = await leave_out(gateway)
        house.troubles["release"] = [RuntimeError("the process is dead")]
    house.troubles.clear()
    async with house.open("one", "two", "three", sessions=sessions) as gateway:
        assert await kinds(gateway, *messages) == ["answered", "dropped", "dropped", "answered", "answered"]
        (told,) = told_of(gateway)
        assert told.splitlines()[1:] == lines
    async with house.open("four", sessions=sessions) as gateway:
        await gateway.ask("f")
        assert sum("left out" in each.text for each in gateway.seen) == 1, "in the conversation, and not again"


@pytest.mark.spec("Q-17")
@pytest.mark.parametrize("is_logged", [False, True])
@in_virtual_time
async def test_a_kill_in_the_turn_that_is_told_loses_and_doubles_nothing(house: House, is_logged: bool) -> None:
    sessions, desk = by("queue", cap=2), Desk()
    tools = [desk.tool("look", slowly)]
    script = LOOK if is_logged else reply(delay(60), "never")
    async with house.open(reply(delay(5), "one"), script, sessions=sessions, tools=tools) as gateway:
        messages, lines = await leave_out(gateway)
        await asyncio.sleep(8)
        assert len(told_of(gateway)) == 1
        house.troubles["release"] = [RuntimeError("the process is dead")]
    house.troubles.clear()
    async with house.open("two", "three", sessions=sessions, tools=tools) as gateway:
        assert await kinds(gateway, *messages) == ["answered", "dropped", "dropped", "answered", "answered"]
        (told,) = told_of(gateway)
        assert told.splitlines()[1:] == lines
        assert sum("left out" in each.text for each in gateway.seen) == 1
    async with house.open("four", sessions=sessions) as gateway:
        await gateway.ask("f")
        assert sum("left out" in each.text for each in gateway.seen) == 1


@pytest.mark.parametrize("drop", ["old", "new"])
@in_virtual_time
async def test_nothing_is_kept_where_nobody_wants_a_summary(house: House, drop: DropPolicy) -> None:
    async with house.open(reply(delay(60), "one"), "two", "three", sessions=by("queue", cap=2, drop=drop)) as gateway:
        messages, _ = await leave_out(gateway)
        await kinds(gateway, *messages)
        assert told_of(gateway) == []
    async with house.open("four", sessions=by("queue", cap=2)) as gateway:
        await gateway.ask("f")
        assert told_of(gateway) == []


@in_virtual_time
async def test_a_reset_forgets_what_was_left_out(house: House) -> None:
    sessions = by("queue", cap=2)
    async with house.open(reply(delay(60), "never"), sessions=sessions) as gateway:
        await leave_out(gateway)
        await gateway.ask("/reset")
    async with house.open("new", sessions=sessions) as gateway:
        await gateway.ask("f")
        assert told_of(gateway) == []
