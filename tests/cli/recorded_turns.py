"""Real turns, recorded in virtual time, for whoever wants to look at them afterwards."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import finclaw
from finclaw.agent.settings import AgentSettings
from finclaw.channels.mailbox import MailboxChannel
from finclaw.cli.attach import attach, find_turn
from finclaw.composition.gateway import build
from finclaw.kernel.envelope import Inbound, Limits, Sender, TurnOptions
from finclaw.kernel.extension import Extension
from finclaw.kernel.port import Provider
from finclaw.kernel.record import TurnTrace
from finclaw.pipeline.settings import PipelineSettings
from finclaw.policy import Consent, nobody
from finclaw.policy.rule import Rule
from finclaw.providers.settings import ModelSettings, ProviderSettings
from finclaw.testing import FakeClock, ScriptedProvider
from finclaw.testing.provider import Line, Script
from finclaw.tools.settings import ToolsSettings


@dataclass
class Recorder:
    """A state directory. Without a script the offline model answers."""

    state: Path
    agent: AgentSettings = field(default_factory=AgentSettings)
    pipeline: PipelineSettings = field(default_factory=PipelineSettings)
    models: Mapping[str, ModelSettings] = field(default_factory=dict[str, ModelSettings])
    providers: Mapping[str, ProviderSettings] = field(default_factory=dict[str, ProviderSettings])
    clock: FakeClock = field(default_factory=FakeClock)

    @property
    def settings(self) -> finclaw.Settings:
        return finclaw.Settings(
            state=self.state,
            agent=self.agent,
            pipeline=self.pipeline,
            models=self.models,
            providers=self.providers,
            tools=ToolsSettings(rules=(Rule("*", "allow"),)),  # it lifts the defaults of groups
        )

    def record(
        self,
        text: str,
        *script: Line | Script,
        extensions: Sequence[Extension] = (),
        consent: Consent = nobody,
        wishes: TurnOptions | None = None,
    ) -> TurnTrace:
        """The story of the turn in which this was asked."""
        limits = None if wishes is None else Limits(wishes=wishes)
        inbound = Inbound(text=text, channel="web", sender=Sender("ada", "Ada"), limits=limits)
        return self.clock.run(self._record(inbound, script, extensions, consent))

    async def _record(
        self, inbound: Inbound, script: Sequence[Line | Script], extensions: Sequence[Extension], consent: Consent
    ) -> TurnTrace:
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
            await app.handle(inbound)
            (turn,) = await app.turns(1)
            story = await app.turn(turn.turn_id)
            assert story is not None
            return story

    def told(self, turn_id: str) -> TurnTrace:
        """The same turn, as far as it is still there."""
        with attach(self.settings) as client:
            return find_turn(client, self.settings, turn_id)
