"""Read a single-file ZIP archive with a size limit."""

import io
import zipfile
import zlib
from collections.abc import Iterator
from typing import Final

_CHUNK: Final = 65_536
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Other methods do not bound the size of a decompressed chunk."""


def read_archived_file(body: bytes, most_bytes: int) -> Iterator[bytes]:
    """Yield the content of the archive's only file in chunks.

    Raises ValueError for anything else, and for a longer file.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            (entry,) = archive.infolist()
            if entry.compress_type not in _METHODS:
                raise ValueError("the archive is packed in an unusual way")
            with archive.open(entry) as file:
                left = most_bytes
                while chunk := file.read(_CHUNK):
                    left -= len(chunk)
                    if left < 0:
                        raise ValueError(f"the archive holds more than {most_bytes:,} bytes")
                    yield chunk
    except (zipfile.BadZipFile, EOFError, OSError, RuntimeError, zlib.error) as error:
        raise ValueError(f"the archive cannot be read: {error}") from error
