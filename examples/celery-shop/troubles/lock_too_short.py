"""A lock in Redis lives for less time than the task: when it has run out, a copy of the task gets it too, and both work at once.

Mended: the lock lives for longer than the longest run, and the copy stands aside.
"""

from __future__ import annotations

import time
from typing import Any

from shop import MENDED, app, charge, mark, redis
from stage import Stage, until

from auditor_celery import skipped


@app.task(bind=True, business_key="settle_order:{order_id}")
def settle_order(self: Any, order_id: int) -> None:
    lock = f"lock:{order_id}"
    if not redis.set(lock, self.request.id, nx=True, ex=60 if MENDED else 1):
        skipped("locked", holder=(redis.get(lock) or b"").decode())
        mark("ended")
        return
    mark("begun")
    time.sleep(4)
    charge(order_id)
    mark("ended")


def play(stage: Stage) -> None:
    stage.worker("w1")
    stage.worker("w2")
    settle_order.delay(42)
    stage.seen("begun")
    if not MENDED:
        until("the lock's end", lambda: not redis.exists("lock:42"))
    settle_order.delay(42)
    stage.seen("ended", 2)
