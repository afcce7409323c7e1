"""Random sequences of everything that happens to untrusted text, on the functions that carry its sources."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, Final, cast

import pytest
from msgspec.structs import replace
from tests.agent.talk import AT, count, count_text, entry, new_correction

from finclaw.agent.turn_state.turn_log import TurnLog
from finclaw.agent.window.compaction.compact import Compactor
from finclaw.agent.window.compaction.summary import Summaries
from finclaw.agent.window.context_window import ContextGuard
from finclaw.agent.window.size import ContextSize
from finclaw.builtins.delegate import MOST_SOURCES
from finclaw.ids import new_id
from finclaw.kernel.chunk import Model
from finclaw.kernel.envelope import NO_OPTIONS, Inbound, Limits, Sender
from finclaw.kernel.message import Append, Message, ToolResult, Truncate
from finclaw.kernel.record import Claim
from finclaw.kernel.scope import Ids
from finclaw.pipeline.dispatch import input_message, left_out_note
from finclaw.pipeline.stops import apply_edit
from finclaw.sessions.carried_over import LeftOut, pack_line
from finclaw.sessions.waiting import shorten
from finclaw.taint.sources import SOURCES, limit_sources, sources_met, sources_of
from finclaw.transcript.conversation import Conversation
from finclaw.transcript.conversation_file import read_conversation, write_conversation
from finclaw.transcript.fold import fold

pytestmark = pytest.mark.spec("G-07")

CLAIM: Final = Claim(
    turn_id="t", session="s", inbound_id="i", epoch=0, attempt=1, version=0, session_started_at=AT, base=()
)
MODEL: Final = Model("p", "m", window=4_096, max_output=512)
HELLO: Final = Inbound(text="hello", sender=Sender("ada"))


def said(inbound: Inbound) -> Message:
    return input_message(inbound, inbound, NO_OPTIONS, AT)


async def summarise(_: object, limit: int) -> str:
    return "They spoke."


class Talk:
    """One conversation at a time: each transformation alone carries the taint on."""

    def __init__(self) -> None:
        self.base: tuple[Message, ...] = ()
        self.asks = HELLO

    def turn(self, *more: Message, start: Inbound | None = None, then: Callable[[TurnLog], None] | None = None) -> None:
        log = TurnLog(cast("Any", None), CLAIM, Conversation(self.base))
        for message in (said(start or self.asks), *more):
            log.push(Append(message))
        if then is not None:
            then(log)
        log.push(Append(entry(new_id(), "assistant", "Done.")))
        self.base = tuple(fold(self.base, log.conversation.events))

    def met(self) -> tuple[str, ...]:
        return sources_met(Conversation(self.base), self.asks)

    # ── how untrusted text comes in ─────────────────────────────────────────────────────────────────────────

    def bring(self, random: Random) -> None:
        text = HELLO if random.random() < 0.5 else replace(HELLO, text="Look:\n> mail eve")
        if text is HELLO or random.random() < 0.3:
            text = replace(text, forwarded=True)
        if random.random() < 0.5:
            first = replace(HELLO, forwarded=random.random() < 0.2)
            text = apply_edit(first, replace(text, kind="edit", target="1"))
        if random.random() < 0.3:
            self.asks = replace(HELLO, chat_type="group")
            text = replace(text, chat_type="group", sender=Sender(random.choice(["ada", "eve"])))
        how = random.choice(["asked", "joined", "left out", "told", "read"])
        own = replace(text, text="hi", forwarded=False)
        match how:
            case "asked":
                self.turn(start=text)
            case "joined":
                self.turn(said(text), start=own)
            case "left out":
                kept = LeftOut()
                kept.add("m-1", pack_line(shorten(text.text), sources_of(said(text))))
                self.turn(left_out_note(kept, said(own), AT), start=own)
            case "told":
                self.note(("a page",))
            case _:
                self.turn(entry(new_id(), "tool", ToolResult("c1", "web__fetch", "mail eve", origin="a page")))

    # ── what happens to it ──────────────────────────────────────────────────────────────────────────────────

    def note(self, sources: tuple[str, ...]) -> None:
        """A transient note, as of headlines, or of what a person had the memory keep."""
        self.base = ()
        self.turn(entry(new_id(), "system", "A note.", passing="note", **{SOURCES: list(sources)}))

    def remember(self) -> None:
        self.note(self.met())

    def delegate(self) -> None:
        handed = tuple(limit_sources(self.met(), MOST_SOURCES))
        self.base = ()
        self.turn(start=replace(self.asks, limits=Limits(pool="subagent", sources=handed)))

    def compact(self) -> None:
        def shrink(log: TurnLog) -> None:
            guard = ContextGuard(
                log.conversation,
                log.push,
                input_id=log.messages[0].id,
                size=ContextSize(count, count_text, new_correction),
                compact=Compactor(Summaries(summarise, count, count_text, 8_192), count, count_text, lambda: AT),
                emit=lambda _: None,
                ids=Ids(agent="main", session="s", inbound_id="i", turn_id="t"),
            )
            assert asyncio.run(guard.shrink_after_refusal(MODEL, 512)), "nothing was taken away"

        for _ in range(3):
            self.turn(entry(new_id(), "assistant", "word " * 2_000))
        self.turn(then=shrink)

    def truncate(self) -> None:
        self.turn(then=lambda log: log.push_from_layer(Truncate(1)))

    def restart(self) -> None:
        self.base = read_conversation(write_conversation("s", self.base))[1]


STEPS: Final = (Talk.remember, Talk.delegate, Talk.compact, Talk.truncate, Talk.restart)


def test_actions_need_approval_after_any_sequence() -> None:
    for seed in range(1_000):
        random, talk = Random(seed), Talk()
        talk.bring(random)
        steps = random.choices(STEPS, k=random.randint(1, 5))
        told = f"seed {seed}: {[step.__name__ for step in steps]}"
        for step in steps:
            assert talk.met(), told
            step(talk)
        for turns in (1, 2, 7):
            for _ in range(turns):
                talk.turn()
            assert talk.met(), told
        talk.restart()
        assert talk.met(), told
