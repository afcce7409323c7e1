"""Direct use of an extension's database, also beside a running gateway, which keeps nothing of it in memory."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

from finclaw.kernel.extension import Database
from finclaw.storage.sqlite.extension import ExtensionDatabase

T = TypeVar("T")


def use_database(
    directory: Path, extension: str, migrations: Sequence[str], work: Callable[[Database], Awaitable[T]], nothing: T
) -> T:
    """Return what `work` makes of the database, or `nothing` if there is none: a command does not create one."""
    if not (directory / f"{extension}.db").exists():
        return nothing

    async def run() -> T:
        database = ExtensionDatabase(directory, extension, migrations, threaded=False)
        try:
            return await work(database)
        finally:
            await database.close()

    return asyncio.run(run())
