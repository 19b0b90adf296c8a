"""A row against duplicates is written before the work. The work fails, and the retry finds the row and stands aside: the order
is never settled.

Mended: the reservation is released where the work fails.
"""

from __future__ import annotations

from typing import Any

from shop import MENDED, app, charge, mark, redis
from stage import Stage

from auditor_celery import reserve_once, skipped
from auditor_celery.reserve.redis import RedisStore


def work(order_id: int) -> None:
    if mark("tried") == 1:
        raise ConnectionError("the bank does not answer")
    charge(order_id)


if MENDED:

    @app.task(bind=True, autoretry_for=(ConnectionError,), default_retry_delay=1, business_key="settle_order:{order_id}")
    def settle_order(self: Any, order_id: int) -> None:
        with reserve_once(f"settle_order:{order_id}", store=RedisStore(redis), on_failure="release") as mine:
            if mine:
                work(order_id)
                mark("ended")

else:

    @app.task(bind=True, autoretry_for=(ConnectionError,), default_retry_delay=1, business_key="settle_order:{order_id}")
    def settle_order(self: Any, order_id: int) -> None:
        if not redis.set(f"seen:{order_id}", self.request.id, nx=True):
            skipped("already_processed")
            mark("ended")
            return
        work(order_id)


def play(stage: Stage) -> None:
    stage.worker("w1")
    settle_order.delay(42)
    stage.seen("ended")
