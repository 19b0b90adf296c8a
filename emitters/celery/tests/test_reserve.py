"""reserve_once over each store: one run at a time, done once, released or kept, inherited when its lease has run out."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from celery.exceptions import Retry
from sqlalchemy import create_engine, event
from sqlalchemy.orm import Session

from auditor_celery import InFlight, reserve_once
from auditor_celery.reserve.redis import RedisStore
from auditor_celery.reserve.sqlalchemy import SQLAlchemyStore
from auditor_celery.reserve.store import Store
from auditor_celery.run import Run, current


class Emitted:
    """Stands for an emitter."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def emit(self, event: dict[str, Any]) -> None:
        self.events.append(event)

    def guard(self, _what: str) -> Any:
        return nullcontext()


class As:
    """Runs a block as a task's run."""

    def __init__(self, task_id: str) -> None:
        self.run = Run(Emitted(), {"task_id": task_id, "task": "t"}, (), 0)  # type: ignore[arg-type]

    def __enter__(self) -> Run:
        self._token = current.set(self.run)
        return self.run

    def __exit__(self, *_: object) -> None:
        current.reset(self._token)


@pytest.fixture(params=["redis", "sqlalchemy", "django"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "redis":
        import redis

        client = redis.Redis.from_url(request.getfixturevalue("redis_url") + "/1")
        client.flushdb()
        yield RedisStore(client)
    elif request.param == "sqlalchemy":
        engine = create_engine(f"sqlite:///{tmp_path}/once.db", connect_args={"timeout": 30})
        made = SQLAlchemyStore(engine)
        made.create_table()
        made.create_table()
        yield made
        engine.dispose()
    else:
        yield from django(tmp_path)


def django(tmp_path: Path) -> Iterator[Store]:
    from django import setup as django_setup
    from django.conf import settings
    from django.db import connections

    database = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "once.db"), "OPTIONS": {"timeout": 30}}
    if not settings.configured:
        settings.configure(DATABASES={"default": database})
        django_setup()
    connections["default"].close()
    connections["default"].settings_dict["NAME"] = database["NAME"]
    from auditor_celery.reserve.django import DjangoStore

    made = DjangoStore()
    made.create_table()
    yield made
    connections["default"].close()


def test_work_is_done_once_and_copies_are_told_as_skipped(store: Store) -> None:
    with As("first") as run:
        with reserve_once("order:1", store=store) as mine:
            assert mine and mine.state == "taken" and run.notes["reservation"] == {"key": "order:1", "state": "pending"}
        assert run.notes["reservation"]["state"] == "done" and run.skip is None
    with As("second") as run, reserve_once("order:1", store=store) as mine:
        assert not mine and mine.state == "done" and mine.holder == "first"
        assert run.skip == {"reason": "already_processed", "holder": "first"}
    with As("third"), reserve_once("order:2", store=store) as mine:
        assert mine


def test_a_failure_releases_or_keeps(store: Store) -> None:
    with As("first") as run:
        with pytest.raises(LookupError), reserve_once("order:1", store=store, on_failure="release"):
            raise LookupError
        assert run.notes["reservation"]["state"] == "released"
        with pytest.raises(LookupError), reserve_once("order:1", store=store) as mine:
            mine.on_failure = "keep"  # the effect may have happened
            raise LookupError
        assert run.notes["reservation"]["state"] == "kept"
    with As("second") as run, reserve_once("order:1", store=store) as mine:
        assert not mine and run.skip == {"reason": "duplicate_ignored", "holder": "first"}


def test_what_is_in_flight_is_raised_skipped_or_retried(store: Store) -> None:
    with As("first"), reserve_once("order:1", store=store, lease=50), As("second") as run:
        with (
            pytest.raises(InFlight, match="order:1 is reserved by first"),
            reserve_once("order:1", store=store, in_flight="raise"),
        ):
            raise AssertionError("it must not run")
        assert run.skip is None
        with reserve_once("order:1", store=store, in_flight="skip") as mine:
            assert not mine
        assert run.skip == {"reason": "in_flight", "holder": "first"}


def test_to_wait_uses_up_no_retries(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    app = Celery("once", broker="memory://", set_as_current=False)
    asked: dict[str, Any] = {}

    @app.task(name="settle", bind=True, max_retries=3, shared=False)
    def settle(self: Any) -> None:
        self.request.retries = 3  # all of its own are used up
        monkeypatch.setattr(type(self), "retry", lambda _, **how: asked.update(how) or Retry())
        with As("second"), reserve_once("order:1", store=store):
            raise AssertionError("it must not run")

    with As("first"), reserve_once("order:1", store=store, lease=50):
        result = app.tasks["settle"].apply()
    assert isinstance(result.result, Retry)
    assert asked["max_retries"] == 4 and isinstance(asked["exc"], InFlight)
    assert 1 <= asked["countdown"] <= 50


def test_a_lease_that_ran_out_is_inherited_and_its_holder_told(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    with As("first") as first:
        with reserve_once("order:1", store=store, lease=0.001):
            threading.Event().wait(0.05)
            with As("second") as second:
                with reserve_once("order:1", store=store) as mine:
                    assert mine
                assert second.notes["reservation"]["state"] == "done"
        assert first.notes["reservation"]["state"] == "lost"
    assert "ran out" in caplog.text
    with As("third"), reserve_once("order:1", store=store) as mine:
        assert not mine and mine.holder == "second"


def test_one_of_many_gets_it(store: Store) -> None:
    won: list[int] = []
    gate = threading.Barrier(8)

    def attempt(n: int) -> None:
        gate.wait()
        taken = store.take("order:1", f"t{n}", f"{n:032d}", 60)
        if taken.state == "taken":
            won.append(n)
        from django.db import connections

        if type(store).__name__ == "DjangoStore":
            connections.close_all()

    threads = [threading.Thread(target=attempt, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(won) == 1


def test_a_decorated_function_is_not_called_again(store: Store) -> None:
    calls = []

    @reserve_once("order:{order_id}", store=store)
    def settle(order_id: int, amount: str = "1") -> str:
        calls.append(order_id)
        return "done"

    assert [settle(1), settle(1), settle(order_id=2)] == ["done", None, "done"] and calls == [1, 2]
    assert settle.__name__ == "settle"


def test_wrong_use_is_refused(store: Store) -> None:
    with pytest.raises(ValueError, match="on_failure"):
        reserve_once("k", store=store, on_failure="perhaps")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="in_flight"):
        reserve_once("k", store=store, in_flight="perhaps")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="more than 0"):
        reserve_once("k", store=store, lease=0)
    with pytest.raises(ValueError, match="key"), reserve_once("", store=store):
        pass
    with pytest.raises(TypeError, match="plain functions"):

        @reserve_once("k", store=store)
        async def f() -> None: ...


def test_in_a_session_the_reservation_stands_and_falls_with_the_work(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/once.db")

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # else SQLite's driver lets a savepoint's end commit

    @event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN")

    SQLAlchemyStore(engine).create_table()
    with Session(engine) as session:
        with reserve_once("order:1", store=SQLAlchemyStore(session)) as mine:
            assert mine
        session.rollback()  # the work failed after all
    with Session(engine) as session:
        with reserve_once("order:1", store=SQLAlchemyStore(session)) as mine:
            assert mine
        with reserve_once("order:1", store=SQLAlchemyStore(session)) as mine:
            assert not mine
        session.commit()
    store = SQLAlchemyStore(engine)
    assert store.take("order:1", "", "x" * 32, 1).state == "done" and store.purge() == 0
    with pytest.raises(ValueError, match="plain name"):
        SQLAlchemyStore(engine, table="a; drop table b")
