"""Reservations over SQLAlchemy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from .sql import TABLE, SQLStore


class SQLAlchemyStore(SQLStore):
    """Keeps reservations in a table.

    bind: an Engine, and each change is committed at once; or a Session or Connection, and the reservation is a part of its
    transaction: it is done exactly when the work is, and another run waits for it at the insert.
    """

    def __init__(self, bind: Engine | Connection | Session, table: str = TABLE) -> None:
        super().__init__(table)
        self._bind = bind

    @contextmanager
    def _connection(self) -> Iterator[Connection | Session]:
        if isinstance(self._bind, Engine):
            with self._bind.begin() as connection:
                yield connection
        else:
            yield self._bind

    def _insert(self, statement: str, values: Mapping[str, Any]) -> bool:
        try:
            with self._connection() as connection, connection.begin_nested():
                connection.execute(text(statement), dict(values))
        except IntegrityError:
            return False
        return True

    def _change(self, statement: str, values: Mapping[str, Any]) -> int:
        with self._connection() as connection:
            return int(getattr(connection.execute(text(statement), dict(values)), "rowcount", 0))

    def _row(self, statement: str, values: Mapping[str, Any]) -> tuple[Any, ...] | None:
        with self._connection() as connection:
            row = connection.execute(text(statement), dict(values)).fetchone()
            return None if row is None else tuple(row)
