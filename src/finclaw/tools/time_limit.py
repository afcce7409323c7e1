"""One run of a tool: its time limit, what it may raise, and what it returned as a ToolOutput.

When the time is over its task is cancelled, and abandoned if it ignores that. An exit or a fork stays with the tool."""

import asyncio
import logging
import os
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar, cast

from finclaw.cancellation import until_done
from finclaw.errors import ToolAwaiting, ToolError, ToolTimeout
from finclaw.kernel.envelope import ActionButton, NewFile
from finclaw.kernel.fact import Fact
from finclaw.kernel.port import Tool, ToolOutput, ToolScope
from finclaw.tools.result_guard import as_text

log = logging.getLogger(__name__)

FORKED: Final = 70  # the exit code of a child that a tool forked and forgot
GRACE: Final = 2.0  # seconds to clean up before a tool is left behind
STOP_GRACE: Final = 0.5  # seconds when the turn is stopped: a person waits

_left_behind: Final[set["asyncio.Future[ToolOutput]"]] = set()
"""They have no other owner any more, and the loop alone does not keep a task alive."""


class CutOff(ToolError):
    """The tool was cancelled, and not by us."""

    code = "cut_off"


async def run_with_limit(tool: Tool, args: Mapping[str, Any], scope: ToolScope) -> ToolOutput:
    """What the tool gives, or an Exception, whatever it raised. Nobody hears of what it does after that."""
    running = asyncio.ensure_future(_run_contained(tool, args, scope))
    try:
        done = await until_done(running, tool.timeout)
    except asyncio.CancelledError:
        await _abandon(running, tool, STOP_GRACE)
        raise
    if running.cancelled():  # from inside: nobody has asked it to stop
        raise CutOff(f"{tool.spec.name} was cancelled by something it uses and gave no result")
    if not done:
        await _abandon(running, tool, GRACE)
        raise ToolTimeout(
            f"{tool.spec.name} took longer than {tool.timeout:g} s and was stopped; try something smaller"
        )
    if isinstance(error := running.exception(), ToolAwaiting):  # it cannot know: we ask people, before it begins
        raise ToolError(str(error), suggestion=error.suggestion)
    if error is not None:
        raise as_exception(error)
    return running.result()


async def _run_contained(tool: Tool, args: Mapping[str, Any], scope: ToolScope) -> ToolOutput:
    with in_this_process():
        try:
            return as_output(await tool.run(args, scope))
        except (SystemExit, KeyboardInterrupt) as error:  # in a task these two end the loop, and all of us with it
            raise Broken(type(error).__name__) from error


async def _abandon(running: "asyncio.Future[ToolOutput]", tool: Tool, grace: float) -> None:
    running.cancel()
    running.add_done_callback(look_away)
    _left_behind.add(running)
    running.add_done_callback(_left_behind.discard)
    if not await until_done(running, grace):
        log.error("tool %s ignored its cancellation and was left behind", tool.spec.name)


def look_away(running: "asyncio.Future[Any]") -> None:
    """Retrieve the exception, so that asyncio does not report it."""
    if not running.cancelled():
        running.exception()


class Broken(Exception):
    """A tool ended with something that would end more than the tool, such as SystemExit; `kind` is its name."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"it ended with {kind}")
        self.kind = kind


def as_exception(error: BaseException) -> Exception:
    """The same, for code that can only bear exceptions. StopIteration is none: coroutines and futures choke on it."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return Broken(type(error).__name__)


@contextmanager
def in_this_process() -> Generator[None]:
    """What comes out of the block in a forked child goes no further."""
    home = os.getpid()
    try:
        yield
    finally:
        if os.getpid() != home:
            os._exit(FORKED)


T = TypeVar("T")


def as_output(value: object) -> ToolOutput:
    """Text as it is, anything else as JSON. Facts come only with a ToolOutput: a number alone has no provenance."""
    if not isinstance(value, ToolOutput):
        return ToolOutput(as_text(value))
    content = cast("object", value.content)  # a stranger's code need not be typed
    facts = _listed(value.facts, Fact)
    files = _listed(value.files, NewFile)
    actions = _listed(value.actions, ActionButton)
    has_types = isinstance(content, str) and isinstance(cast("object", value.origin), str)
    if has_types and (facts, files, actions) == (value.facts, value.files, value.actions):
        return value
    return ToolOutput(as_text(content), facts, str(value.origin), files, actions)


def _listed(given: object, kind: type[T]) -> tuple[T, ...]:
    if not isinstance(given, tuple | list):
        return ()
    return tuple(each for each in cast("Iterable[object]", given) if isinstance(each, kind))
