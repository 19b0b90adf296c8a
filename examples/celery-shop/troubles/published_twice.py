"""An order is published twice: somebody pressed the button again, or a request was sent again. Both tasks charge the card.

Mended: the order is reserved once, and the second task stands aside.
"""

from __future__ import annotations

from shop import MENDED, app, charge, mark, redis
from stage import Stage

from auditor_celery import reserve_once
from auditor_celery.reserve.redis import RedisStore

if MENDED:

    @app.task(business_key="settle_order:{order_id}")
    def settle_order(order_id: int) -> None:
        with reserve_once(f"settle_order:{order_id}", store=RedisStore(redis)) as mine:
            if mine:
                charge(order_id)
        mark("ended")

else:

    @app.task(business_key="settle_order:{order_id}")
    def settle_order(order_id: int) -> None:
        charge(order_id)
        mark("ended")


def play(stage: Stage) -> None:
    stage.worker("w1")
    settle_order.delay(42)
    settle_order.delay(42)
    stage.seen("ended", 2)
