"""What runs, effects and skips tell, with tasks that run in this process."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from celery import Celery
from celery.exceptions import Reject
from celery.signals import task_internal_error
from test_emitter import Kafka

import auditor_celery
from auditor_celery import ConfigError, effect, skipped
from auditor_celery.install import Auditor


@pytest.fixture
def app() -> Celery:
    app = Celery("runs", broker="memory://", set_as_current=False)
    app.conf.task_always_eager = True
    return app


@pytest.fixture
def kafka() -> Kafka:
    return Kafka()


@pytest.fixture
def auditor(app: Celery, kafka: Kafka) -> Iterator[Auditor]:
    installed = auditor_celery.install(app, bootstrap_servers="127.0.0.1:1", namespace="prod", permanent_errors=(KeyError,))
    installed.emitter._make = kafka
    yield installed
    auditor_celery.uninstall()


def told(kafka: Kafka) -> list[str]:
    return [e["type"] for e in kafka.taken]


def test_an_effect_is_told_when_its_block_ends(app: Celery, auditor: Auditor, kafka: Kafka) -> None:
    @app.task(name="pay", shared=False)
    def pay() -> None:
        with effect("a", target="t", amount=Decimal("1E+2"), currency="EUR") as e:
            e.idempotency_key = "k"
            e.deduplicated = True
        with pytest.raises(OSError), effect("not told"):
            raise OSError
        with pytest.raises(OSError), effect("told all the same") as e:
            e.done()
            raise OSError
        with effect("c", amount="a lot"), effect("b" * 2000):
            pass

    pay.delay()
    effects = [e["effect"] for e in kafka.taken if e["type"] == "effect"]
    assert effects == [
        {"name": "a", "target": "t", "idempotency_key": "k", "deduplicated": True, "amount": "100", "currency": "EUR"},
        {"name": "told all the same"},
        {"name": "b" * 1024},
        {"name": "c", "amount_told": "a lot"},
    ]
    assert {e["task_id"] for e in kafka.taken} == {kafka.taken[0]["task_id"]}
    assert all(e["namespace"] == "prod" and e["system"] == "celery" and e["attributes"] == {"eager": True} for e in kafka.taken)


def test_a_decorated_effect_is_filled_from_the_arguments(app: Celery, auditor: Auditor, kafka: Kafka) -> None:
    @effect("mail.send", idempotency_key="mail:{order_id}", target="{to.name}")
    def send(order_id: int, to: Any = None) -> str:
        """Sends."""
        return "sent"

    @app.task(name="mail", shared=False)
    def mail() -> None:
        assert send(7) == "sent"
        assert send(order_id=8) == "sent"

    mail.delay()
    assert [e["effect"] for e in kafka.taken if e["type"] == "effect"] == [
        {"name": "mail.send", "idempotency_key": "mail:7"},
        {"name": "mail.send", "idempotency_key": "mail:8"},
    ]
    assert send.__doc__ == "Sends." and send(1) == "sent"
    with pytest.raises(TypeError, match="plain functions"):

        @effect("x")
        async def later() -> None: ...


def test_outside_of_a_run_nothing_is_told() -> None:
    with effect("a"):
        pass
    skipped("locked")
    assert auditor_celery.run_id() is None and auditor_celery.stats() == {}


def test_a_run_is_found_by_what_it_calls(app: Celery, auditor: Auditor, kafka: Kafka) -> None:
    def pay(name: str) -> None:
        with effect(name):
            pass

    async def later() -> None:
        await asyncio.to_thread(pay, "thread of a loop")
        pay("coroutine")

    @app.task(name="inner", shared=False)
    def inner() -> None:
        pay("inner")

    @app.task(name="outer", shared=False)
    def outer() -> None:
        asyncio.run(later())
        thread = threading.Thread(target=contextvars.copy_context().run, args=(pay, "thread"))
        thread.start()
        thread.join()
        inner.delay()
        inner()  # a plain call is a part of this run
        pay("outer")

    outer.delay()
    assert [(e["task"], e["effect"]["name"]) for e in kafka.taken if e["type"] == "effect"] == [
        ("outer", "thread of a loop"), ("outer", "coroutine"), ("outer", "thread"),
        ("inner", "inner"), ("outer", "inner"), ("outer", "outer"),
    ]  # fmt: skip
    assert auditor_celery.run_id() is None


def test_one_end_a_run(app: Celery, auditor: Auditor, kafka: Kafka) -> None:
    @app.task(name="aside", shared=False)
    def aside() -> None:
        skipped("already_processed", holder="h")

    @app.task(name="fails", shared=False)
    def fails() -> None:
        skipped("locked")
        raise KeyError("gone for good")

    @app.task(name="requeued", shared=False)
    def requeued() -> None:
        raise Reject("not now", requeue=True)

    aside.delay()
    fails.delay()
    requeued.delay()
    ends = [e for e in kafka.taken if e["type"] != "started"]
    assert [e["type"] for e in ends] == ["skipped", "failed", "rejected"]
    assert ends[0]["skip"] == {"reason": "already_processed", "holder": "h"}
    assert ends[1]["error"] == {"type": "KeyError", "message": "'gone for good'", "permanent": True}
    assert ends[2]["requeue"] is True


def test_a_key_that_can_not_be_made_is_told(app: Celery, auditor: Auditor, kafka: Kafka) -> None:
    @app.task(name="settle", business_key="order:{order[id]}", shared=False)
    def settle(order: Any) -> None: ...

    settle.delay({"id": 4})
    settle.delay(None)
    assert kafka.taken[0]["business_key"] == "order:4"
    assert "business_key" not in kafka.taken[2] and "not in the arguments" in kafka.taken[2]["attributes"]["business_key_error"]


def test_a_task_is_not_harmed_by_a_defect(app: Celery, auditor: Auditor, kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    @app.task(name="works", shared=False)
    def works() -> int:
        with effect("a", amount=object()):  # type: ignore[arg-type]
            return 5

    monkeypatch.setattr("auditor_celery.execution.args_digest", lambda *_: 1 / 0)
    assert works.delay().result == 5
    assert auditor.stats()["dropped"]["defect"] == 1


def test_a_result_that_cannot_be_stored_is_no_second_end(app: Celery, auditor: Auditor, kafka: Kafka) -> None:
    @app.task(name="works", shared=False)
    def works() -> int:
        return 5

    done = works.delay()
    task_internal_error.send(sender=works, task_id=done.id, exception=OSError("the backend is away"), request={"id": done.id})
    assert told(kafka) == ["started", "succeeded"]


def test_install_is_once_and_says_what_is_wrong(app: Celery) -> None:
    with pytest.raises(ConfigError, match="bootstrap_servers"):
        auditor_celery.install(app)
    with pytest.raises(ConfigError, match="kafka: .*bogus"):
        auditor_celery.install(app, bootstrap_servers="k:1", kafka={"bogus": "x"})
    first = auditor_celery.install(app, bootstrap_servers="k:1")
    try:
        assert auditor_celery.install(app, bootstrap_servers="k:1") is first
        with pytest.raises(ConfigError, match="installed in this process already"):
            auditor_celery.install(app, bootstrap_servers="other:1")
    finally:
        auditor_celery.uninstall()
    off = auditor_celery.install(app, enabled=False)
    assert off.stats()["waiting"] == 0
    auditor_celery.uninstall()


def test_keys_are_looked_at_when_tasks_are_registered(app: Celery, caplog: pytest.LogCaptureFixture) -> None:
    @app.task(name="settle", business_key="order:{uuid}", shared=False)
    def settle(uuid: str) -> None: ...

    auditor_celery.install(app, bootstrap_servers="k:1", strict_keys=True)
    app.finalize()
    assert "business key of task settle: the field {uuid} stands for chance" in caplog.text
    auditor_celery.uninstall()
    with pytest.raises(ConfigError, match="chance"):
        auditor_celery.install(app, bootstrap_servers="k:1", strict_keys=True)
    assert auditor_celery.stats() == {}
    auditor_celery.install(app, bootstrap_servers="k:1")
    auditor_celery.uninstall()
