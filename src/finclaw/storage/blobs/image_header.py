"""Image headers: type, width and height of a PNG, JPEG, GIF or WebP, from its first bytes and without decoding it.

Own code, because a library that decodes images is large, and a picture is anybody's bytes: what is not decoded cannot
burst (`docs/decisions/0022-blobs.md`).
"""

import re
from typing import Final

from msgspec import Struct

PICTURES: Final = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))
"""Types whose header is read here."""

_MOST_SEGMENTS: Final = 1_000
"""Of a JPEG before its size is told."""
_MOST_FILLING: Final = 65_536
"""Bytes before one segment."""
_FILLING: Final = re.compile(rb"\xff+")
_FRAME_HEADERS: Final = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
_WITHOUT_LENGTH: Final = frozenset({0x01, *range(0xD0, 0xD9)})


class ImageHeader(Struct, frozen=True):
    media_type: str
    width: int
    height: int


def read_image_header(data: bytes) -> ImageHeader | None:
    """None for everything else, and for an image that is cut off before its size."""
    if data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR" and len(data) >= 24:
        return _header("image/png", _big(data[16:20]), _big(data[20:24]))
    if data.startswith((b"GIF87a", b"GIF89a")) and len(data) >= 10:
        return _header("image/gif", _little(data[6:8]), _little(data[8:10]))
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return _read_webp(data)
    return _read_jpeg(data) if data.startswith(b"\xff\xd8") else None


def _header(media_type: str, width: int, height: int) -> ImageHeader | None:
    return ImageHeader(media_type, width, height) if width and height else None


def _read_webp(data: bytes) -> ImageHeader | None:
    kind = data[12:16]
    body = data[20:]
    if kind == b"VP8X" and len(body) >= 10:
        return _header("image/webp", _little(body[4:7]) + 1, _little(body[7:10]) + 1)
    if kind == b"VP8L" and body[:1] == b"\x2f" and len(body) >= 5:
        bits = _little(body[1:5])
        return _header("image/webp", (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
    if kind == b"VP8 " and body[3:6] == b"\x9d\x01\x2a" and len(body) >= 10:
        return _header("image/webp", _little(body[6:8]) & 0x3FFF, _little(body[8:10]) & 0x3FFF)
    return None


def _read_jpeg(data: bytes) -> ImageHeader | None:
    """From segment to segment, up to the one that begins a frame."""
    at = 2
    for _ in range(_MOST_SEGMENTS):
        if data[at : at + 2] == b"\xff\xff":
            filling = _FILLING.match(data, at, at + _MOST_FILLING)
            at = at if filling is None else filling.end() - 1
        if data[at : at + 1] != b"\xff" or len(data) < at + 4:
            return None
        marker = data[at + 1]
        if marker in _WITHOUT_LENGTH:
            at += 2
            continue
        if marker in _FRAME_HEADERS:
            frame = data[at + 5 : at + 9]
            return _header("image/jpeg", _big(frame[2:4]), _big(frame[:2])) if len(frame) == 4 else None
        at += 2 + _big(data[at + 2 : at + 4])
    return None


def _big(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _little(data: bytes) -> int:
    return int.from_bytes(data, "little")
