"""Turns the model's raw stream into previews: observers that show things to people listen to these and not to that."""

from collections.abc import Callable, Sequence

from finclaw.delivery.checks import Check, objection
from finclaw.delivery.preview import Preview
from finclaw.delivery.visible import clean_words
from finclaw.kernel.event import Emit, Event, PreviewUpdated, StepStarted, TextStreamed


def with_previews(emit: Emit, checks: Sequence[Check] = (), make_safe: Callable[[str], str] = str) -> Emit:
    """The same stream of events with a PreviewUpdated behind each piece of text that may be seen by now.

    Once a check objects to what the person would have seen by then, nothing more of that answer is shown.
    """
    preview, shown, withheld = Preview(), "", False

    def both(event: Event) -> None:
        nonlocal preview, shown, withheld
        emit(event)
        if isinstance(event, StepStarted):  # each model call writes its answer anew
            preview, shown, withheld = Preview(), "", False
        elif isinstance(event, TextStreamed) and not withheld:
            seen = preview.feed(event.text)
            seen = make_safe(clean_words(seen)) if seen else seen
            withheld = bool(seen and checks) and objection(checks, shown + seen) is not None
            if seen and not withheld:
                emit(
                    PreviewUpdated(
                        at=len(shown),
                        text=seen,
                        agent=event.agent,
                        session=event.session,
                        inbound_id=event.inbound_id,
                        turn_id=event.turn_id,
                    )
                )
                shown += seen

    return both
