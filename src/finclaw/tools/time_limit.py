"""The time limit of a tool: its task is cancelled when the time is over, and abandoned if it ignores that."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from finclaw.cancellation import until_done
from finclaw.errors import ToolAwaiting, ToolError, ToolTimeout
from finclaw.kernel.port import Tool, ToolOutput, ToolScope
from finclaw.tools.containment import Broken, as_exception, in_this_process
from finclaw.tools.output import as_output

log = logging.getLogger(__name__)

GRACE: Final = 2.0
"""Seconds a tool gets to clean up when its time is over; then it is left behind."""
STOP_GRACE: Final = 0.5
"""When the turn is stopped a person waits for that, and a tool gets less."""

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
    running.add_done_callback(_look_away)
    _left_behind.add(running)
    running.add_done_callback(_left_behind.discard)
    if not await until_done(running, grace):
        log.error("tool %s ignored its cancellation and was left behind", tool.spec.name)


def _look_away(running: "asyncio.Future[ToolOutput]") -> None:
    if not running.cancelled():
        running.exception()
