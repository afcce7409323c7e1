"""The store's port for blobs: a file is on disk before its row, and its row is gone before the file goes.

One lock covers every change of both, so that nobody removes a file that somebody else is about to refer to.
"""

import asyncio
import logging
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Final

from finclaw.diagnostics.crash_points import crash_point
from finclaw.kernel.record import Blob
from finclaw.storage.blobs import rows
from finclaw.storage.blobs.directory import BLOBS, BlobDirectory, describe_blob
from finclaw.storage.sqlite.codec import to_micros
from finclaw.storage.sqlite.writer import WriterClient

log = logging.getLogger(__name__)

GRACE: Final = timedelta(hours=1)
"""How long a blob may wait for its first use."""


class BlobRows(WriterClient):
    """The part of a store that keeps blobs."""

    @cached_property
    def _blob_lock(self) -> asyncio.Lock:
        return asyncio.Lock()

    async def put_blob(self, data: bytes, media_type: str = "") -> Blob:
        blob = await asyncio.to_thread(describe_blob, data, media_type)
        files = await self._blob_files()
        now = to_micros(self._clock.now())
        async with self._blob_lock:
            await asyncio.to_thread(files.write, blob.sha256, data)
            crash_point("blob:after_file")
            await self._commit(lambda db: rows.add(db, blob, now))
        crash_point("blob:after_commit")
        return blob

    async def read_blob(self, sha256: str) -> bytes | None:
        if not await self._read(lambda db: rows.is_known(db, sha256)):
            return None
        return await asyncio.to_thread((await self._blob_files()).read, sha256)

    async def sweep_blobs(self) -> int:
        files = await self._blob_files()
        if not files.is_there:
            return 0
        removed = await self._remove_unused_blobs()
        async with self._blob_lock:
            known = await self._read(rows.names)
            present = await asyncio.to_thread(files.names)
            for name in present - known:
                await asyncio.to_thread(files.erase, name)
        for name in known - present:
            log.error("blob %s is missing in %s; put that file back from a backup", name, BLOBS)
        return removed + len(present - known)

    async def _remove_unused_blobs(self) -> int:
        """What the last to use it has left. Raises StoreFailed; what stays of files then the next sweep removes."""
        before = to_micros(self._clock.now() - GRACE)
        async with self._blob_lock:
            unused = await self._commit(lambda db: rows.remove_unused(db, before))
            if unused:
                crash_point("blob:before_erase")
                files = await self._blob_files()
                for name in unused:
                    await asyncio.to_thread(files.erase, name)
        return len(unused)

    async def _copy_blobs(self, directory: Path) -> None:
        """For whoever holds the lock since the database was copied."""
        if names := await self._read(rows.names):
            await asyncio.to_thread((await self._blob_files()).copy_into, directory / BLOBS, names)

    async def _blob_files(self) -> BlobDirectory:
        return BlobDirectory(Path(await self._read(lambda db: db.filename)).parent / BLOBS)
