"""Turns the model's raw stream into previews: observers that show things to people listen to these and not to that."""

from finclaw.delivery.preview import Preview
from finclaw.kernel.event import Emit, Event, PreviewUpdated, StepStarted, TextStreamed


def with_previews(emit: Emit) -> Emit:
    """The same stream of events with a PreviewUpdated behind each piece of text that may be seen by now."""
    preview, length = Preview(), 0

    def both(event: Event) -> None:
        nonlocal preview, length
        emit(event)
        if isinstance(event, StepStarted):  # each model call writes its answer anew
            preview, length = Preview(), 0
        elif isinstance(event, TextStreamed):
            seen = preview.feed(event.text)
            if seen:
                emit(
                    PreviewUpdated(
                        at=length, text=seen, session=event.session, inbound_id=event.inbound_id, turn_id=event.turn_id
                    )
                )
                length += len(seen)

    return both
