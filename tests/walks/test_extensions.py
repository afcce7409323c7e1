"""Whole messages through a gateway that is extended by files on disk: everything on the one page, in use."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from tests.walks.house import Gateway, House, in_virtual_time, until

import finclaw
from finclaw.agent.settings import AgentSettings, ExtensionRef
from finclaw.errors import ConfigError, ExtensionError, SessionError, Superseded
from finclaw.kernel.event import Event, MessageEnded, PreviewUpdated, ToolRegistered, ToolUnregistered
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.fact import Fact
from finclaw.kernel.port import ToolOutput, ToolScope
from finclaw.kernel.scope import Draft, DraftFinding
from finclaw.testing import MemoryChannel, ScriptedProvider, call, crash_at, reply
from finclaw.testing.provider import Line, Script
from finclaw.tools.define import tool

SESSION = "main:memory:local:direct:u-1"


class Extending:
    """An extension that is one function and keeps its page."""

    def __init__(self, register: Callable[[ExtensionApi], Any], name: str = "mine") -> None:
        self.name = name
        self._register = register

    def register(self, api: ExtensionApi) -> None:
        self.api = api
        self._register(api)


def nothing(_: ExtensionApi) -> None:
    pass


@asynccontextmanager
async def extended(
    house: House,
    *extensions: Extending | Path,
    script: tuple[Line | Script, ...] = (),
    settings: dict[str, Any] | None = None,
    observers: tuple[Callable[[Event], None], ...] = (),
) -> AsyncGenerator[Gateway]:
    channel = MemoryChannel(house.clock)
    provider = ScriptedProvider(*script, clock=house.clock)
    files = tuple(ExtensionRef(str(each), settings or {}) for each in extensions if isinstance(each, Path))
    async with finclaw.build(
        finclaw.Settings(state=house.state / "state", agent=AgentSettings(extensions=files)),
        channels=[channel],
        provider=provider,
        extensions=[each for each in extensions if isinstance(each, Extending)],
        observers=observers,
        clock=house.clock,
        threaded=False,
    ) as app:
        gateway = Gateway(app, channel, provider)
        app.events.observe(gateway.events.append)
        yield gateway


@contextmanager
def caplog_of(name: str) -> Generator[list[str]]:
    """What one logger says meanwhile."""
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())
    logger = logging.getLogger(name)
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield said
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


# ── a file that does a bit of everything ────────────────────────────────────────────────────────────────────

COUNTER = """
from msgspec import Struct
from msgspec.structs import replace
from finclaw.kernel.port import CommandReply, ToolOutput
from finclaw.tools.define import tool

name = "counter"

class Args(Struct):
    by: int = 1

def register(api):
    @tool("counter__count", "Counts.", group="finance")
    async def count(args: Args, scope) -> ToolOutput:
        value = (await api.state.get(scope.session) or 0) + args.by * api.settings["step"]
        await api.state.set(value, scope.session)
        return ToolOutput(f"counted to {value}")

    async def politely(ctx):
        outbound = await ctx.next()
        return replace(outbound, text=outbound.text + api.settings["ending"])

    async def timed(ctx):
        ctx.system += f"\\nIt is {ctx.context.provided['moment']}."
        return await ctx.next()

    async def moment(context):
        return f"{api.clock.now():%H:%M} for {context.sender.id}"

    class Counted:
        name, aliases, description, usage, category, roles = "counted", (), "How far", "/counted", "general", ()
        async def run(self, args, scope):
            return CommandReply(f"so far: {await api.state.get(scope.session)}")

    api.tools.register(count)
    api.commands.register(Counted())
    api.prompt.section("Counting", "You can count.")
    api.pipeline.register("turn", timed)
    api.pipeline.register("delivery", politely)
    api.context.provide("moment", moment)
