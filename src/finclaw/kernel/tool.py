"""One thing the agent may do, what it is told when it does it, and what it gives back."""

from collections.abc import Awaitable, Callable, Mapping
from threading import Event
from typing import Any, Literal, Protocol

from msgspec import Struct

from finclaw.kernel.ask import Ask
from finclaw.kernel.chunk import ToolSpec
from finclaw.kernel.envelope import Sender
from finclaw.kernel.fact import Fact

Isolation = Literal["loop", "thread", "process"]
"""Where a tool runs: beside everybody on the event loop, in a thread of its own, or in a process that can be killed."""


class ToolOutput(Struct, frozen=True):
    """What a tool gives: text for the model, and the facts in it."""

    content: str
    facts: tuple[Fact, ...] = ()
    origin: str = ""
    """Strangers' words that it passes on, such as a headline's, where its group does not say so already."""


class ToolScope(Struct, frozen=True, kw_only=True):
    """For whom and in which turn a tool runs."""

    session: str
    turn_id: str
    call_id: str
    sender: Sender
    channel: str = ""
    offered: tuple[str, ...] = ()
    """The names of the tools that the model was offered in this step."""
    ask: Ask | None = None
    """None where there is no model to ask: a tool that is run by itself, or in a process of its own."""
    sources: Callable[[], tuple[str, ...]] | None = None
    """Tells which strangers' words the turn has read by now. None where there is no turn, or in another process."""
    stop: Event | None = None
    """Of a tool that runs in a thread; others are cancelled or killed, and need not look."""

    def stopped(self) -> bool:
        """For a tool that blocks, to look at now and then: nobody waits for it any more, and it should end."""
        return self.stop is not None and self.stop.is_set()


Quote = Callable[[Mapping[str, Any], ToolScope], Awaitable[Mapping[str, Any]]]
"""Prices as they are now, by name, for a person to see before they agree. May raise ToolError: then nobody is asked."""


class Tool(Protocol):
    """One thing the agent may do. `run` may raise ToolError (the model reads it) or anything else (it reads less).

    `@tool` makes one. A class of one's own inherits from this one, and with it what most tools are.
    """

    @property
    def spec(self) -> ToolSpec: ...
    @property
    def group(self) -> str: ...
    @property
    def transactional(self) -> bool:
        """It moves money or cannot be undone: never run twice, never without consent."""
        ...

    @property
    def parallel_safe(self) -> bool: ...
    @property
    def timeout(self) -> float:
        """Seconds; then it is cancelled, and left behind if it does not heed that."""
        ...

    @property
    def approval(self) -> bool:
        """A person is asked before each call, whatever the rules say."""
        return False

    @property
    def sensitive(self) -> bool:
        """It reads what is private."""
        return False

    @property
    def changes(self) -> bool:
        """It changes what is kept for the person, such as their alerts: no stranger's words get that unasked."""
        return False

    @property
    def own_results(self) -> bool:
        """Everything that it gives back is the operator's own, such as a broker's order number: nothing in it was
        written by strangers. Pages, files, processes and other people's servers never are.
        """
        return False

    @property
    def upstream(self) -> str:
        """Who must be there for it to work, such as `api.example.com` or `mcp:files`; tools that name the same one
        share a breaker. Empty: nobody but us.
        """
        return ""

    @property
    def isolation(self) -> Isolation:
        return "loop"

    @property
    def quote(self) -> Quote | None:
        """For what depends on prices: shown with the question, and looked at again before it runs."""
        return None

    async def run(self, args: Mapping[str, Any], scope: ToolScope) -> ToolOutput: ...
