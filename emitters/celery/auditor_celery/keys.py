"""Business keys: what a task's work is about, the same for every attempt and every copy.

A key comes from the first of these that is there: the header `auditor_business_key` of the message, the task's own
`business_key` (an option of `@app.task`, or the decorator below it), the rule for its name.
"""

from __future__ import annotations

import fnmatch
import inspect
import logging
import re
import types
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from string import Formatter
from typing import Any, TypeVar
from uuid import UUID

from . import lint
from .config import MAX_TEXT, ConfigError, KeySpec

log = logging.getLogger("auditor_celery")

HEADER = "auditor_business_key"
_MARK = "__auditor_business_key__"
_F = TypeVar("_F", bound=Callable[..., Any])


class KeyProblem(ValueError):
    """No key can be made of these arguments. No key is better than a wrong one, which would blend the work of two."""


def business_key(spec: KeySpec) -> Callable[[_F], _F]:
    """Marks a function with the business key of the task that it becomes. It stands below `@app.task`."""
    if not isinstance(spec, str) and not callable(spec):
        raise TypeError(f"business_key: is {spec!r}, must be a template or a function")

    def mark(function: _F) -> _F:
        if not isinstance(function, types.FunctionType):
            raise TypeError("business_key: must stand below @app.task, on the function itself")
        setattr(function, _MARK, spec)
        return function

    return mark


class Keys:
    """Makes the business keys of an application's tasks. Safe for concurrent use."""

    def __init__(self, rules: Mapping[str, KeySpec], strict: bool) -> None:
        self._rules = dict(rules)
        self._strict = strict
        self._made: dict[str, Key | None] = {}
        for name, spec in self._rules.items():
            Key(spec, None, own=False)  # raises where it is no template
            self._check(f"the rule {name!r}", spec)

    def register(self, task: Any) -> None:
        """Looks at a task's key: one of time or chance is told, or is an error where keys are strict."""
        key = self._find(task.name, task)
        self._made[task.name] = key
        if key is not None and key.own:
            self._check(f"task {task.name}", key.spec)

    def of(self, name: str, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any], header: object) -> str | None:
        """The business key of a message; None where nothing says how to make one. The task is None where it is not
        registered in this process. Raises KeyProblem where the arguments make none."""
        if header is not None:
            return _bounded(_text(header))
        if name not in self._made:
            if task is not None:
                self.register(task)
            else:
                self._made[name] = self._find(name, None)
        key = self._made[name]
        return None if key is None else key.make(args, kwargs)

    def _find(self, name: str, task: Any) -> Key | None:
        spec = _own(task) if task is not None else None
        own = spec is not None
        if spec is None:
            spec = self._rule(name)
        return None if spec is None else Key(spec, task, own)

    def _rule(self, name: str) -> KeySpec | None:
        if name in self._rules:
            return self._rules[name]
        fitting = [pattern for pattern in self._rules if fnmatch.fnmatchcase(name, pattern)]
        return self._rules[max(fitting, key=len)] if fitting else None

    def _check(self, what: str, spec: KeySpec) -> None:
        problems = lint.of_template(spec) if isinstance(spec, str) else lint.of_function(spec)
        if not problems:
            return
        message = f"business key of {what}: {'; '.join(problems)}. Build it from what the work is about, an order's number say"
        if self._strict:
            raise ConfigError("auditor_celery: " + message)
        log.warning("%s", message)


def _own(task: Any) -> KeySpec | None:
    """The key that a task itself tells. A function in a class is looked up as it is, not as a method."""
    spec: Any = inspect.getattr_static(task, "business_key", None)
    if spec is None:
        spec = getattr(getattr(task, "__wrapped__", None), _MARK, None) or getattr(task.run, _MARK, None)
    if isinstance(spec, staticmethod):
        spec = spec.__func__
    if spec is None or isinstance(spec, str):
        return spec
    if callable(spec):
        function: KeySpec = spec
        return function
    raise ConfigError(f"auditor_celery: business key of task {task.name}: is {spec!r}, must be a template or a function")