"""


@pytest.mark.spec("EX-01", "EX-02", "EX-03", "EX-08", "MW-09")
@in_virtual_time
async def test_a_file_in_the_settings_extends_a_whole_message(house: House) -> None:
    file = house.state / "counter.py"
    file.write_text(COUNTER)
    settings = {"step": 5, "ending": " Thank you."}
    script = (reply(finclaw.testing.call("counter__count", {"by": 2})), "Ten.")
    async with extended(house, file, script=script, settings=settings) as gateway:
        assert (await gateway.ask("count")).reply == "Ten. Thank you."
        assert gateway.results[0].content == "counted to 10"
        assert "You can count." in gateway.provider.requests[0].system
        assert "It is 09:00 for ada." in gateway.provider.requests[0].system
    async with extended(house, file, settings=settings) as gateway:  # and it lasts
        assert (await gateway.ask("/counted")).reply == "so far: 10 Thank you."
        assert (await gateway.ask("/counted", conversation="u-2")).reply == "so far: None Thank you."


@pytest.mark.spec("MW-06", "MW-07", "MW-08")
@in_virtual_time
async def test_the_order_of_the_list_is_the_order_of_the_layers(house: House) -> None:
    files: list[Path] = []
    for name in ("zebra", "apple", "mango"):
        files.append(house.state / f"{name}.py")
        files[-1].write_text(
            "from msgspec.structs import replace\n"
            "def register(api):\n"
            "    async def sign(ctx):\n"
            "        outbound = await ctx.next()\n"
            "        return replace(outbound, text=f'{api.name}({outbound.text})')\n"
            "    api.pipeline.register('delivery', sign)\n"
        )
    async with extended(house, *files, script=("x",)) as gateway:
        assert (await gateway.ask("hi")).reply == "zebra(apple(mango(x)))"


@in_virtual_time
async def test_a_gateway_with_a_broken_extension_does_not_start_and_closes_the_others(house: House) -> None:
    closed: list[str] = []

    async def close() -> None:
        closed.append("closed")

    def broken(api: ExtensionApi) -> None:
        api.tasks.every(1, close)
        raise RuntimeError("a bug")

    good, bad = Extending(lambda api: api.on_close(close), "good"), Extending(broken, "bad")
    with pytest.raises(ExtensionError, match=r"extension 'bad' \(.*, line \d+\): RuntimeError: a bug"):
        async with extended(house, good, bad):
            raise AssertionError("it started")
    await asyncio.sleep(10)
    assert closed == ["closed"]
    async with extended(house, Extending(nothing, "good"), script=("hello",)) as gateway:
        assert (await gateway.ask("hi")).reply == "hello"


@pytest.mark.spec("E-02", "E-03")
@in_virtual_time
async def test_observers_from_the_start_see_every_tool_come_and_go_once(house: House) -> None:
    heard: list[Event] = []
    async with extended(house, observers=(heard.append,)):
        come = [event for event in heard if isinstance(event, ToolRegistered)]
        assert {event.source for event in come} >= {"finance"}
        assert len({event.tool for event in come}) == len(come) > 5
    gone = [event.tool for event in heard if isinstance(event, ToolUnregistered)]
    assert sorted(gone) == sorted(event.tool for event in come)


@pytest.mark.spec("P-10", "EX-04", "E-24", "H-06")
@in_virtual_time
async def test_before_and_after_processing_and_sending_each_have_their_place(house: House) -> None:
    file = house.state / "hooks.py"
    file.write_text(
        "from msgspec.structs import replace\n"
        "heard = []\n"
        "def register(api):\n"
        "    async def process(ctx):\n"
        "        ctx.inbound = replace(ctx.inbound, text=ctx.inbound.text.lower())\n"
        "        outcome = await ctx.next()\n"
        "        api.logger.info('ended %s', outcome.kind)\n"
        "        return outcome\n"
        "    async def send(ctx):\n"
        "        outbound = await ctx.next()\n"
        "        return replace(outbound, text=outbound.text + '!')\n"
        "    def sent(event):\n"
        "        if event.state == 'sent': heard.append(event.unit_id)\n"
        "        event.state = 'unsent'\n"
        "    api.pipeline.register('message', process)\n"
        "    api.pipeline.register('delivery', send)\n"
        "    api.events.observe(sent, 'delivery:unit')\n"
        "    async def tell(): api.logger.info('sent %d', len(heard))\n"
        "    api.on_close(tell)\n"
    )
    with caplog_of("finclaw.extension.hooks") as told:
        async with extended(house, file, script=("well",)) as gateway:
            assert (await gateway.ask("HELLO")).reply == "well!"
            assert gateway.seen[-1].text == "hello"
            assert gateway.said == ["well!"]
    assert told == ["ended answered", "sent 1"]


# ── state ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("EX-03")
@in_virtual_time
async def test_state_is_kept_apart_by_extension_and_session(house: House) -> None:
    one, two = Extending(nothing, "one"), Extending(nothing, "two")
    value = {"list": [1, 2.5, None, True], "text": "값"}
    async with extended(house, one, two):
        assert await one.api.state.get() is None
        await one.api.state.set(value)
        await one.api.state.set("theirs", SESSION)
        assert await two.api.state.get() is None
        await one.api.state.set(3, "other")
        await one.api.state.set(None, "other")
        for wrong, said in ((object(), "cannot keep this as JSON"), ("x" * 1_048_577, "keep more in api.database")):
            with pytest.raises(SessionError, match=said):
                await one.api.state.set(wrong)
    async with extended(house, one):
        assert await one.api.state.get() == value
        assert await one.api.state.get(SESSION) == "theirs"
        assert await one.api.state.get("other") is None


@pytest.mark.spec("C-13", "EX-03")
@in_virtual_time
async def test_a_reset_takes_the_sessions_state_along_and_nothing_else(house: House) -> None:
    one = Extending(nothing, "one")
    async with extended(house, one, script=("Hello.",)) as gateway:
        session = (await gateway.channel.write("hi")).session
        for whose in ("", session, "person:u-1"):
            await one.api.state.set("known", whose)
        assert (await gateway.ask("/reset")).kind == "command"
        assert [await one.api.state.get(each) for each in ("", session, "person:u-1")] == ["known", None, "known"]


@in_virtual_time
async def test_a_tool_that_still_runs_at_a_reset_leaves_nothing_behind(house: House) -> None:
    begun, released = asyncio.Event(), asyncio.Event()
    ends: list[str] = []

    def register(api: ExtensionApi) -> None:
        @tool("mine__note", "Notes.", group="agent")
        async def note(args: Struct, scope: ToolScope) -> ToolOutput:
            begun.set()
            while not released.is_set():
                with suppress(asyncio.CancelledError):  # as one that calls something else and cannot be cut short
                    await released.wait()
            try:
                await api.state.set("of what was forgotten", scope.session)
            except Superseded as error:
                ends.append(str(error))
                raise
            return ToolOutput("noted")

        api.tools.register(note)

    mine = Extending(register)
    async with extended(house, mine, script=(reply(call("mine__note")), "never")) as gateway:
        running = await gateway.channel.write("note it")
        await begun.wait()
        assert (await gateway.outcome(await gateway.channel.write("/reset"))).kind == "command"
        released.set()
        assert (await gateway.outcome(running)).kind == "stopped"
        assert await mine.api.state.get(running.session) is None
    assert len(ends) == 1


# ── context ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("M-64")
@in_virtual_time
async def test_a_provider_that_fails_or_is_late_leaves_its_default_or_nothing(house: House) -> None:
    own = {"quick", "patient", "late", "broken", "leaking", "stubborn", "plain", "slow", "unwanted", "wrong"}
    seen: list[Any] = []
    release = asyncio.Event()

    def register(api: ExtensionApi) -> None:
        async def after(seconds: float, value: str) -> str:
            await asyncio.sleep(seconds)
            return value

        async def broken(_: Any) -> None:
            raise RuntimeError("the market is closed")

        async def leaking(_: Any) -> None:
            raise asyncio.CancelledError

        async def stubborn(_: Any) -> None:
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue

        async def look(ctx: Any) -> Any:
            mine = {name: value for name, value in ctx.context.provided.items() if name in own}
            seen.append((mine, api.clock.monotonic()))
            return await ctx.next()

        def wrong(_: Any) -> None:
            raise RuntimeError("no calendar")

        api.context.compute("wrong", wrong, default="closed")
        api.context.provide("slow", lambda _: after(2, "slow"), default=())
        api.context.provide("unwanted", lambda _: after(0, "x"), default=None, when=lambda ctx: ctx.body != "hi")
        api.context.provide("quick", lambda _: after(0.9, "quick"))
        api.context.provide("patient", lambda _: after(2, "patient"), budget=3)
        api.context.provide("late", lambda _: after(1.5, "late"))
        api.context.provide("broken", broken)
        api.context.provide("leaking", leaking)
        api.context.provide("stubborn", stubborn, budget=2.5)
        api.context.provide("plain", lambda _: 7)  # pyright: ignore  not a coroutine
        api.pipeline.register("turn", look)

    async with extended(house, Extending(register), script=("hello",)) as gateway:
        assert (await gateway.ask("hi")).kind == "answered"
        assert seen == [
            ({"quick": "quick", "patient": "patient", "wrong": "closed", "slow": (), "unwanted": None}, 2.5)
        ]
        release.set()


@in_virtual_time
async def test_a_message_that_is_stopped_stops_its_providers(house: House) -> None:
    cancelled: list[str] = []

    def register(api: ExtensionApi) -> None:
        async def slow(_: Any) -> None:
            try:
                await asyncio.sleep(1e6)
            except asyncio.CancelledError:
                cancelled.append("slow")
                raise

        api.context.provide("slow", slow, budget=1e5)

    async with extended(house, Extending(register)) as gateway:
        await gateway.channel.write("hi")
        await asyncio.sleep(1)
    assert cancelled == ["slow"]


# ── what may be seen ────────────────────────────────────────────────────────────────────────────────────────


def no_secrets(draft: Draft) -> list[DraftFinding]:
    at = draft.text.find("sesame")
    return [] if at < 0 else [DraftFinding(at, at + 6, "it names a secret")]


@pytest.mark.parametrize(
    ("asked", "notice"),
    [
        ("the word?", "(A part of this answer was left out: it names a secret)"),
        ("암호는?", "(이 답변의 일부를 표시하지 않았습니다: it names a secret)"),
    ],
)
@in_virtual_time
async def test_a_forbidden_sentence_is_left_out_and_the_rest_is_what_lasts(
    house: House, asked: str, notice: str
) -> None:
    guard = Extending(lambda api: api.visible.check(no_secrets))
    script = (reply("Of course. ", "It is sesame. ", "Use it well. "), "Fine.")
    async with extended(house, guard, script=script) as gateway:
        outcome, rest = await gateway.ask(asked), "Of course. Use it well."
        assert (outcome.kind, outcome.reply) == ("answered", f"{rest}\n\n{notice}")
        assert gateway.said == [outcome.reply]
        previews = [event.text for event in gateway.events if isinstance(event, PreviewUpdated)]
        assert previews == ["Of course."]
        assert not any("sesame" in (each.reply or "") for each in gateway.events if isinstance(each, MessageEnded))
        assert (await gateway.ask("and now?")).reply == "Fine."
        assert [each.text for each in gateway.seen] == [asked, rest, "and now?"]


@in_virtual_time
async def test_a_word_in_two_pieces_is_still_that_word(house: House) -> None:
    def look(draft: Draft) -> list[DraftFinding]:
        at = draft.text.find("one. two")
        return [] if at < 0 else [DraftFinding(at, at + 8, "no")]

    guard = Extending(lambda api: api.visible.check(look))
    async with extended(house, guard, script=(reply("This is one. ", "two. ", "three. "),)) as gateway:
        assert (await gateway.ask("count")).reply == "three.\n\n(A part of this answer was left out: no)"
        assert [event.text for event in gateway.events if isinstance(event, PreviewUpdated)] == ["This is one."]


@pytest.mark.parametrize(
    ("word", "objection", "told"),
    [
        ("x", None, "This answer was withheld: a check of mine failed"),
        ("", None, "This answer was withheld."),
        ("", "never", "This answer was withheld."),
        ("x", "", "This answer was withheld: a check of mine objects"),
        ("x", "two\nlines", "This answer was withheld: two lines"),
    ],
)
@in_virtual_time
async def test_a_check_that_fails_lets_nothing_through(
    house: House, word: str, objection: str | None, told: str
) -> None:
    def check(draft: Draft) -> list[DraftFinding]:
        if word not in draft.text:
            return []
        if objection is None:
            raise RuntimeError("blind")
        return [DraftFinding(0, len(draft.text), objection)]

    async with extended(house, Extending(lambda api: api.visible.check(check)), script=("xyz",)) as gateway:
        assert (await gateway.ask("hi")).reply == told
        assert gateway.said == [told]


@in_virtual_time
async def test_a_check_is_told_what_it_needs_to_judge(house: House) -> None:
    drafts = list[Draft]()

    def look(draft: Draft) -> list[DraftFinding]:
        drafts.append(draft)
        return []

    fact = Fact(
        subject="AAPL", field="price", value=Decimal("218.02"), as_of=datetime(2026, 1, 1, tzinfo=UTC), source="d"
    )

    @tool("mine__quote", "Quotes.", group="finance")
    async def quote() -> ToolOutput:
        return ToolOutput("218.02", facts=(fact,))

    def register(api: ExtensionApi) -> None:
        api.visible.check(look)
        api.tools.register(quote)

    script = (reply(call("mine__quote", {})), reply("It is 218.02. ", "Fine. "), "Bye.")
    async with extended(house, Extending(register), script=script) as gateway:
        await gateway.ask("얼마야?")
        assert [draft.kind for draft in drafts] == ["preview", "preview", "final"]
        assert drafts[-1].text == "It is 218.02. Fine."
        assert {(draft.question, draft.language) for draft in drafts} == {("얼마야?", "ko")}
        assert all([each.value for each in draft.facts] == [Decimal("218.02")] for draft in drafts)
        drafts.clear()
        await gateway.ask("/help")
        assert [draft.kind for draft in drafts] == ["command"]
        await gateway.ask("and now?")
        assert [each.text for each in drafts[-1].context if each.role == "user"] == ["얼마야?", "and now?"]


@in_virtual_time
async def test_notices_and_what_is_sent_pass_the_same_check(house: House) -> None:
    guard = Extending(lambda api: api.visible.check(no_secrets))
    speaker = Extending(nothing, "speaker")

    def failing(api: ExtensionApi) -> None:
        async def broken(ctx: Any) -> Any:
            raise RuntimeError("no delivery")

        api.pipeline.register("delivery", broken)

    async with extended(house, guard, speaker, Extending(failing, "failing")) as gateway:
        await speaker.api.send(SESSION, "open sesame")
        await gateway.app.idle()
        assert gateway.said == ["This answer was withheld: it names a secret"]


# ── saying something ────────────────────────────────────────────────────────────────────────────────────────


@in_virtual_time
async def test_words_are_said_once_in_their_turn(house: House) -> None:
    speaker = Extending(nothing)
    async with extended(house, speaker, script=(reply(finclaw.testing.delay(5), "slow"), "later")) as gateway:
        asked = await gateway.channel.write("hi")
        await asyncio.sleep(1)
        said = await speaker.api.send(asked.session, "by the way", key="k-1")
        again = await speaker.api.send(asked.session, "by the way, in other words", key="k-1")
        assert said == again
        record = await gateway.app.wait(said, float("inf"))
        await gateway.app.idle()
        assert gateway.said == ["slow", "by the way"]
        assert record is not None
        assert record.outcome is not None
        assert (record.outcome.kind, record.outcome.reason) == ("command", "said by mine")
        assert gateway.channel.sent[-1].unit.outbound.kind == "notice"
        assert gateway.channel.sent[-1].unit.outbound.reply_to is None
        assert len(gateway.provider.requests) == 1
    async with extended(house, speaker, script=("x",)) as gateway:
        assert await speaker.api.send(asked.session, "by the way", key="k-1") == said
        assert await speaker.api.send(asked.session, "by the way") != said
        await gateway.app.idle()
        assert gateway.said == ["by the way"]


@in_virtual_time
async def test_one_key_in_two_threads_is_said_in_both(house: House) -> None:
    speaker = Extending(nothing)
    async with extended(house, speaker) as gateway:
        for session in (SESSION, SESSION + ":7", "main:memory:local:group:u-1", "main:memory:local:direct:u-1+u-2"):
            await speaker.api.send(session, session, key="k")
        await gateway.app.idle()
        assert len(gateway.said) == 4
        assert gateway.channel.sent[1].unit.outbound.thread == "7"


@in_virtual_time
async def test_what_was_accepted_is_said_after_a_crash_however_late(house: House) -> None:
    speaker = Extending(nothing)
    async with extended(house, speaker) as gateway:
        with crash_at("pipeline:started"):
            await speaker.api.send(SESSION, "important", key="k")
            await gateway.app.idle()
        assert gateway.said == []
    house.clock.jump(timedelta(days=2))
    async with extended(house, speaker) as gateway:
        await gateway.app.idle()
        assert gateway.said == ["important"]
        await speaker.api.send(SESSION, "important", key="k")
        await gateway.app.idle()
        assert gateway.said == ["important"]


@pytest.mark.parametrize(
    "session", ["", "main", "main:memory:bot:secret:u-1", "main:memory:bot:direct:u 1", "a:b:c:d:e"]
)
@in_virtual_time
async def test_what_is_no_session_is_refused_with_an_example(house: House, session: str) -> None:
    speaker = Extending(nothing)
    async with extended(house, speaker):
        with pytest.raises(
            ExtensionError, match=r"is no session; a key looks like agent:channel:account:chat-type:peer"
        ):
            await speaker.api.send(session, "hi")
        for text, size in ((" \n", "nothing"), ("x" * 100_001, "100001 characters")):
            with pytest.raises(ExtensionError, match=f"api.send was given {size} to say"):
                await speaker.api.send(SESSION, text)


@in_virtual_time
async def test_a_layer_around_delivery_sees_what_is_said(house: House) -> None:
    def register(api: ExtensionApi) -> None:
        async def shout(ctx: Any) -> Any:
            outbound = await ctx.next()
            return finclaw.Outbound(text=outbound.text.upper(), kind=outbound.kind)

        api.pipeline.register("delivery", shout)

    speaker = Extending(register)
    async with extended(house, speaker) as gateway:
        await speaker.api.send(SESSION, "hello")
        await gateway.app.idle()
        assert gateway.said == ["HELLO"]


@pytest.mark.parametrize("trouble", ["hangs", "leaks", "fails"])
@in_virtual_time
async def test_a_layer_that_does_not_come_back_cannot_keep_words_from_being_said(house: House, trouble: str) -> None:
    def register(api: ExtensionApi) -> None:
        async def troubled(ctx: Any) -> Any:
            if trouble == "hangs":
                await asyncio.sleep(1e9)
            raise asyncio.CancelledError if trouble == "leaks" else RuntimeError("broken")

        api.pipeline.register("delivery", troubled)

    speaker = Extending(register)
    async with extended(house, speaker) as gateway:
        await speaker.api.send(SESSION, "hello")
        assert (await gateway.ask("/whoami", conversation="u-1", sender="u-1")).kind == "command"
        assert gateway.said[0] == "hello"
        assert len(gateway.said) == 2
        assert house.clock.monotonic() <= 60


# ── again and again ─────────────────────────────────────────────────────────────────────────────────────────


@in_virtual_time
async def test_a_task_runs_again_and_again_never_beside_itself(house: House) -> None:
    log: list[tuple[str, float]] = []

    def register(api: ExtensionApi) -> None:
        async def work() -> None:
            log.append(("begin", api.clock.monotonic()))
            try:
                await api.clock.sleep(25)
            except asyncio.CancelledError:
                log.append(("cancelled", api.clock.monotonic()))
                raise
            log.append(("end", api.clock.monotonic()))
            if len(log) == 2:
                raise RuntimeError("try again")
            if len(log) == 4:
                raise asyncio.CancelledError

        api.tasks.every(10, work)

    async with extended(house, Extending(register)):
        assert log == []
        await asyncio.sleep(120)
    times = [(what, round(at)) for what, at in log]
    assert [at for what, at in times if what == "begin"] == [10, 45, 80, 115]
    assert [at for what, at in times if what == "end"] == [35, 70, 105]
    assert times[-1] == ("cancelled", 120)


@in_virtual_time
async def test_a_task_may_say_something(house: House) -> None:
    def register(api: ExtensionApi) -> None:
        async def remind() -> None:
            count = (await api.state.get() or 0) + 1
            await api.send(SESSION, f"reminder {count}", key=str(count))
            await api.state.set(count)

        api.tasks.every(3600, remind)

    async with extended(house, Extending(register)) as gateway:
        await asyncio.sleep(3 * 3601)
        await gateway.app.idle()
        assert gateway.said == ["reminder 1", "reminder 2", "reminder 3"]


@in_virtual_time
async def test_a_task_that_will_not_stop_does_not_hold_up_the_stop(house: House) -> None:
    release = asyncio.Event()

    def register(api: ExtensionApi) -> None:
        async def stubborn() -> None:
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue

        api.tasks.every(1, stubborn)

    async with extended(house, Extending(register)):
        await asyncio.sleep(2)
        stopping = house.clock.monotonic()
    assert house.clock.monotonic() - stopping < 10
    release.set()
    await until(lambda: not any(task.get_name() == "recurring" for task in asyncio.all_tasks()))


# ── a database of one's own ─────────────────────────────────────────────────────────────────────────────────


@in_virtual_time
async def test_there_is_one_database_each(house: House) -> None:
    greedy = Extending(lambda api: [api.database([]) for _ in "ab"])
    with pytest.raises(ExtensionError, match=r"api.database was called twice; an extension has one"):
        async with extended(house, greedy):
            raise AssertionError("it started")


@in_virtual_time
async def test_a_database_of_ones_own_lasts_and_grows(house: House) -> None:
    databases: list[Any] = []
    first = Extending(lambda api: databases.append(api.database(["CREATE TABLE note (text TEXT)"])))
    async with extended(house, first):
        assert not (house.state / "state" / "extensions").exists()
        await databases[-1].execute("INSERT INTO note VALUES (?)", "one")
    both = ["CREATE TABLE note (text TEXT)", "ALTER TABLE note ADD COLUMN at INTEGER DEFAULT 7"]
    second = Extending(lambda api: databases.append(api.database(both)))
    async with extended(house, second):
        assert await databases[-1].execute("SELECT * FROM note") == [("one", 7)]
    with pytest.raises(SessionError, match="is closed"):
        await databases[-1].execute("SELECT 1")
    async with extended(house, first):
        with pytest.raises(ConfigError, match="written by a newer version of extension 'mine'"):
            await databases[-1].execute("SELECT 1")
