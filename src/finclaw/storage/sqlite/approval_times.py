"""Waiting times of open approvals in this process, by a clock that nobody can set.

The wall clock decides after a restart. While the process runs it may be set back, and a question that is good for five
minutes must not be good for an hour because of that.
"""

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from finclaw.kernel.approval import Approval
from finclaw.kernel.port import Clock
from finclaw.storage.sqlite.codec import to_micros


class ApprovalTimes:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due: dict[str, float] = {}
        """When the time of an approval is over, on the monotonic clock, by its id."""

    def see(self, approvals: Iterable[Approval]) -> None:
        """Begin to measure those that are open."""
        now = self._clock.now()
        elapsed = self._clock.monotonic()
        for each in approvals:
            if each.state in ("pending", "granted"):
                self._due.setdefault(each.id, elapsed + (each.expires_at - now).total_seconds())

    def forget(self, ids: Iterable[str]) -> None:
        """Those that are over on disk: what only reads as expired is still measured."""
        for each in ids:
            self._due.pop(each, None)

    def now(self) -> dict[str, Any]:
        """The parameters by which a statement knows whose time is over."""
        return expiry_at(self._clock.now(), self._late())

    def _late(self) -> list[str]:
        elapsed = self._clock.monotonic()
        return [approval_id for approval_id, due in self._due.items() if due <= elapsed]


def expiry_at(now: datetime, late: Iterable[str] = ()) -> dict[str, Any]:
    return {"now": to_micros(now), "late": json.dumps(list(late))}
