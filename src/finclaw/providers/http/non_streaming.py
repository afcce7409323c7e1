"""Responses that are no stream in spite of their success: an error with the wrong status, a page, a whole answer."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from finclaw.errors import NoStream, ProviderError, StreamCut, Unreachable
from finclaw.kernel.chunk import Chunk
from finclaw.providers.http.failure import Complaint, Kinds, read_complaint, stream_error
from finclaw.providers.http.sse import Event

if TYPE_CHECKING:
    from finclaw.providers.http.response import HttpResponse

LONGEST_PAGE: Final = 65_536
LONGEST_ANSWER: Final = 16_000_000

_PAGE: Final = b"<"
_NO_EVENT: Final = (b"{", b"[", _PAGE)
"""How JSON and pages begin. What a server says about the type of its answer is not always so."""
_NON_STREAMING_TYPE: Final = "message"
"""What Anthropic's API calls an answer that is not streamed."""


def is_non_streaming(first: bytes) -> bool:
    """Whether these are the first bytes of something else than a stream of events."""
    return first.lstrip()[:1] in _NO_EVENT


async def read_body(reply: "HttpResponse", said: bytes) -> bytes:
    """The whole body, whatever it is, up to a limit. Raises StreamCut or ProviderTimeout."""
    longest = LONGEST_PAGE if said.lstrip().startswith(_PAGE) else LONGEST_ANSWER
    pieces, size = [said], len(said)
    while size < longest and (data := await reply.read()):
        pieces.append(data)
        size += len(data)
    return b"".join(pieces)


def read_non_streaming(events: Iterable[Event], read: Callable[[bytes, bytes], Sequence[Chunk]]) -> list[Chunk]:
    """The chunks of a non-streaming answer; none where it cannot be read after all."""
    try:
        return [chunk for name, data in events for chunk in read(name, data)]
    except StreamCut:
        return []


def non_streaming_error(name: str, content_type: str, said: bytes, kinds: Kinds) -> ProviderError:
    """Some gateways send an error with the status of a success; a wrong address may answer with anything.

    A page is a proxy's that wants a login, or somebody's who is at work there: the server behind it was not reached,
    and may be the next time. JSON that is neither an error nor a whole answer will be none the next time either.
    """
    complaint = read_complaint(said)
    if complaint != Complaint(complaint.type) or complaint.type not in (None, _NON_STREAMING_TYPE):
        return stream_error(name, complaint, kinds)
    kind = Unreachable if said.lstrip().startswith(_PAGE) else NoStream
    return kind(
        f"{name} answered with {content_type} and not with a stream of events, so another kind of server may be "
        f"there; check `base_url` and `kind` under `providers.{name}`, and that a proxy passes streams on"
    )
