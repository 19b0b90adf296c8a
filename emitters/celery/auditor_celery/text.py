"""What the auditor can read: bounded text, moments in Unix seconds, one JSON object an event."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID

from .config import MAX_TEXT

MAX_MESSAGE = 4096  # bytes of an error's message; a longer one is cut

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_digest = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=lambda o: _stable(o)).encode


def record(event: Mapping[str, Any]) -> bytes:
    """One event as JSON. Text that is no Unicode, such as a lone surrogate, is replaced."""
    return _encode(event).encode("utf-8", "replace")


def cut(text: str, limit: int = MAX_TEXT) -> str:
    """The beginning of text that fits into so many bytes."""
    if len(text) * 4 <= limit:
        return text
    raw = text.encode("utf-8", "replace")
    return text if len(raw) <= limit else raw[:limit].decode("utf-8", "ignore")


def moment(told: object) -> float | None:
    """Unix seconds of an ISO 8601 text, a datetime or a number; None where it is none. A time without a zone is in UTC."""
    if isinstance(told, (int, float)):
        return float(told)
    if isinstance(told, str):
        try:
            told = datetime.fromisoformat(told.replace("Z", "+00:00"))
        except ValueError:
            return None
    if not isinstance(told, datetime):
        return None
    return (told if told.tzinfo else told.replace(tzinfo=timezone.utc)).timestamp()


def args_digest(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
    """A digest of a task's arguments; None where they have no text that is the same in every process."""
    try:
        text = _digest([list(args), dict(kwargs)])
    except Exception:  # a value may do anything when it is asked for its text
        return None
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


def _stable(value: object) -> str:
    """The text of a value that JSON has no form for, of the types whose text costs nothing and is the same everywhere."""
    if not isinstance(value, (date, time, timedelta, Decimal, UUID, Enum, PurePath)):
        raise TypeError(f"{type(value).__name__} has no stable text")
    return str(value)
