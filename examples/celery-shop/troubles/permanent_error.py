"""`autoretry_for=(Exception,)` retries a declined card, which no retry ever heals.

Mended: only what may heal is retried.
"""

from __future__ import annotations

from shop import MENDED, app, mark
from stage import Stage

ORDERS = 6
RETRIES = 2


class CardDeclined(Exception):
    pass


@app.task(
    autoretry_for=(ConnectionError, TimeoutError) if MENDED else (Exception,),
    max_retries=RETRIES,
    default_retry_delay=1,
    business_key="settle_order:{order_id}",
)
def settle_order(order_id: int) -> None:
    mark("tried")
    raise CardDeclined(f"the card of order {order_id} is blocked")


def play(stage: Stage) -> None:
    stage.worker("w1", concurrency=2)
    for order_id in range(ORDERS):
        settle_order.delay(order_id)
    stage.seen("tried", ORDERS if MENDED else ORDERS * (1 + RETRIES))
