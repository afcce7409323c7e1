"""The directory of blobs: immutable files in the state directory, each named by the SHA-256 of its content."""

import hashlib
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from finclaw.errors import BlobRefused, StoreFailed
from finclaw.kernel.record import Blob
from finclaw.storage.blobs.image_header import PICTURES, read_image_header
from finclaw.storage.files import Files

BLOBS: Final = "blobs"
"""In the state directory."""
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
    header = read_image_header(data)
    if header is None:
        if media_type in PICTURES:
            raise BlobRefused(f"the file is no {media_type}, or is cut off; send it again")
        return Blob(hashlib.sha256(data).hexdigest(), len(data), media_type or "application/octet-stream")
    if header.width * header.height > MOST_PIXELS:
        raise BlobRefused(
            f"the image has {header.width:,} × {header.height:,} pixels, and at most {MOST_PIXELS:,} are kept; "
            "send a smaller one"
        )
    return Blob(hashlib.sha256(data).hexdigest(), len(data), header.media_type, header.width, header.height)


class BlobDirectory:
    """The files alone. Methods block, and raise StoreFailed; who refers to a file is for the rows to know."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._files = Files()

    @property
    def is_there(self) -> bool:
        return self._place.is_dir()

    def write(self, sha256: str, data: bytes) -> None:
        """On disk for good when it returns: the content first, then the name."""
        path = self._path(sha256)
        self._files.make(self._place)
        if path.is_file():  # its content is whole, but a process that died may not have made the name last
            self._files.keep_names(self._place)
        else:
            self._files.replace(path, data)

    def read(self, sha256: str) -> bytes | None:
        """None: there is no such file."""
        return self._files.read(self._path(sha256)) or None  # none is empty

    def names(self) -> set[str]:
        """All that is in the directory, also what no blob is called."""
        return {path.name for path in self._place.iterdir()} if self.is_there else set()

    def erase(self, name: str) -> None:
        self._files.erase(self._place / name)

    def copy_into(self, target: Path, names: Iterable[str]) -> None:
        for name in names:
            try:
                target.mkdir(mode=0o700, exist_ok=True)
                shutil.copyfile(self._path(name), target / name)
            except OSError as error:
                raise StoreFailed(
                    f"the kept file {BLOBS}/{name} cannot be copied ({error.strerror}); put it back"
                ) from error

    def _path(self, sha256: str) -> Path:
        if not NAME.fullmatch(sha256):
            raise ValueError(f"{sha256!r} is no SHA-256 in hexadecimal digits")
        return self._place / sha256