class Key:
    """How the key of one task is made."""

    def __init__(self, spec: KeySpec, task: Any, own: bool) -> None:
        self.spec = spec
        self.own = own
        self.make = self._template(spec, task, own) if isinstance(spec, str) else self._function(spec)

    @staticmethod
    def _function(spec: Callable[..., Any]) -> Callable[[Sequence[Any], Mapping[str, Any]], str | None]:
        def make(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
            try:
                made = spec(*args, **kwargs)
            except Exception as e:
                raise KeyProblem(f"its function raised {type(e).__name__}") from e
            return None if made is None else _bounded(_text(made))

        return make

    @staticmethod
    def _template(spec: str, task: Any, own: bool) -> Callable[[Sequence[Any], Mapping[str, Any]], str | None]:
        parameters = _parameters(task)
        formatter = Formatter()
        parts = []
        try:
            fields = list(formatter.parse(spec))
        except ValueError as e:
            raise ConfigError(f"auditor_celery: business key {spec!r} is no template: {e}") from e
        for literal, name, form, conversion in fields:
            getter = None if name is None else _getter(spec, name, parameters, task, own)
            parts.append((literal, getter, form or "", conversion))

        def make(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
            text = ""
            for literal, getter, form, conversion in parts:
                text += literal
                if getter is not None:
                    value = getter(args, kwargs)
                    if form or conversion:
                        text += format(formatter.convert_field(value, conversion) if conversion else value, form)
                    else:
                        text += _text(value)
            return _bounded(text)

        return make


def _parameters(task: Any) -> dict[str, tuple[int | None, Any]] | None:
    """Where the arguments of a task stand: name to position (None: by name only) and default. None: it is not known."""
    if task is None:
        return None
    try:
        signature = inspect.signature(task.run)
    except (TypeError, ValueError):
        return None
    found: dict[str, tuple[int | None, Any]] = {}
    for position, p in enumerate(signature.parameters.values()):
        if p.kind is p.VAR_KEYWORD:
            return None  # any name may come
        if p.kind is not p.VAR_POSITIONAL:
            found[p.name] = (None if p.kind is p.KEYWORD_ONLY else position, p.default)
    return found


def _getter(
    spec: str, name: str, parameters: dict[str, tuple[int | None, Any]] | None, task: Any, own: bool
) -> Callable[[Sequence[Any], Mapping[str, Any]], Any]:
    """Compiles one field of a template: an argument's name or position, and what is in it."""
    try:
        first, rest = _split(name)
    except ValueError as e:
        raise ConfigError(f"auditor_celery: business key {spec!r}: {e}") from None
    if isinstance(first, str) and parameters is not None and first not in parameters and own:
        raise ConfigError(
            f"auditor_celery: business key of task {task.name}: {spec!r} names {first!r}, which is none of its arguments"
            f" ({', '.join(parameters) or 'it has none'})"
        )
    if isinstance(first, int):
        position: int | None = first
        default: Any = inspect.Parameter.empty
    else:
        position, default = (parameters or {}).get(first, (None, inspect.Parameter.empty))

    def get(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if first in kwargs:
            value = kwargs[first]  # type: ignore[index]
        elif position is not None and position < len(args):
            value = args[position]
        elif default is not inspect.Parameter.empty:
            value = default
        else:
            raise KeyProblem(f"the argument {first!r} is not there")
        for is_attribute, step in rest:
            try:
                value = getattr(value, str(step)) if is_attribute else value[step]
            except (AttributeError, LookupError, TypeError):
                raise KeyProblem(f"{name!r} is not in the arguments") from None
        return value

    return get


_FIELD = re.compile(r"([^.\[\]]+)((?:\.[^.\[\]]+|\[[^\]]+\])*)")
_STEP = re.compile(r"\.([^.\[\]]+)|\[([^\]]+)\]")


def _split(name: str) -> tuple[str | int, list[tuple[bool, str | int]]]:
    """The parts of a field's name as str.format reads them, order.id, order[id] or 0: what it begins with, and the steps into
    it, each an attribute or an index. Raises ValueError where it has no such form."""
    match = _FIELD.fullmatch(name)
    if match is None:
        raise ValueError(f"{name!r} names no argument")
    steps: list[tuple[bool, str | int]] = []
    for attribute, index in _STEP.findall(match[2]):
        steps.append((True, attribute) if attribute else (False, int(index) if index.isdigit() else index))
    return (int(match[1]) if match[1].isdigit() else match[1]), steps


def _text(value: object) -> str:
    """The text of an argument that can be a part of a key: text, a number, a UUID."""
    if isinstance(value, str):
        text = value
    elif isinstance(value, (int, Decimal, UUID, float)):
        text = str(value)
    else:
        raise KeyProblem(f"{type(value).__name__} is no text or number")
    if not text:
        raise KeyProblem("an argument is empty")
    return text


def _bounded(key: str) -> str:
    if len(key.encode("utf-8", "replace")) > MAX_TEXT:
        raise KeyProblem(f"the key has more than {MAX_TEXT} bytes")
    return key
