"""The application that the tests' workers run."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from celery import Celery
from celery.exceptions import Ignore, Reject

import auditor_celery
from auditor_celery import business_key, effect, reserve_once, skipped

app = Celery("shop", broker=os.environ["SHOP_BROKER"])
app.conf.update(
    task_default_queue=os.environ["SHOP_QUEUE"],
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
)
if app.conf.broker_url.startswith("redis"):
    app.conf.broker_transport_options = {
        "visibility_timeout": int(os.environ.get("SHOP_VISIBILITY", "3600")),
        "unacked_restore_interval": 1,
        "unacked_restore_throttle": 1,
    }
auditor_celery.install(app, keys={"shop.by_rule": "rule:{order_id}"})


class Declined(Exception):
    permanent = True


@app.task(name="shop.settle", business_key="settle_order:{order_id}")
def settle(order_id: int, amount: str = "1.00") -> str:
    with effect("payment.charge", idempotency_key=f"settle_order:{order_id}", amount=amount, currency="EUR"):
        pass
    return "charged"


@app.task(name="shop.flaky", bind=True, max_retries=2)
@business_key(lambda self_order, **_: f"flaky:{self_order}")
def flaky(self: Any, self_order: int) -> None:
    raise self.retry(exc=ConnectionError("upstream 503"), countdown=0.2)


@app.task(name="shop.permanent", bind=True, max_retries=1)
def permanent(self: Any) -> None:
    try:
        raise Declined("card declined")
    except Declined as e:
        raise self.retry(exc=e, countdown=0) from e


@app.task(name="shop.by_rule")
def by_rule(order_id: int) -> None:
    raise ValueError("no such order")


@app.task(name="shop.ignored")
def ignored() -> None:
    raise Ignore


@app.task(name="shop.aside")
def aside() -> None:
    skipped("locked", holder="another-id")
    raise Ignore


@app.task(name="shop.refused")
def refused() -> None:
    raise Reject("poison", requeue=False)


@app.task(name="shop.killed", bind=True, acks_late=True, reject_on_worker_lost=True, business_key="killed:{order_id}")
def killed(self: Any, order_id: int) -> None:
    with effect("payment.charge", wait=5):
        pass
    if not self.request.delivery_info["redelivered"]:
        os.kill(os.getpid(), signal.SIGKILL)


@app.task(name="shop.killed_early")
def killed_early() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(name="shop.hard", time_limit=1)
def hard() -> None:
    time.sleep(60)


@app.task(name="shop.slow", acks_late=True, business_key="slow:{order_id}")
def slow(order_id: int, seconds: float) -> None:
    with effect("payment.charge"):
        pass
    time.sleep(seconds)


@app.task(name="shop.stats")
def stats() -> dict[str, Any]:
    return auditor_celery.stats()


__all__ = [name for name in globals() if not name.startswith("_")]
_ = reserve_once
