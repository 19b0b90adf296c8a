"""A task has succeeded, but the connection to Redis breaks before its late acknowledgement. Redis has it for unfinished, and
delivers it again.

Mended: the charge carries a key that is the same for every attempt, and the bank drops the copy.
"""

from __future__ import annotations

import time

from shop import MENDED, app, charge, mark, redis, visibility_timeout
from stage import Line, Stage, until

visibility_timeout(3)


@app.task(acks_late=True, business_key="settle_order:{order_id}")
def settle_order(order_id: int) -> None:
    charge(order_id, safely=MENDED)
    mark("charged")
    until("the cut", lambda: redis.exists("mark:cut"))


def play(stage: Stage) -> None:
    line = Line(stage.port)
    first = stage.worker("w1", broker=f"redis://127.0.0.1:{line.port}/0")
    settle_order.delay(42)
    stage.seen("charged")
    line.cut()
    mark("cut")
    until("the end of the first run", lambda: "succeeded in" in first.text())
    stage.worker("w2")
    stage.seen("charged", 2)
    time.sleep(1)  # for its acknowledgement
    line.mend()
