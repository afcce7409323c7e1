"""Extensions register through one page; one that fails is named with its line and leaves nothing behind."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Struct

from finclaw.builtins.basics import BasicCommand
from finclaw.diagnostics.event_stream import EventStream
from finclaw.errors import ExtensionError
from finclaw.extensions.registrar import Registrar
from finclaw.kernel.event import Event, StepStarted, ToolRegistered, ToolUnregistered
from finclaw.kernel.extension import RING_NAMES, ExtensionApi, Finding
from finclaw.kernel.port import CommandReply, Tool, ToolOutput, ToolScope
from finclaw.testing import FakeClock
from finclaw.tools.define import tool


class Extending:
    """An extension that is one function."""

    def __init__(self, register: Callable[[ExtensionApi], None], name: str = "mine") -> None:
        self.name = name
        self._register = register

    def register(self, api: ExtensionApi) -> None:
        self._register(api)


def a_tool(name: str) -> Tool:
    @tool(name, "Does nothing.")
    async def nothing(args: Struct, scope: ToolScope) -> ToolOutput:
        return ToolOutput("")

    return nothing


def a_command(name: str, *aliases: str) -> BasicCommand:
    async def answer(*_: object) -> CommandReply:
        return CommandReply("")

    return BasicCommand(name=name, aliases=aliases, description="", usage="", answer=answer)


async def layer(ctx: Any) -> Any:
    return await ctx.next()


async def nothing(*_: object) -> Any:
    return None


def everything(api: ExtensionApi) -> None:
    for ring in RING_NAMES:
        api.pipeline.register(ring, layer, priority=7)
    api.tools.register(a_tool("one"))
    api.commands.register(a_command("do", "tu"))
    api.prompt.section("Title", "text")
    api.tasks.every(60, nothing)
    api.context.provide("field", nothing, budget=2)
    api.visible.check(lambda _: [])
    api.cli.command("mine", "does", lambda _: 0, lambda _: None)
    api.routes.add("GET", "/a/b", nothing)
    api.doctor.check("looks", lambda: Finding("ok", "fine"))
    api.on_close(nothing)


def contents(registrar: Registrar) -> list[object]:
    layers = [each.name for ring in RING_NAMES for each in registrar.layers(ring)]
    return [
        layers,
        [each.spec.name for each in registrar.tools.list()],
        [each.name for each in registrar.commands],
        [(each.title, each.content) for each in registrar.sections],
        [each.seconds for each in registrar.recurring],
        [each.field for each in registrar.fields],
        [each.extension for each in registrar.checks],
        [each.name for each in registrar.cli],
        [(each.extension, each.method, each.path) for each in registrar.routes],
        [each.name for each in registrar.loaded],
    ]


@pytest.mark.spec("EX-01", "EX-02", "MW-09")
def test_everything_is_kept_in_order() -> None:
    registrar = Registrar(EventStream())
    registrar.load([Extending(everything)])
    assert contents(registrar) == [
        ["mine.layer"] * 5,
        ["one"],
        ["do"],
        [("Title", "text")],
        [60],
        ["field"],
        ["mine"],
        ["mine"],
        [("mine", "GET", "a/b")],
        ["mine"],
    ]
    assert registrar.layers("turn")[0].priority == 7


@pytest.mark.spec("EX-05")
def test_a_logger_is_named_after_its_extension(caplog: pytest.LogCaptureFixture) -> None:
    def register(api: ExtensionApi) -> None:
        api.logger.debug("one")
        api.logger.info("two", extra={"figure": 3})
        api.logger.warning("three")

    with caplog.at_level(logging.DEBUG):
        Registrar(EventStream()).load([Extending(register)])
    assert [(each.name, each.levelname, each.message) for each in caplog.records] == [
        ("finclaw.extension.mine", "DEBUG", "one"),
        ("finclaw.extension.mine", "INFO", "two"),
        ("finclaw.extension.mine", "WARNING", "three"),
    ]


@pytest.mark.spec("MW-08", "MW-07")
def test_layers_stand_in_the_order_of_their_extensions() -> None:
    registrar = Registrar(EventStream())
    names = ["c", "a", "b"]
    registrar.load([Extending(lambda api: api.pipeline.register("turn", layer), name) for name in names])
    assert [each.name for each in registrar.layers("turn")] == ["c.layer", "a.layer", "b.layer"]


@pytest.mark.spec("SP-01")
def test_a_section_keeps_its_priority_and_whether_it_must_be_there() -> None:
    registrar = Registrar(EventStream())
    registrar.load([Extending(lambda api: api.prompt.section("compliance", "words", priority=5, required=True))])
    (section,) = registrar.sections
    assert (section.id, section.priority, section.required, section.from_extension) == (
        "mine:compliance",
        5,
        True,
        True,
    )


# ── all or nothing ──────────────────────────────────────────────────────────────────────────────────────────


def test_one_that_fails_half_way_leaves_nothing_behind() -> None:
    heard: list[Event] = []

    def register(api: ExtensionApi) -> None:
        everything(api)
        api.events.observe(heard.append)
        raise RuntimeError("a bug")

    registrar = Registrar(EventStream())
    before = contents(registrar)
    with pytest.raises(
        ExtensionError, match=r"extension 'mine' \(.*test_registrar.py, line \d+\): RuntimeError: a bug"
    ):
        registrar.load([Extending(register)])
    assert contents(registrar) == before
    registrar.events.emit(StepStarted(step=1))
    assert heard == []


def test_one_that_failed_cannot_register_later() -> None:
    kept: list[ExtensionApi] = []

    def register(api: ExtensionApi) -> None:
        kept.append(api)
        raise RuntimeError("a bug")

    registrar = Registrar(EventStream())
    with pytest.raises(ExtensionError):
        registrar.load([Extending(register)])
    (api,) = kept
    for attempt in (
        lambda: api.tools.register(a_tool("late")),
        lambda: api.events.observe(print),
        lambda: api.pipeline.register("turn", layer),
        lambda: api.commands.register(a_command("late")),
    ):
        with pytest.raises(ExtensionError, match=r"is closed|too late"):
            attempt()
    assert registrar.tools.list() == ()


def test_what_a_failed_one_had_opened_is_closed() -> None:
    closed: list[str] = []

    async def close() -> None:
        closed.append("closed")

    def register(api: ExtensionApi) -> None:
        api.on_close(close)
        raise RuntimeError("a bug")

    async def main() -> None:
        registrar = Registrar(EventStream())
        with pytest.raises(ExtensionError):
            registrar.load([Extending(register)])
        await registrar.close()

    asyncio.run(main())
    assert closed == ["closed"]


def line_of(register: Callable[[ExtensionApi], None], text: str) -> int:
    """Where a text stands in this file, inside a function."""
    with open(__file__, encoding="utf-8") as file:
        lines = file.read().splitlines()
    return next(n for n, line in enumerate(lines, 1) if n > register.__code__.co_firstlineno and text in line)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda api: api.pipeline.register("stage", layer), "there is no ring 'stage'; the rings are message, turn"),
        (lambda api: api.pipeline.register("turn", None), "a function is needed here, not NoneType"),
        (lambda api: api.pipeline.register("turn", layer, priority="high"), "a priority is a whole number"),
        (lambda api: api.prompt.section("a\n## b", "c"), "a section's title is one line"),
        (lambda api: api.prompt.section(" ", "c"), "a section's title is one line"),
        (lambda api: api.prompt.section("a", None), "takes two texts, a title and what stands under it"),
        (lambda api: api.prompt.section("a", "b", priority="high"), "a priority is a whole number, not 'high'; higher"),
        (lambda api: api.tools.register(a_tool("one")), "tool 'one' is already registered"),
        (lambda api: api.commands.register(a_command("x", "DO")), "the command name 'do' is taken by 'first'"),
        (lambda api: api.commands.register(a_command("tu")), "the command name 'tu' is taken by 'first'"),
        (lambda api: api.context.provide("field", nothing), "context field 'field' is provided by 'first' already"),
        (lambda api: api.context.provide("x", nothing, budget=0), "a budget is a number of seconds above 0, not 0"),
        (lambda api: api.tasks.every(0, nothing), "an interval is a number of seconds above 0, not 0"),
        (lambda api: api.tasks.every(-1, nothing), "an interval is a number of seconds above 0, not -1"),
        (lambda api: api.tasks.every(float("nan"), nothing), "an interval is a number of seconds above 0, not nan"),
        (lambda api: api.cli.command("serve", "", nothing, nothing), "`finclaw serve` belongs to FinClaw itself"),
        (lambda api: api.cli.command("mine", "", nothing, nothing), "`finclaw mine` belongs to extension 'first'"),
        (lambda api: api.cli.command("-x", "", nothing, nothing), "'-x' cannot be typed"),
        (lambda api: api.routes.add("PUT", "x", nothing), "a route takes GET or POST, not 'PUT'"),
        (lambda api: api.routes.add("GET", "{x}", nothing), "'{x}' is no path"),
        (lambda api: api.routes.add("GET", "a/../b", nothing), "'a/../b' is no path"),
        (lambda api: [api.routes.add("GET", "x", nothing) for _ in "ab"], "GET x is served already"),
        (lambda api: api.events.observe(print, "no:such"), "there is no event 'no:such'"),
        (lambda api: [api.database([]) for _ in "ab"], "there is no state directory here"),
        (lambda api: api.database("CREATE TABLE a (b)"), "takes a list of SQL texts"),
    ],
)
def test_what_is_wrong_is_refused_on_its_line(wrong: Callable[[Any], object], said: str) -> None:
    def register(api: ExtensionApi) -> None:
        api.tools.register(a_tool("fresh"))
        wrong(api)  # here

    registrar = Registrar(EventStream())
    registrar.load([Extending(everything, "first")])
    before = contents(registrar)
    with pytest.raises(ExtensionError) as caught:
        registrar.load([Extending(register, "second")])
    assert str(caught.value).startswith(f"extension 'second' ({__file__}, line ")
    assert said in str(caught.value)
    assert contents(registrar) == before


def test_the_line_is_the_last_of_its_own_file() -> None:
    def register(api: ExtensionApi) -> None:
        api.prompt.section("a", "b")
        api.pipeline.register("nowhere", layer)  # pyright: ignore  this line

    with pytest.raises(ExtensionError, match=f"line {line_of(register, '# pyright: ignore  this line')}\\)"):
        Registrar(EventStream()).load([Extending(register)])


@pytest.mark.parametrize(
    ("name", "said"),
    [("", "'' is no name"), ("a b", "'a b' is no name"), ("../x", "is no name"), ("FIRST", "of that name already")],
)
def test_a_name_must_be_usable_and_new(name: str, said: str) -> None:
    registrar = Registrar(EventStream())
    registrar.load([Extending(everything, "first")])
    with pytest.raises(ExtensionError, match=said):
        registrar.load([Extending(lambda _: None, name)])


def test_register_must_not_be_async() -> None:
    class Wrong:
        name = "wrong"

        async def register(self, api: ExtensionApi) -> None:
            pass

    with pytest.raises(ExtensionError, match=r"register\(api\) must be a plain function"):
        Registrar(EventStream()).load([Wrong()])  # pyright: ignore[reportArgumentType]


def test_one_that_exits_is_a_failure_and_not_an_exit() -> None:
    def register(_: ExtensionApi) -> None:
        raise SystemExit(3)

    with pytest.raises(ExtensionError, match="SystemExit: 3"):
        Registrar(EventStream()).load([Extending(register)])


def test_only_tools_and_observers_may_come_later() -> None:
    kept: list[ExtensionApi] = []
    registrar = Registrar(EventStream())
    registrar.load([Extending(kept.append)])
    (api,) = kept
    with pytest.raises(ExtensionError, match="registers too late; do this inside register"):
        everything(api)
    assert contents(registrar)[:-1] == contents(Registrar(EventStream()))[:-1]


# ── events ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("E-02", "E-03")
def test_tools_are_told_of_once_when_they_come_and_once_when_they_go() -> None:
    heard: list[Event] = []
    kept: list[ExtensionApi] = []

    def register(api: ExtensionApi) -> None:
        kept.append(api)
        api.tools.register(a_tool("one"))
        api.tools.register(a_tool("two"))
        assert heard == []

    def broken(api: ExtensionApi) -> None:
        api.tools.register(a_tool("never"))
        raise RuntimeError

    async def main() -> None:
        events = EventStream()
        events.observe(heard.append)
        registrar = Registrar(events)
        registrar.load([Extending(register)])
        with pytest.raises(ExtensionError):
            registrar.load([Extending(broken, "broken")])
        kept[0].tools.register(a_tool("late"))
        assert kept[0].tools.unregister("one")
        assert not kept[0].tools.unregister("one")
        await registrar.close()
        await registrar.close()
        assert registrar.tools.list() == ()

    asyncio.run(main())
    names, group = ("one", "two", "late"), a_tool("x").group
    assert heard == [
        *(ToolRegistered(tool=name, group=group, source="mine") for name in names),
        *(ToolUnregistered(tool=name) for name in names),
    ]


def test_nobody_takes_back_another_ones_tool() -> None:
    kept: list[ExtensionApi] = []
    registrar = Registrar(EventStream())
    registrar.load([Extending(everything, "first"), Extending(kept.append, "second")])
    assert not kept[0].tools.unregister("one")
    assert registrar.tools.get("one") is not None


@pytest.mark.spec("EX-04", "E-24")
def test_an_extension_may_watch_and_stop_watching() -> None:
    heard: list[Event] = []
    steps: list[Event] = []
    stops: list[Callable[[], None]] = []

    def register(api: ExtensionApi) -> None:
        stops.append(api.events.observe(heard.append))
        api.events.observe(steps.append, "execution:turn")

    async def main() -> None:
        registrar = Registrar(EventStream())
        registrar.load([Extending(register)])
        registrar.events.emit(StepStarted(step=1))
        stops[0]()
        stops[0]()
        registrar.events.emit(StepStarted(step=2))
        registrar.events.emit(ToolUnregistered(tool="x"))
        await registrar.close()
        registrar.events.emit(StepStarted(step=3))

    asyncio.run(main())
    assert heard == [StepStarted(step=1)]
    assert steps == [StepStarted(step=1), StepStarted(step=2)]


# ── the end ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_closing_goes_backwards_and_past_whoever_fails_or_hangs() -> None:
    closed: list[int] = []

    def closing(number: int) -> Callable[[], Any]:
        async def close() -> None:
            closed.append(number)
            if number == 2:
                raise RuntimeError("broken")
            if number == 3:
                await asyncio.sleep(1e9)
            if number == 4:
                raise asyncio.CancelledError

        return close

    def plain() -> None:
        closed.append(5)

    def register(api: ExtensionApi) -> None:
        for number in (1, 2, 3, 4):
            api.on_close(closing(number))
        api.on_close(plain)  # pyright: ignore[reportArgumentType]

    async def main() -> None:
        registrar = Registrar(EventStream())
        registrar.load([Extending(register), Extending(lambda api: api.on_close(closing(6)), "second")])
        await registrar.close()

    FakeClock().run(main())
    assert closed == [6, 5, 4, 3, 2, 1]


# ── without a gateway ───────────────────────────────────────────────────────────────────────────────────────


def test_what_needs_a_gateway_says_so() -> None:
    kept: list[ExtensionApi] = []
    Registrar(EventStream()).load([Extending(kept.append)])
    (api,) = kept
    for errand in (api.state.get(), api.state.set(1), api.send("main:api:local:direct:main", "hi")):
        with pytest.raises(ExtensionError, match="no gateway runs in this process"):
            asyncio.run(errand)  # pyright: ignore[reportArgumentType]
    assert (api.name, dict(api.settings)) == ("mine", {})
    assert Registrar(EventStream()).layers("no such ring") == ()


# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
