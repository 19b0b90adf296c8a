"""A whole worker is killed between the charge and the acknowledgement. When the visibility time-out has passed, another
worker gets the task, and charges the card again.

Mended: the charge carries a key that is the same for every attempt, and the bank drops the copy.
"""

from __future__ import annotations

import time

from shop import MENDED, app, charge, mark, visibility_timeout
from stage import Stage

visibility_timeout(3)


@app.task(acks_late=True, business_key="settle_order:{order_id}")
def settle_order(order_id: int) -> None:
    charge(order_id, safely=MENDED)
    if mark("charged") == 1:
        time.sleep(600)  # it has more to do


def play(stage: Stage) -> None:
    first = stage.worker("w1")
    settle_order.delay(42)
    stage.seen("charged")
    first.kill()
    stage.worker("w2")
    stage.seen("charged", 2)
