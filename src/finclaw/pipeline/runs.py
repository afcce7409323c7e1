"""The messages that are in the pipeline, and the stops that reach them there."""

from typing import Literal

from finclaw.kernel.record import StopMark
from finclaw.pipeline.message_run import MessageRun


class MessageRuns:
    """The runs of messages in the pipeline, by message id."""

    def __init__(self) -> None:
        self._runs: dict[str, MessageRun] = {}
        self._arrivals: dict[str, StopMark] = {}
        """Stops of messages that have not entered the pipeline yet."""

    def enter(self, run: MessageRun) -> None:
        """Add a run. One that was stopped while its message waited is stopped at once."""
        inbound_id = run.accepted.id
        self._runs[inbound_id] = run
        if self._arrivals and (mark := self._arrivals.pop(inbound_id, None)) is not None:
            run.stoppable.stop(mark.reason, by_person=True, told=mark.told)

    def leave(self, run: MessageRun) -> None:
        del self._runs[run.accepted.id]

    def find(self, inbound_id: str) -> MessageRun | None:
        return self._runs.get(inbound_id)

    def stop(
        self, inbound_id: str, reason: str, *, by: Literal["person", "watchdog"] = "person", told: bool = False
    ) -> bool:
        """Stop a message up to the commit of its answer. False: it has ended, is being stopped, or is not here.

        The pipeline notifies its sender, unless somebody else has (`told`).
        """
        run = self._runs.get(inbound_id)
        if run is None or run.recorded is not None:
            return False
        return run.stoppable.stop(reason, by_person=by == "person", told=told)

    def stop_on_arrival(self, inbound_id: str, mark: StopMark) -> bool:
        """Stop a message as soon as it enters the pipeline. False: it is stopped already."""
        return self._arrivals.setdefault(inbound_id, mark) is mark

    def interrupt(self, inbound_id: str, reason: str) -> bool:
        """Stop a turn that has begun. One that has not begun is skipped at its turn, and its text is kept."""
        run = self._runs.get(inbound_id)
        return run is not None and run.log is not None and self.stop(inbound_id, reason)
