"""Reservations over Django's database connections."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, connections, transaction

from .sql import TABLE, SQLStore

_NAME = re.compile(r":(\w+)")


class DjangoStore(SQLStore):
    """Keeps reservations in a table of one of Django's databases. Within `transaction.atomic` the reservation is a part of
    that transaction: it is done exactly when the work is, and another run waits for it at the insert."""

    def __init__(self, using: str = "default", table: str = TABLE) -> None:
        super().__init__(table)
        self._using = using

    def _insert(self, statement: str, values: Mapping[str, Any]) -> bool:
        try:
            with transaction.atomic(using=self._using):
                self._change(statement, values)
        except IntegrityError:
            return False
        return True

    def _change(self, statement: str, values: Mapping[str, Any]) -> int:
        with connections[self._using].cursor() as cursor:
            cursor.execute(_NAME.sub(r"%(\1)s", statement), dict(values) or None)
            return int(cursor.rowcount)

    def _row(self, statement: str, values: Mapping[str, Any]) -> tuple[Any, ...] | None:
        with connections[self._using].cursor() as cursor:
            cursor.execute(_NAME.sub(r"%(\1)s", statement), dict(values))
            row = cursor.fetchone()
            return None if row is None else tuple(row)
