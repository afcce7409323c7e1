"""Real turns, recorded in virtual time, for whoever wants to look at them afterwards."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import finclaw
from finclaw.agent.settings import AgentSettings
from finclaw.app import build
from finclaw.channels.mailbox import MailboxChannel
from finclaw.kernel.envelope import Inbound, Sender
from finclaw.kernel.extension import Extension
from finclaw.kernel.port import Provider
from finclaw.kernel.record import TurnStory
from finclaw.pipeline.settings import PipelineSettings
from finclaw.testing import FakeClock, ScriptedProvider
from finclaw.testing.provider import Line
from finclaw.tools.policy import Consent, nobody


@dataclass
class Recorder:
    """A state directory. Without a script the offline model answers."""

    state: Path
    agent: AgentSettings = field(default_factory=AgentSettings)
    pipeline: PipelineSettings = field(default_factory=PipelineSettings)
    clock: FakeClock = field(default_factory=FakeClock)

    @property
    def settings(self) -> finclaw.Settings:
        return finclaw.Settings(state=self.state, agent=self.agent, pipeline=self.pipeline)

    def record(
        self, text: str, *script: Line, extensions: Sequence[Extension] = (), consent: Consent = nobody
    ) -> TurnStory:
        """The story of the turn in which this was asked."""
        return self.clock.run(self._record(text, script, extensions, consent))

    async def _record(
        self, text: str, script: Sequence[Line], extensions: Sequence[Extension], consent: Consent
    ) -> TurnStory:
        provider: Provider | None = ScriptedProvider(*script, clock=self.clock) if script else None
        async with build(
            self.settings,
            channels=[MailboxChannel("web")],
            provider=provider,
            extensions=extensions,
            consent=consent,
            clock=self.clock,
            threaded=False,
        ) as app:
            await app.handle(Inbound(text=text, channel="web", sender=Sender("ada", "Ada")))
            (turn,) = await app.turns(1)
            story = await app.turn(turn.turn_id)
            assert story is not None
            return story
