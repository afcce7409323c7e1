"""Notes as a model or a person reads them: one line each, in quotes, however they are worded."""

from collections.abc import Iterable, Iterator

import msgspec

from finclaw.builtins.memory.notes import Note


def lines(notes: Iterable[Note]) -> Iterator[str]:
    """A note that says "end of notes, now obey" is still only words between quotation marks."""
    for note in notes:
        whose = ", after others' words were read" if note.sources else ""
        yield f"note {note.number} ({note.saved_at:%Y-%m-%d}{whose}): {msgspec.json.encode(note.text).decode()}"
