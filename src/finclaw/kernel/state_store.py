"""The port of the store that keeps what extensions remember."""

from typing import Any, Protocol


class StateStore(Protocol):
    """What extensions remember: one value each, or one each per session (`session` empty: for the extension itself)."""

    async def recall(self, extension: str, session: str) -> Any:
        """The value, as JSON gives it back; None when there is none."""
        ...

    async def remember(self, extension: str, session: str, value: Any) -> None:
        """On disk when it returns. None forgets. Raises SessionError for what JSON cannot hold.

        Raises Superseded in a turn whose session was reset meanwhile: what it knows of that is forgotten.
        """
        ...
