"""The approvals' piece of the configuration."""

import re
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from msgspec import Meta

from finclaw.errors import ConfigError

_APPROVER: Final = re.compile(r"role:[a-z][a-z0-9_-]{0,39}|[^:\s]+:[^:\s]+:\S+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalSettings:
    """Who may say yes to what needs a person, and for how long the question stands."""

    approvers: tuple[str, ...] = ("role:approver", "role:owner")
    """Whoever has the role, or one sender as `channel:account:sender-id`. See `people`."""
    own: Literal["direct", "never"] = "direct"
    """`direct`: in a direct chat people decide about their own requests; in groups only approvers do. `never`: a
    request is always decided by somebody else."""
    expire_s: Annotated[float, Meta(ge=10, le=86_400)] = 1_800
    """After so many seconds without an answer it is a no."""
    order_expire_s: Annotated[float, Meta(ge=10, le=86_400)] = 300
    """The same for what moves money, because prices move too."""
    standing_days: Annotated[float, Meta(gt=0, le=3_650)] = 90
    """A yes that stands (`session`, `always`) does so for so many days; then the action is asked for again."""
    most_waiting: Annotated[int, Meta(ge=1, le=1_000)] = 20
    """So many questions may wait at once in one conversation, and so many of one person; the next is refused."""
    most_per_approver: Annotated[int, Meta(ge=1, le=1_000)] = 40
    """So many may wait for one approver, who is not asked any more then. Where that is all of them, the next is
    refused."""
    drift_percent: Annotated[float, Meta(ge=0, le=100)] = 0.5
    """Prices that have moved further than this since the card was shown are shown and asked for again."""

    def __post_init__(self) -> None:
        for each in self.approvers:
            if not _APPROVER.fullmatch(each):
                raise ConfigError(f"approvers knows role:NAME and channel:account:sender-id, not {each!r}")
