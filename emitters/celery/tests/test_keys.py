"""Business keys: where they come from, what makes none, and what is told of those of time and chance."""

from __future__ import annotations

import logging
import random
import time
import uuid
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from celery import Celery

from auditor_celery import business_key, lint
from auditor_celery.config import ConfigError, KeySpec
from auditor_celery.keys import KeyProblem, Keys


def task_of(function: Callable[..., Any], **options: Any) -> Any:
    app = Celery("keys", broker="memory://", set_as_current=False)
    app.task(function, name="shop.settle", shared=False, **options)
    return app.tasks["shop.settle"]


def settle(order_id: Any, currency: str = "EUR", *, copy: int = 0) -> None: ...


def key(spec: KeySpec, *args: Any, **kwargs: Any) -> str | None:
    task = task_of(settle, business_key=spec)
    return Keys({}, strict=False).of(task.name, task, args, kwargs, None)


@pytest.mark.parametrize(
    ("spec", "args", "kwargs", "made"),
    [
        ("order:{order_id}", (42,), {}, "order:42"),
        ("order:{order_id}", (), {"order_id": "a7"}, "order:a7"),
        ("order:{order_id}/{currency}", (42,), {}, "order:42/EUR"),
        ("order:{0}", (42,), {}, "order:42"),
        ("order:{order_id[id]}", ({"id": 7},), {}, "order:7"),
        ("order:{order_id[0]}", ([9],), {}, "order:9"),
        ("order:{order_id:06d}", (42,), {}, "order:000042"),
        ("order:{order_id!s:>4}", (42,), {}, "order:  42"),
        ("{order_id}", (Decimal("1.50"),), {}, "1.50"),
        ("{order_id}", (uuid.UUID(int=1),), {}, "00000000-0000-0000-0000-000000000001"),
        ("{{{order_id}}}", (1,), {}, "{1}"),
        ("{order_id.real}", (3,), {}, "3"),
        (lambda order_id, **_: f"f:{order_id}", (42,), {"copy": 1}, "f:42"),
        (lambda order_id: None, (42,), {}, None),
    ],
)
def test_a_key_is_made_of_the_arguments(spec: KeySpec, args: tuple[Any, ...], kwargs: dict[str, Any], made: str | None) -> None:
    assert key(spec, *args, **kwargs) == made


@pytest.mark.parametrize(
    ("spec", "args", "says"),
    [
        ("order:{order_id}", (), "not there"),
        ("order:{order_id}", ("",), "empty"),
        ("order:{order_id}", ({"id": 1},), "dict is no text or number"),
        ("order:{order_id}", (None,), "NoneType"),
        ("order:{order_id[id]}", ({},), "not in the arguments"),
        ("order:{order_id}", ("x" * 1024,), "1024 bytes"),
        (lambda order_id: order_id["id"], (7,), "raised TypeError"),
    ],
)
def test_no_key_is_better_than_a_wrong_one(spec: KeySpec, args: tuple[Any, ...], says: str) -> None:
    with pytest.raises(KeyProblem, match=says):
        key(spec, *args)


def test_a_header_wins_over_the_task_and_that_over_a_rule() -> None:
    keys = Keys({"shop.*": "rule:{order_id}", "shop.s*": "longer rule:{order_id}", "*": "any"}, strict=False)
    task = task_of(settle, business_key="own:{order_id}")
    assert keys.of(task.name, task, (1,), {}, "of the header") == "of the header"
    assert keys.of(task.name, task, (1,), {}, None) == "own:1"
    assert keys.of("shop.other", None, (), {"order_id": 1}, None) == "rule:1"
    assert keys.of("shop.sum", None, (), {"order_id": 1}, None) == "longer rule:1"
    plain = task_of(settle)
    assert Keys({}, strict=False).of(plain.name, plain, (1,), {}, None) is None


def test_a_rule_for_a_task_that_is_not_registered_here_knows_names_and_positions_only() -> None:
    keys = Keys({"shop.a": "{order_id}", "shop.b": "{0}"}, strict=False)
    with pytest.raises(KeyProblem):
        keys.of("shop.a", None, (1,), {}, None)
    assert keys.of("shop.b", None, (1,), {}, None) == "1"


def test_the_decorator_stands_below_app_task() -> None:
    @business_key("d:{order_id}")
    def marked(order_id: int) -> None: ...

    task = task_of(marked)
    assert Keys({}, strict=False).of(task.name, task, (5,), {}, None) == "d:5"

    def bound(self: Any, order_id: int) -> None: ...

    task = task_of(business_key("b:{order_id}")(bound), bind=True)
    assert Keys({}, strict=False).of(task.name, task, (6,), {}, None) == "b:6"
    with pytest.raises(TypeError, match="below @app.task"):
        business_key("x:{order_id}")(task)
    with pytest.raises(TypeError, match="must be a template"):
        business_key(7)  # type: ignore[arg-type]


@pytest.mark.parametrize("spec", ["order:{number}", "order:{", "order:{}", "order:{order_id[}", 42])
def test_a_template_that_can_never_work_is_refused_at_registration(spec: Any) -> None:
    with pytest.raises(ConfigError):
        Keys({}, strict=False).register(task_of(settle, business_key=spec))


def of_uuid(order_id: int) -> str:
    return f"order:{uuid.uuid4()}"


def of_now(order_id: int) -> str:
    return f"order:{datetime.now():%Y}"


def of_nested(order_id: int) -> str:
    return "".join(str(random.random()) for _ in range(2))


def of_name(order_id: int) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, str(order_id)))


class ByClass:
    def __call__(self, order_id: int) -> str:
        return str(time.time())


@pytest.mark.parametrize("function", [of_uuid, of_now, of_nested, ByClass(), partial(of_uuid), lambda order_id: time.monotonic()])
def test_a_function_of_time_or_chance_is_told(function: Callable[..., Any]) -> None:
    assert lint.of_function(function)


@pytest.mark.parametrize("function", [of_name, str, lambda order_id, time=None: f"{order_id}:{time}", partial(str)])
def test_a_stable_function_is_not(function: Callable[..., Any]) -> None:
    assert lint.of_function(function) == []


@pytest.mark.parametrize(
    "template", ["order:{uuid}", "order:{order[created].now}", "o:{timestamp}", "{task_id}", "{retries}", "all"]
)
def test_a_template_of_time_chance_or_the_attempt_is_told(template: str) -> None:
    assert lint.of_template(template)


@pytest.mark.parametrize("template", ["order:{order_id}", "o:{created_at}", "{order.number}:{line}", "{runtime}"])
def test_a_stable_template_is_not(template: str) -> None:
    assert lint.of_template(template) == []


def test_what_is_found_is_a_warning_or_where_keys_are_strict_an_error(caplog: pytest.LogCaptureFixture) -> None:
    task = task_of(settle, business_key=of_uuid)
    with caplog.at_level(logging.WARNING, "auditor_celery"):
        Keys({}, strict=False).register(task)
    assert "business key of task shop.settle: the name uuid" in caplog.text
    with pytest.raises(ConfigError, match="stands for chance"):
        Keys({}, strict=True).register(task)
    with pytest.raises(ConfigError, match="the rule 'mail"):
        Keys({"mail.*": of_now}, strict=True)
