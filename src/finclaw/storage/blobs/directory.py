"""The directory of blobs: immutable files in the state directory, each named by the SHA-256 of its content."""

import hashlib
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from msgspec import Struct

from finclaw.errors import BlobRefused, StoreFailed
from finclaw.kernel.record import Blob
from finclaw.storage.files import Files

BLOBS: Final = "blobs"
NAME: Final = re.compile("[0-9a-f]{64}")
MOST_BYTES: Final = 20_000_000
MOST_PIXELS: Final = 50_000_000
"""Of an image. A few kilobytes can claim billions, and whoever decodes them has no memory left."""


def describe_blob(data: bytes, media_type: str) -> Blob:
    """Raises BlobRefused for what is not kept. What an image says of itself counts more than what was said of it."""
    if not data:
        raise BlobRefused("the file is empty; send it again")
    if len(data) > MOST_BYTES:
        raise BlobRefused(f"the file has {len(data):,} bytes, and at most {MOST_BYTES:,} are kept; send a smaller one")
    sha256 = hashlib.sha256(data).hexdigest()
    header = read_image_header(data)
    if header is None:
        if media_type in PICTURES:
            raise BlobRefused(f"the file is no {media_type}, or is cut off; send it again")
        return Blob(sha256, len(data), media_type or "application/octet-stream")
    if header.width * header.height > MOST_PIXELS:
        raise BlobRefused(
            f"the image has {header.width:,} × {header.height:,} pixels, and at most {MOST_PIXELS:,} are kept; "
            "send a smaller one"
        )
    return Blob(sha256, len(data), header.media_type, header.width, header.height)


class BlobDirectory:
    """The files alone. Methods block, and raise StoreFailed; who refers to a file is for the rows to know."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._files = Files()

    @property
    def is_there(self) -> bool:
        return self._place.is_dir()

    def write(self, sha256: str, data: bytes) -> None:
        """Write the file: on disk for good when it returns, the content first, then the name."""
        path = self._path(sha256)
        self._files.make(self._place)
        if path.is_file():  # its content is whole, but a process that died may not have made the name last
            self._files.keep_names(self._place)
        else:
            self._files.replace(path, data)

    def read(self, sha256: str) -> bytes | None:
        return self._files.read(self._path(sha256)) or None  # none is empty

    def names(self) -> set[str]:
        """Return all names in the directory, also those that no blob has."""
        return {path.name for path in self._place.iterdir()} if self.is_there else set()

    def erase(self, name: str) -> None:
        self._files.erase(self._place / name)

    def copy_into(self, target: Path, names: Iterable[str]) -> None:
        for name in names:
            try:
                target.mkdir(mode=0o700, exist_ok=True)
                shutil.copyfile(self._path(name), target / name)
            except OSError as error:
                message = f"the kept file {BLOBS}/{name} cannot be copied ({error.strerror}); put it back"
                raise StoreFailed(message) from error

    def _path(self, sha256: str) -> Path:
        if not NAME.fullmatch(sha256):
            raise ValueError(f"{sha256!r} is no SHA-256 in hexadecimal digits")
        return self._place / sha256


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
    """Read the type and size of a PNG, JPEG, GIF or WebP from its first bytes; None for everything else.

    Own code, because a library that decodes images is large and pictures are untrusted: what is not decoded cannot
    burst (`docs/decisions/0022-blobs.md`).
    """
    if data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR" and len(data) >= 24:
        return _header("image/png", int.from_bytes(data[16:20]), int.from_bytes(data[20:24]))
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
            if filling is not None:
                at = filling.end() - 1
        if data[at : at + 1] != b"\xff" or len(data) < at + 4:
            return None
        marker = data[at + 1]
        if marker in _WITHOUT_LENGTH:
            at += 2
            continue
        if marker in _FRAME_HEADERS:
            frame = data[at + 5 : at + 9]
            return (
                _header("image/jpeg", int.from_bytes(frame[2:4]), int.from_bytes(frame[:2]))
                if len(frame) == 4
                else None
            )
        at += 2 + int.from_bytes(data[at + 2 : at + 4])
    return None


def _little(data: bytes) -> int:
    return int.from_bytes(data, "little")
