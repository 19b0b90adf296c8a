"""A task runs for longer than Redis's visibility time-out. It is delivered to a second worker while the first is still at it,
and both charge the card.

Mended: the visibility time-out is longer than the longest run.
"""

from __future__ import annotations

import time

from shop import MENDED, app, charge, mark, visibility_timeout
from stage import Stage

visibility_timeout(60 if MENDED else 2)


@app.task(acks_late=True, business_key="settle_order:{order_id}")
def settle_order(order_id: int) -> None:
    time.sleep(7)
    charge(order_id)
    mark("charged")


def play(stage: Stage) -> None:
    stage.worker("w1")
    stage.worker("w2")
    settle_order.delay(42)
    stage.seen("charged", 1 if MENDED else 2)
