"""Files that tools, commands and extensions give for an answer: their bytes are on disk before anything names them."""

import logging
import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from finclaw.errors import BlobRefused, StoreFailed
from finclaw.kernel.envelope import NewFile, OutboundFile
from finclaw.kernel.record import Blob

log = logging.getLogger(__name__)

MOST_FILES: Final = 10  # with one answer; platforms take no more in one message

PutBlob = Callable[[bytes, str], Awaitable[Blob]]


async def keep_files(put_blob: PutBlob, files: Iterable[NewFile | OutboundFile]) -> tuple[OutboundFile, ...]:
    """Raises BlobRefused for a file that is not kept, and StoreFailed."""
    return distinct_files([await _keep_file(put_blob, each) for each in files])


async def keep_what_fits(put_blob: PutBlob | None, files: Iterable[NewFile]) -> tuple[tuple[OutboundFile, ...], str]:
    """The files that were kept, and a line for each of the others. None: there is nowhere to keep them."""
    if not files or put_blob is None:
        return (), ""
    kept: list[OutboundFile] = []
    refused: list[str] = []
    for each in files:
        try:
            kept.append(await _keep_file(put_blob, each))
        except (BlobRefused, StoreFailed) as error:
            log.warning("file %s of a tool does not go out: %s", each.name, error)
            refused.append(f"[The file {_short_name(each.name)} does not go out with the answer: {error}]")
    return distinct_files(kept), "\n".join(refused)


def distinct_files(files: Iterable[OutboundFile]) -> tuple[OutboundFile, ...]:
    """Each content once, in the order in which they came, and no more than go out with one answer."""
    found = dict[str, OutboundFile]()
    for each in files:
        found.setdefault(each.blob, each)
    if len(found) > MOST_FILES:
        log.warning("%d files are too many for one answer; the first %d go out", len(found), MOST_FILES)
    return tuple(found.values())[:MOST_FILES]


async def _keep_file(put_blob: PutBlob, file: NewFile | OutboundFile) -> OutboundFile:
    if isinstance(file, OutboundFile):
        return file
    blob = await put_blob(file.data, file.mime)
    return OutboundFile(
        blob=blob.sha256, name=_short_name(file.name), mime=blob.media_type, alt=file.alt, size=blob.size
    )


def _short_name(name: str) -> str:
    """Without folders, line breaks and what else no name of a file has."""
    return re.sub(r"[^\w.() -]", "_", re.split(r"[/\\]", name)[-1])[-100:].strip() or "file"
