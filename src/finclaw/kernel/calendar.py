"""The calendar port: when markets trade, and the days on which they rest."""

from collections.abc import Iterator, Sequence
from datetime import date, datetime
from typing import Literal, Protocol

from msgspec import Struct

ClosedReason = Literal["open", "weekend", "holiday", "before_open", "after_close"]
PhaseName = Literal["pre", "regular", "after", "closed", "unknown"]
"""`unknown`: there may be trading, and nobody has published the hours."""


class Session(Struct, frozen=True):
    """One trading day. A market that never rests opens the next session the moment it closes one."""

    day: date
    """Of the market's own calendar."""
    opens: datetime
    closes: datetime
    is_regular: bool = True
    """False for one that opens late or closes early."""


class TradingPhase(Struct, frozen=True, kw_only=True):
    """A piece of a day at one venue: before, in or after the regular session, or none of them."""

    venue: str
    """The market itself, or another place where the same shares are traded, such as `NXT` beside `KRX`."""
    name: PhaseName
    begins: datetime
    ends: datetime
    note: str = ""


class Holiday(Struct, frozen=True):
    day: date
    name: str
    name_ko: str


class Opening(Struct, frozen=True, kw_only=True):
    """Whether a market is open, why not, and when that changes. `changes_at` is None where it never does."""

    market: str
    reason: ClosedReason
    holiday: Holiday | None = None
    session: Session
    """The running session or the next one."""
    changes_at: datetime | None

    @property
    def is_open(self) -> bool:
        return self.reason == "open"


class Calendar(Protocol):
    """When markets trade, by their codes. Moments are aware of their zone; those given back are in UTC.

    All methods raise ToolError for a market that is not known. It holds nothing that must be closed.
    """

    def zone(self, market: str) -> str:
        """The market's own time zone, as `Asia/Seoul`."""
        ...

    def known_days(self, market: str) -> tuple[date, date]:
        """The first and the last day whose holidays are known; beyond them, only the week is."""
        ...

    def opening(self, market: str, moment: datetime) -> Opening:
        """Is it open, why not, and until when?"""
        ...

    def session_at(self, market: str, moment: datetime) -> Session | None:
        """The session that runs then, its first moment included and its last not."""
        ...

    def session_on(self, market: str, day: date) -> Session | None: ...

    def next_open(self, market: str, moment: datetime) -> datetime:
        """When the next session opens that has not opened by then."""
        ...

    def sessions_before(self, market: str, moment: datetime) -> Iterator[Session]:
        """Sessions that have opened by then, the latest first, without end."""
        ...

    def rest_on(self, market: str, day: date) -> Literal["weekend"] | Holiday | None:
        """Why there is no session on that day; None when there is one."""
        ...

    def holidays(self, market: str, first: date, last: date) -> Sequence[Holiday]:
        """The known ones from one day to another, both included, in order."""
        ...

    def phases_on(self, market: str, day: date) -> Sequence[TradingPhase]:
        """The phases of a trading day by their begin, the regular session and those of other venues among them; none on
        a day of rest. A phase may begin on the evening before."""
        ...

    def phase_at(self, market: str, moment: datetime) -> TradingPhase:
        """What runs then at the market itself; `closed` until the next phase where nothing does."""
        ...
