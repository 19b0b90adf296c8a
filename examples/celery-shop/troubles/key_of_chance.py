"""The business key is built from a random number: every attempt has another, and no copy of the work could be recognised.
The package warns of it when the task is registered.

Mended: the key is the order's number.
"""

from __future__ import annotations

import uuid

from shop import MENDED, app, charge, mark
from stage import Stage


@app.task(business_key="settle_order:{order_id}" if MENDED else lambda order_id: f"settle_order:{uuid.uuid4()}")
def settle_order(order_id: int) -> None:
    charge(order_id)
    mark("charged")


def play(stage: Stage) -> None:
    stage.worker("w1")
    settle_order.delay(42)
    stage.seen("charged")
