"""A deployment ends a worker in the middle of a batch: SIGTERM, and after a moment that is too short SIGKILL. What was at work is
delivered to the new worker, and charged again.

Mended: the worker is given the time that its longest run takes.
"""

from __future__ import annotations

import time

from shop import MENDED, app, charge, mark, visibility_timeout
from stage import Stage

ORDERS = 4

visibility_timeout(10)


@app.task(acks_late=True, business_key="settle_order:{order_id}")
def settle_order(order_id: int) -> None:
    charge(order_id)
    if mark("charged") <= 2:
        time.sleep(5)  # it writes the receipt
    mark("ended")


def play(stage: Stage) -> None:
    old = stage.worker("w1", concurrency=2)
    for order_id in range(ORDERS):
        settle_order.delay(order_id)
    stage.seen("charged", 2)
    old.ask_to_stop()
    if MENDED:
        old.process.wait(60)
    else:
        time.sleep(1)
        old.kill()
    stage.worker("w2", concurrency=2)
    stage.seen("ended", ORDERS)
