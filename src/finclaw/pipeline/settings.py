"""The road's piece of the configuration."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSettings:
    """How messages are taken in and answered."""

    timeout_ms: int = 300_000
    """The whole road of one message, waiting in the lane not counted."""
    enable_ack: bool = True
    """Show a reaction and a typing sign while working, where the channel can."""
    command_prefix: str = "/"
    require_mention: bool = True
    """In groups and channels, answer only when we are mentioned."""
    max_attempts: int = 3
    """A message whose turn crashed the process this often is not tried again; its sender is told."""
    expire_after_s: float = 3_600
    """After a restart, messages older than this are not answered any more; their senders are told."""
