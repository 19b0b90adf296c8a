"""Finds business keys that are built from time or chance: every attempt would have another, and no copy could be
recognised. What is looked at are names, in a template's fields and in a function's code; it is not run."""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterator
from string import Formatter
from typing import Any

_CHANCE = {
    "uuid", "uuid1", "uuid4", "uuid6", "uuid7", "random", "randint", "randrange", "randbytes", "getrandbits",
    "urandom", "secrets", "token_hex", "token_bytes", "token_urlsafe", "nonce", "rand", "shuffle",
}  # fmt: skip
_TIME = {
    "now", "utcnow", "today", "time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns",
    "timestamp", "ts", "gmtime", "localtime", "strftime", "clock",
}  # fmt: skip
_ATTEMPT = {"retries", "attempt", "task_id", "request", "delivery_tag", "execution_id", "hostname", "pid", "getpid"}
_PURE = {"uuid3", "uuid5"}  # of names, made of their arguments alone


def of_template(template: str) -> list[str]:
    """What makes a template's key another one at each attempt; empty when nothing does."""
    problems = []
    names = [name for _, name, _, _ in Formatter().parse(template) if name is not None]
    if not names:
        problems.append("it names no argument, so that all runs of the task share one key")
    for name in names:
        for word in re.split(r"[.\[\]]+", name.rstrip("]")):  # order.id, order[id]
            problems += _of_name(word, f"the field {{{name}}}")
    return problems


def of_function(function: Callable[..., Any]) -> list[str]:
    """What makes a function's key another one at each attempt, as far as the names in its code tell."""
    code = _code(function)
    if code is None:
        return []
    problems: list[str] = []
    names = set(_names(code))
    if names & _PURE:
        names.discard("uuid")  # the module
    for name in sorted(names):
        problems += _of_name(name, f"the name {name}")
    return problems


def _code(function: Callable[..., Any]) -> types.CodeType | None:
    while hasattr(function, "func"):  # functools.partial
        function = function.func
    code = getattr(function, "__code__", None)
    if code is None:
        code = getattr(type(function).__call__, "__code__", None)
    return code if isinstance(code, types.CodeType) else None


def _names(code: types.CodeType) -> Iterator[str]:
    """The global names and attributes that code uses, and those of the functions in it. Its own arguments are none."""
    yield from code.co_names
    yield from code.co_freevars
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _names(const)


def _of_name(name: str, where: str) -> list[str]:
    word = name.lower().strip("_")
    for words, what in ((_CHANCE, "chance"), (_TIME, "time"), (_ATTEMPT, "the attempt")):
        if word in words:
            return [f"{where} stands for {what}"]
    return []
