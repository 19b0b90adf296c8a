"""A pool child is killed after it has charged the card, as the kernel does when memory runs out. The message was not
acknowledged, so it is delivered again, and the card charged again.

Mended: the charge carries a key that is the same for every attempt, and the bank drops the copy.
"""

from __future__ import annotations

import os
import signal

from shop import MENDED, app, charge, mark
from stage import Stage


@app.task(acks_late=True, reject_on_worker_lost=True, business_key="settle_order:{order_id}")
def settle_order(order_id: int) -> None:
    charge(order_id, safely=MENDED)
    if mark("charged") == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def play(stage: Stage) -> None:
    stage.worker("w1")
    settle_order.delay(42)
    stage.seen("charged", 2)
