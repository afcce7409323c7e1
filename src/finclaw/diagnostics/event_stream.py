"""The stream of events to observers. An observer can change nothing, and its failure is logged, never raised."""

import logging
from collections.abc import Callable

from finclaw.errors import ExtensionError
from finclaw.kernel.event import Event, Observer, all_events

log = logging.getLogger(__name__)


class EventStream:
    """A stream of events for all observers. `emit` never raises and never waits."""

    def __init__(self) -> None:
        self._observers: tuple[Observer, ...] = ()

    def observe(self, observer: Observer, *names: str) -> Callable[[], None]:
        """See every event, or those of these names. The returned function ends it, and may be called twice."""
        if names:
            observer = _filter_events(observer, frozenset(names))
        self._observers = (*self._observers, observer)

        def stop() -> None:
            self._observers = tuple(each for each in self._observers if each is not observer)

        return stop

    def emit(self, event: Event) -> None:
        for observer in self._observers:
            try:
                observer(event)
            except Exception:  # an observer is a stranger; the message must not pay for it
                log.exception("observer failed on %s", event.name)


def _filter_events(observer: Observer, names: frozenset[str]) -> Observer:
    unknown = names - {each.name for each in all_events()}
    if unknown:
        raise ExtensionError(f"there is no event {sorted(unknown)[0]!r}; see the list in finclaw.kernel.event")

    def forward(event: Event) -> None:
        if event.name in names:
            observer(event)

    return forward
