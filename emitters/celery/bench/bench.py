"""Measures what this package costs: events a second through one process until Kafka has acknowledged them, and what it adds
to a task.

    python bench/bench.py --kafka 127.0.0.1:9092

The last line is JSON. The added time is the difference between the tracing of a task with the package and without, on
Celery's own path of execution, with the arguments, the key, and the two events (started, succeeded) of a real delivery;
`with_effect` adds a marked effect, so three events. It is the processor time of the thread that runs the task, for nothing in it
waits, so that a busy machine does not count. Each figure is the median of the rounds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import Any

from celery import Celery
from celery.app.trace import build_tracer

import auditor_celery
from auditor_celery.config import load
from auditor_celery.emitter import Emitter


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--kafka", required=True, help="host:port")
    arguments.add_argument("--topic", default="bench-events")
    arguments.add_argument("--events", type=int, default=200_000, help="a round")
    arguments.add_argument("--tasks", type=int, default=20_000, help="a round")
    arguments.add_argument("--rounds", type=int, default=5)
    o = arguments.parse_args()
    warm_up(o.kafka, o.topic)
    through = [throughput(o.kafka, o.topic, o.events) for _ in range(o.rounds)]
    added = [added_to_a_task(o.kafka, o.topic, o.tasks) for _ in range(o.rounds)]
    print(
        json.dumps(
            {
                "events_per_second": round(statistics.median(t[0] for t in through)),
                "emit_us": round(statistics.median(t[1] for t in through), 2),
                "task_us": round(statistics.median(a[0] for a in added), 1),
                "task_with_effect_us": round(statistics.median(a[1] for a in added), 1),
                "bare_task_us": round(statistics.median(a[2] for a in added), 1),
                "dropped": sum(t[2] for t in through) + sum(a[3] for a in added),
            }
        )
    )


def warm_up(kafka: str, topic: str) -> None:
    """Creates the topic."""
    emitter = Emitter(load({"bootstrap_servers": kafka, "topic": topic}, {}), "bench")
    emitter.emit({"type": "heartbeat", "worker": "bench", "time": time.time()})
    if emitter.flush(30):
        raise SystemExit(f"Kafka at {kafka} takes no events: {emitter.stats()['last_error']}")
    emitter.close()


def throughput(kafka: str, topic: str, count: int) -> tuple[float, float, int]:
    """Acknowledged events a second, microseconds that emit takes, and how many were dropped."""
    emitter = Emitter(
        load({"bootstrap_servers": kafka, "topic": topic, "buffer_events": count + 1, "buffer_bytes": 1 << 30}, {}), "bench"
    )
    began = time.perf_counter()
    for n in range(count):
        emitter.emit(
            {
                "system": "celery", "type": "succeeded", "task": "shop.settle_order",
                "task_id": f"6a0f3c9e-0000-4000-8000-{n:012d}",
                "business_key": f"settle_order:{n}", "execution_id": f"w1@host/17/19ab#{n}", "retries": 0, "max_retries": 3,
                "acks_late": True, "redelivered": False, "queue": "celery", "worker": "w1@host", "pid": 17, "time": time.time(),
                "root_id": f"6a0f3c9e-0000-4000-8000-{n:012d}", "runtime": 0.25,
            }
        )  # fmt: skip
    emitted = time.perf_counter()
    left = emitter.flush(120)
    done = time.perf_counter()
    dropped = left + sum(emitter.dropped.values())
    emitter.close()
    return (count - dropped) / (done - began), (emitted - began) / count * 1e6, dropped


def added_to_a_task(kafka: str, topic: str, count: int) -> tuple[float, float, float, int]:
    """Microseconds added to a task, to one with an effect, those of the bare task, and how many events were dropped."""
    app = Celery("bench", broker="memory://", set_as_current=False)
    app.conf.task_ignore_result = True

    def settle(order_id: int, amount: str) -> None:
        pass

    def charge(order_id: int, amount: str) -> None:
        with auditor_celery.effect("payment.charge", idempotency_key=f"settle_order:{order_id}", amount=amount):
            pass

    key = {"business_key": "settle_order:{order_id}"}
    app.task(settle, name="settle", shared=False, **key)
    app.task(charge, name="charge", shared=False, **key)
    tasks = [app.tasks["settle"], app.tasks["charge"]]
    bare = [traced(app, task, count) for task in tasks]
    auditor = auditor_celery.install(app, bootstrap_servers=kafka, topic=topic, buffer_events=8 * count, buffer_bytes=1 << 30)
    try:
        auditor.emitter.start()
        watched = [traced(app, task, count) for task in tasks]
        auditor.flush(60)
        dropped = sum(auditor.stats()["dropped"].values())
    finally:
        auditor_celery.uninstall()
    return watched[0] - bare[0], watched[1] - bare[1], bare[0], dropped


def traced(app: Celery, task: Any, count: int) -> float:
    """Microseconds of its thread's time that Celery takes to execute one task."""
    trace = build_tracer(task.name, task, app=app, hostname="w1@host")
    requests = [
        {
            "id": f"6a0f3c9e-0000-4000-8000-{n:012d}", "task": task.name, "hostname": "w1@host", "retries": 0,
            "root_id": f"6a0f3c9e-0000-4000-8000-{n:012d}", "auditor_execution": f"w1@host/17/19ab#{n}",
            "delivery_info": {"exchange": "", "routing_key": "celery", "priority": 0, "redelivered": False},
        }
        for n in range(count)
    ]  # fmt: skip
    began = time.thread_time()
    for n, request in enumerate(requests):
        trace(request["id"], (n, "49.00"), {}, request)
    return (time.thread_time() - began) / count * 1e6


if __name__ == "__main__":
    main()
