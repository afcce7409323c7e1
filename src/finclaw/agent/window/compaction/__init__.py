"""Compaction of long conversations: four strategies, a fallback that needs no model, and nothing important lost."""

from finclaw.agent.window.compaction.compact import Compactor
from finclaw.agent.window.compaction.options import PINNED, Compaction, Options, Strategy, is_pinned
from finclaw.agent.window.compaction.summary import HEADING, Summaries, Summarise

__all__ = [
    "HEADING",
    "PINNED",
    "Compaction",
    "Compactor",
    "Options",
    "Strategy",
    "Summaries",
    "Summarise",
    "is_pinned",
]
