"""The bank is away for a moment, and a hundred tasks retry at a fixed interval, without jitter: all of them come back at the
same moments.

Mended: the interval grows, and chance spreads the retries.
"""

from __future__ import annotations

from typing import Any

from shop import MENDED, app, charge, mark
from stage import Stage

ORDERS = 100


@app.task(
    bind=True,
    autoretry_for=(ConnectionError,),
    max_retries=5,
    business_key="settle_order:{order_id}",
    **({"retry_backoff": 8, "retry_jitter": True} if MENDED else {"default_retry_delay": 3, "retry_backoff": False}),
)
def settle_order(self: Any, order_id: int) -> None:
    if self.request.retries < 2:
        raise ConnectionError("the bank does not answer")
    charge(order_id)
    mark("charged")


def play(stage: Stage) -> None:
    stage.worker("w1", concurrency=4)
    for order_id in range(ORDERS):
        settle_order.delay(order_id)
    stage.seen("charged", ORDERS)
