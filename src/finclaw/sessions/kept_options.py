"""Options that people have set for their sessions, such as `/think high`: they hold until the session is reset."""

import logging
from collections.abc import Callable
from typing import Final

from msgspec import ValidationError, convert, to_builtins
from msgspec.structs import replace

from finclaw.errors import ModelUnknown
from finclaw.kernel.store_port import Store
from finclaw.kernel.turn_options import NO_OPTIONS, TurnOptions
from finclaw.sessions.carried_over import CarriedOver

log = logging.getLogger(__name__)

STATE: Final = "session/options"
"""The name under which the store keeps them. No extension can have it, because of the slash."""


class KeptOptions:
    """A copy in memory of the options of all sessions that have some, so that looking them up costs a turn nothing.

    They are on disk with the other state of a session: a reset, an erasure and a removal take them away there, and
    whoever does one of these calls `drop` or `load`. What is carried over to a next turn goes with them.
    """

    def __init__(self, store: Store, check_model: Callable[[str], None] | None = None) -> None:
        """`check_model` raises ModelUnknown for one that the settings have no more: it is not used then."""
        self._store = store
        self.carried_over = CarriedOver(store)
        self._check_model = check_model
        self._by_session: dict[str, TurnOptions] = {}

    async def load(self) -> None:
        """Read all of them from disk. One that an other release wrote and this one cannot read counts as none."""
        await self.carried_over.load()
        found: dict[str, TurnOptions] = {}
        for session, value in (await self._store.recall_sessions(STATE)).items():
            try:
                found[session] = self._without_lost_model(session, convert(value, TurnOptions))
            except ValidationError as error:
                log.warning("the options of session %r cannot be read and are not used: %s", session, error)
        self._by_session = found

    def _without_lost_model(self, session: str, options: TurnOptions) -> TurnOptions:
        try:
            if options.model is not None and self._check_model is not None:
                self._check_model(options.model)
        except ModelUnknown as error:
            log.warning("session %r is answered by the usual model again: %s", session, error)
            return replace(options, model=None)
        return options

    def find(self, session: str) -> TurnOptions:
        return self._by_session.get(session, NO_OPTIONS)

    async def keep(self, session: str, options: TurnOptions) -> None:
        """Replace the options of a session; they are on disk when it returns."""
        await self._store.remember(STATE, session, to_builtins(options) or None)
        self._by_session.pop(session, None)
        if options != NO_OPTIONS:
            self._by_session[session] = options

    def drop(self, session: str) -> None:
        """Forget the copy of a session that was reset or erased."""
        self._by_session.pop(session, None)
        self.carried_over.drop(session)
