"""The shop: a Celery application that tells the auditor what it does, and a bank that charges cards."""

from __future__ import annotations

import os

from celery import Celery
from redis import Redis

import auditor_celery
from auditor_celery import effect

MENDED = os.environ.get("SHOP_MENDED") == "1"

app = Celery("shop", broker=os.environ["SHOP_BROKER"])
app.conf.update(
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
    worker_cancel_long_running_tasks_on_connection_loss=False,
)
auditor_celery.install(app)  # where to: AUDITOR_CELERY_BOOTSTRAP_SERVERS


def visibility_timeout(seconds: int) -> None:
    """How long a message may go without its acknowledgement before Redis's transport delivers it again."""
    app.conf.broker_transport_options = {
        "visibility_timeout": seconds,
        "unacked_restore_interval": 1,  # how often what has timed out is looked for; by default about 100 s
        "unacked_restore_throttle": 1,
    }


visibility_timeout(3600)
redis = Redis.from_url(os.environ["SHOP_REDIS"])


def charge(order_id: int, *, safely: bool = False) -> None:
    """Charges the card of an order. Safely: under a key that is the same for every attempt, by which the bank knows a copy and
    drops it."""
    key = f"settle_order:{order_id}" if safely else None
    with effect("payment.charge", idempotency_key=key, amount="49.00", currency="EUR") as e:
        if key is not None:
            e.deduplicated = not redis.set("bank:" + key, "charged", nx=True)
        if not e.deduplicated:
            redis.incr("charges")


def mark(what: str) -> int:
    """Notes that something has happened, for the play to go on; how often it has by now."""
    return int(redis.incr("mark:" + what))
