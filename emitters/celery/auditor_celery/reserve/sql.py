"""Reservations in a table: a primary key lets one insert through, whatever the isolation level."""

from __future__ import annotations

import hashlib
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Literal

from .store import Taken

TABLE = "auditor_reservations"

CREATE = """CREATE TABLE IF NOT EXISTS {table} (
    id CHAR(64) NOT NULL PRIMARY KEY,
    reserved_key VARCHAR(1024) NOT NULL,
    state VARCHAR(16) NOT NULL,
    holder VARCHAR(1024) NOT NULL,
    token CHAR(32) NOT NULL,
    runs_out DOUBLE PRECISION NOT NULL
)"""
_INSERT = """INSERT INTO {table} (id, reserved_key, state, holder, token, runs_out)
VALUES (:id, :key, 'pending', :holder, :token, :runs_out)"""
_INHERIT = """UPDATE {table} SET state = 'pending', holder = :holder, token = :token, runs_out = :runs_out
WHERE id = :id AND runs_out < :now"""
_READ = "SELECT state, holder, runs_out FROM {table} WHERE id = :id"
_FINISH = "UPDATE {table} SET state = :state, runs_out = :runs_out WHERE id = :id AND token = :token"
_RELEASE = "DELETE FROM {table} WHERE id = :id AND token = :token"
_PURGE = "DELETE FROM {table} WHERE runs_out < :now"


class SQLStore(ABC):
    """What the stores over SQL share. Leases go by the clocks of the machines that run tasks."""

    def __init__(self, table: str = TABLE) -> None:
        if not table.replace("_", "").replace(".", "").isalnum():
            raise ValueError(f"table: is {table!r}, must be a plain name")
        self._table = table

    @abstractmethod
    def _insert(self, statement: str, values: Mapping[str, Any]) -> bool:
        """Inserts a row; False where its primary key is there already. An outer transaction stays usable."""

    @abstractmethod
    def _change(self, statement: str, values: Mapping[str, Any]) -> int:
        """Runs a statement; how many rows it changed."""

    @abstractmethod
    def _row(self, statement: str, values: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """Reads a row."""

    def create_table(self) -> None:
        """Creates the table where it is not there. A migration of yours may do so instead: see CREATE."""
        self._change(self._of(CREATE), {})

    def purge(self) -> int:
        """Deletes what has run out; how many reservations those were. To be called now and then."""
        return self._change(self._of(_PURGE), {"now": time.time()})

    def take(self, key: str, holder: str, token: str, lease: float) -> Taken:
        for _ in range(5):
            now = time.time()
            values = {"id": _id(key), "holder": holder, "token": token, "runs_out": now + lease}
            if self._insert(self._of(_INSERT), {**values, "key": key}) or self._change(
                self._of(_INHERIT), {**values, "now": now}
            ):
                return Taken("taken", holder, lease)
            row = self._row(self._of(_READ), {"id": _id(key)})
            if row is not None:
                return Taken(row[0], row[1], max(0.0, row[2] - now))
        raise RuntimeError(f"the reservation of {key} comes and goes faster than it can be read")

    def finish(self, key: str, token: str, state: Literal["done", "kept"], keep: float) -> bool:
        values = {"id": _id(key), "token": token, "state": state, "runs_out": time.time() + keep}
        return self._change(self._of(_FINISH), values) > 0

    def release(self, key: str, token: str) -> bool:
        return self._change(self._of(_RELEASE), {"id": _id(key), "token": token}) > 0

    def _of(self, statement: str) -> str:
        return statement.format(table=self._table)


def _id(key: str) -> str:
    """A key of any length as one that every database can index."""
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()
