"""Images in requests: encoded messages hold marks, and their content is joined when a request is written.

So no cache of encoded messages holds a picture, and none is in memory while its request waits for a connection. A mark
is between two NUL bytes, which JSON never holds. It stands for an object up to its last brace, which is written behind
it: whoever puts a field into the last object of a message need not know that there is a mark.
"""

import logging
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from finclaw.errors import StoreFailed
from finclaw.kernel.message import Image
from finclaw.providers.http.prefix_cache import Part

log = logging.getLogger(__name__)

PICTURES: Final = frozenset(("image/jpeg", "image/png", "image/gif", "image/webp"))
"""The types that every API takes."""
MOST_JOINED: Final = 20_000_000  # bytes in one request; the last images come first

MISSING: Final = b"[image left out: its file is not there any more]"
TOO_LARGE: Final = b"[image left out: it is larger than this model takes]"
EARLIER: Final = b"[image left out: too many others come after it]"

_NUL: Final = b"\0"

ReadBlob = Callable[[str], bytes | None]  # by SHA-256; None where there is none
Render = Callable[[bytes, bytes], bytes]  # from type and base64: the image's object without its last brace


def mark_image(image: Image) -> msgspec.Raw:
    """For an image that refers to a blob, of a type in PICTURES."""
    name = image.blob if image.blob.isascii() and image.blob.isalnum() else "-"  # a layer may write anything there
    return msgspec.Raw(b"\0%b %b\0}" % (name.encode(), image.media_type.encode()))


def join_images(parts: Sequence[Part], read: ReadBlob | None, render: Render, largest: int) -> Sequence[Part]:
    """`largest`: bytes of base64 that the API takes for one image. Without `read` there is no state directory."""
    if not any(map(_holds_image, parts)):
        return parts
    split = [bytes(part).split(_NUL) for part in parts]
    room = MOST_JOINED
    for pieces in reversed(split):
        for place in range(len(pieces) - 2, 0, -2):
            name, media_type = pieces[place].split(b" ")
            content = _read(read, name.decode())
            if content is None or len(content) > min(largest, room):
                pieces[place] = b'{"type":"text","text":"%b"' % _why_left_out(content, largest)
            else:
                room -= len(content)
                pieces[place] = render(media_type, content)
    return [b"".join(pieces) for pieces in split]


def _holds_image(part: Part) -> bool:
    if isinstance(part, memoryview):
        part = bytes(part)
    return _NUL in part


def _why_left_out(content: bytes | None, largest: int) -> bytes:
    if content is None:
        return MISSING
    if len(content) > largest:
        return TOO_LARGE
    return EARLIER


def _read(read: ReadBlob | None, name: str) -> bytes | None:
    if read is None:
        return None
    try:
        data = read(name)
    except (StoreFailed, ValueError) as error:
        log.error("an image is left out of a request: %s", error)
        return None
    return None if data is None else b64encode(data)
