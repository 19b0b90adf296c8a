"""What is written can be read by the auditor: bounded, Unicode, one moment."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import pytest

from auditor_celery.text import args_digest, cut, moment, record


def test_text_that_is_no_unicode_is_replaced() -> None:
    assert json.loads(record({"task": "a\ud800b", "message": "ü\u0000\n"})) == {"task": "a?b", "message": "ü\u0000\n"}


def test_a_record_holds_no_number_that_json_has_none_for() -> None:
    with pytest.raises(ValueError, match="JSON"):
        record({"runtime": float("nan")})


@pytest.mark.parametrize("text", ["a" * 2000, "ü" * 1000, "€" * 400, "\U0001f600" * 300])
def test_a_cut_text_has_its_bytes_and_is_whole(text: str) -> None:
    short = cut(text)
    assert 1020 < len(short.encode()) <= 1024 and text.startswith(short)
    assert cut("short") == "short"


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        ("2026-11-02T08:00:01.204+01:00", 1793602801.204),
        ("2026-11-02T07:00:01.204Z", 1793602801.204),
        ("2026-11-02T07:00:01.204", 1793602801.204),
        (datetime(2026, 11, 2, 7, 0, 1, 204000, tzinfo=timezone.utc), 1793602801.204),
        (1793602801.204, 1793602801.204),
        ("soon", None),
        (None, None),
        ([], None),
    ],
)
def test_a_moment_is_unix_seconds(told: Any, seconds: float | None) -> None:
    assert moment(told) == seconds


def test_a_digest_is_of_the_arguments_alone() -> None:
    assert args_digest((1, "a"), {"x": 1, "y": 2}) == args_digest([1, "a"], {"y": 2, "x": 1})
    assert args_digest((1,), {}) != args_digest(("1",), {})
    assert args_digest((datetime(2026, 1, 1),), {}) == args_digest((datetime(2026, 1, 1),), {})
    assert args_digest((object(),), {}) is None
    assert args_digest((lambda: 1,), {}) is None

    class Asked:
        def __str__(self) -> str:
            raise AssertionError("a value that may ask a database for its text is not asked")

    assert args_digest((Asked(),), {}) is None
    loop: list[Any] = []
    loop.append(loop)
    assert args_digest(loop, {}) is None
