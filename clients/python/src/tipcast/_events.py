from __future__ import annotations

import os
import re
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ._types import Entry

_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}/[0-9]{1,16}")
_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,99}")


class EventStore:
    """Knows which entries were handled before, in a table beside your own data (SQLite 3.24 or newer, PostgreSQL).

        store = EventStore("game.db")
        store.create()

        def handle(entry):
            with store.once(entry) as cursor:
                if cursor:  # none: it is a repeat
                    cursor.execute("UPDATE accounts SET …")

    What you do with the cursor and the note that the entry is handled are one transaction: both happen, or neither does. It
    takes the path of an SQLite database; or a connection of `sqlite3`, `psycopg` or another driver of DB-API 2.0, which must
    not commit by itself; or a function that opens one: then a connection that was lost is opened anew. One entry is handled
    at a time, in whatever thread.
    """

    def __init__(self, connection: Any, table: str = "tipcast_events") -> None:
        if not _TABLE.fullmatch(table):
            raise ValueError(f"{table!r} is no name of a table")
        self._turn = threading.RLock()
        if isinstance(connection, (str, os.PathLike)):
            path = connection
            connection = lambda: sqlite3.connect(path, check_same_thread=False)  # noqa: E731
        # Connections of sqlite3 can be called too.
        is_open = hasattr(connection, "cursor")
        self._open: Any = None if is_open else connection
        self._connection: Any = _transactional(connection) if is_open else None
        self._table = table

    def _cursor(self) -> Any:
        if self._connection is None:
            self._connection = _transactional(self._open())
        return self._connection.cursor()

    def _undo(self) -> None:
        """Undoes the transaction, or closes the connection, so that a later commit cannot take half of it along."""
        if self._connection is None:
            return
        with suppress(Exception):
            self._connection.rollback()
            # psycopg's says so; where it cannot be asked, the next call finds out.
            if not getattr(self._connection, "closed", False):
                return
        with suppress(Exception):
            self._connection.close()
        if self._open is not None:
            self._connection = None

    def create(self) -> None:
        """Makes the table, unless it is there."""
        with self._turn:
            cursor = self._cursor()
            cursor.execute(
                f"CREATE TABLE IF NOT EXISTS {self._table} "
                "(event_id VARCHAR(96) PRIMARY KEY, at TIMESTAMP DEFAULT CURRENT_TIMESTAMP)"
            )
            self._connection.commit()

    @contextmanager
    def once(self, entry: Entry) -> Iterator[Any]:
        """A cursor inside the transaction, or `None` for an entry that was handled before."""
        event = entry["event_id"]
        # Parameters are spelled in another way by every driver; nothing in an event's id needs one.
        if not _ID.fullmatch(event):
            raise ValueError(f"{event!r} is no event's id")
        self._turn.acquire()
        try:
            cursor = self._cursor()
            cursor.execute(f"INSERT INTO {self._table} (event_id) VALUES ('{event}') ON CONFLICT DO NOTHING")
            if cursor.rowcount == 1:
                yield cursor
                self._connection.commit()
            else:
                yield None
                self._connection.rollback()
        except BaseException:
            self._undo()
            raise
        finally:
            self._turn.release()


def _transactional(connection: Any) -> Any:
    is_sqlite = isinstance(connection, sqlite3.Connection)
    if getattr(connection, "autocommit", False) is True or is_sqlite and connection.isolation_level is None:
        raise ValueError("the connection commits by itself; open it without autocommit")
    return connection
