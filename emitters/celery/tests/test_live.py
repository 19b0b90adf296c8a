"""Real workers on Redis, pool children and all, read back from Kafka."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
from conftest import HERE, Worker, until
from reading import Events

Start = Callable[..., Worker]
Publish = Callable[[str], str]


def test_a_success_is_told_from_publication_to_end(start: Start, publish: Publish, events: Events) -> None:
    start("w1", "-c", "1")
    task_id = publish("print(settle.delay(42, amount='49.00').id)")
    events.wait_for("succeeded", "shop.settle")
    story = events.story(task_id)
    assert [e["type"] for e in story] == ["sent", "received", "started", "effect", "succeeded"]
    sent, received, started, done, end = story
    assert {e["business_key"] for e in story} == {"settle_order:42"} == {e["_key"] for e in story}
    assert {e["retries"] for e in story} == {0}
    assert len({e["execution_id"] for e in story[1:]}) == 1 and "execution_id" not in sent
    assert {e["worker"] for e in story[1:]} == {"w1@h"} and sent["worker"].startswith("gen")
    assert received["redelivered"] is False and started["acks_late"] is False and started["max_retries"] == 3
    assert received["pid"] != started["pid"] == done["pid"] == end["pid"]
    assert sent["args_digest"] == started["args_digest"]
    assert done["effect"] == {
        "name": "payment.charge",
        "idempotency_key": "settle_order:42",
        "amount": "49.00",
        "currency": "EUR",
    }
    assert end["runtime"] >= 0
    assert len({(e["emitter"], e["seq"]) for e in story}) == 5 and len({e["emitter"] for e in story}) == 3


def test_a_retry_keeps_its_key_and_counts(start: Start, publish: Publish, events: Events) -> None:
    start("w1", "-c", "1")
    task_id = publish("print(flaky.apply_async((7,), headers={'auditor_business_key': 'of the header'}).id)")
    events.wait_for("failed", "shop.flaky")
    story = events.story(task_id)
    runs = sorted(
        (e for e in story if e["type"] != "sent"), key=lambda e: e["retries"]
    )  # the next one is received before "retried"
    assert [(e["type"], e["retries"]) for e in runs] == [
        ("received", 0), ("started", 0), ("retried", 0), ("received", 1), ("started", 1), ("retried", 1),
        ("received", 2), ("started", 2), ("failed", 2),
    ]  # fmt: skip
    assert [e["retries"] for e in story if e["type"] == "sent"] == [0, 1, 2]
    assert {e["business_key"] for e in story} == {"of the header"}
    assert len({e.get("execution_id") for e in story}) == 4  # three deliveries, and what was sent
    retried = events.of("retried")[0]
    assert 0 < retried["retry_in"] <= 0.2 and retried["error"] == {"type": "ConnectionError", "message": "upstream 503"}
    assert "eta" in events.of("received")[1]


def test_ends_of_all_kinds(start: Start, publish: Publish, events: Events) -> None:
    start("w1", "-c", "2")
    publish("by_rule.delay(5); ignored.delay(); aside.delay(); refused.delay(); permanent.delay(); app.send_task('shop.nobody')")
    publish("settle.apply_async((1,), expires=-1)")
    events.wait_for("failed", "shop.by_rule")
    events.wait_for("rejected", "shop.nobody")
    events.wait_for("revoked", "shop.settle")
    events.wait_for("failed", "shop.permanent")
    (failed,) = events.of("failed", "shop.by_rule")
    assert failed["business_key"] == "rule:5" and failed["error"] == {"type": "ValueError", "message": "no such order"}
    (ignored,) = events.wait_for("rejected", "shop.ignored")
    assert ignored["error"]["type"] == "Ignore" and "requeue" not in ignored
    (aside,) = events.wait_for("skipped", "shop.aside")
    assert aside["skip"] == {"reason": "locked", "holder": "another-id"}
    (refused,) = events.wait_for("rejected", "shop.refused")
    assert refused["error"]["type"] == "Reject"
    assert events.of("retried", "shop.permanent")[0]["error"]["permanent"] is True
    assert events.of("failed", "shop.permanent")[0]["error"]["type"] == "Declined"
    (expired,) = events.of("revoked", "shop.settle")
    assert expired["expired"] is True and expired["business_key"] == "settle_order:1"
    assert events.of("rejected", "shop.nobody")[0]["error"]["type"] == "NotRegistered"


def test_a_killed_child_is_told_by_its_parent(start: Start, publish: Publish, events: Events) -> None:
    start("w1", "-c", "1")
    task_id = publish("print(killed.delay(9).id)")
    events.wait_for("succeeded", "shop.killed")
    story = events.story(task_id)
    words = [e["type"] for e in story]
    assert words[:5] == ["sent", "received", "started", "effect", "worker_lost"], words
    lost = story[4]
    assert lost["requeue"] is True and lost["pid"] == story[2]["pid"] and lost["execution_id"] == story[2]["execution_id"]
    again = [
        e for e in story if e["execution_id" if e["type"] != "sent" else "seq"] not in (lost["execution_id"], story[0]["seq"])
    ]
    assert [e["type"] for e in again] == ["received", "started", "effect", "succeeded"]
    assert all(e["redelivered"] for e in again) and not lost["redelivered"]


def test_a_child_that_is_killed_after_its_acknowledgement(start: Start, publish: Publish, events: Events) -> None:
    start("w1", "-c", "1")
    publish("killed_early.delay()")
    (lost,) = events.wait_for("worker_lost", "shop.killed_early")
    assert "requeue" not in lost and lost["error"]["type"] == "WorkerLostError"


def test_a_hard_time_limit_is_one_failure(start: Start, publish: Publish, events: Events) -> None:
    worker = start("w1", "-c", "1")
    task_id = publish("print(hard.delay().id)")
    events.wait_for("failed", "shop.hard")
    worker.stop()
    events.wait_for("heartbeat", count=1)
    assert events.words(task_id) == ["sent", "received", "started", "failed"]
    assert events.of("failed")[0]["error"]["type"] == "TimeLimitExceeded"


def test_a_visibility_timeout_shows_two_deliveries(start: Start, publish: Publish, events: Events) -> None:
    start("w1", "-c", "1", SHOP_VISIBILITY="2")
    start("w2", "-c", "1", SHOP_VISIBILITY="2")
    task_id = publish("print(slow.delay(3, 8).id)")
    events.wait_for("succeeded", "shop.slow", count=2, seconds=60)
    starts = [e for e in events.story(task_id) if e["type"] == "started"]
    assert len({e["execution_id"] for e in starts}) == len(starts) >= 2
    assert [e["redelivered"] for e in starts] == [False] + [True] * (len(starts) - 1)


def test_rabbitmq_delivers_again_what_a_killed_worker_had(
    start: Start, publish: Publish, events: Events, environment: dict[str, str], rabbitmq_url: str
) -> None:
    environment["SHOP_BROKER"] = rabbitmq_url
    first = start("w1", "-c", "1")
    task_id = publish("print(slow.delay(3, 600).id)")
    events.wait_for("effect", "shop.slow")
    first.kill()
    second = start("w2", "-c", "1")
    events.wait_for("effect", "shop.slow", count=2)
    second.kill()
    starts = [e for e in events.story(task_id) if e["type"] == "started"]
    assert [(e["worker"], e["redelivered"], e["retries"]) for e in starts] == [("w1@h", False, 0), ("w2@h", True, 0)]
    assert starts[0]["execution_id"] != starts[1]["execution_id"]


def test_a_worker_says_farewell(start: Start, publish: Publish, events: Events) -> None:
    worker = start("w1", "-c", "1")
    publish("slow.delay(1, 1.5)")
    events.wait(lambda _: any(e.get("active") == 1 for e in events.of("heartbeat")))
    worker.stop()
    events.wait(lambda _: any(e["attributes"]["celery_type"] == "worker-offline" for e in events.of("heartbeat")))
    beats = [e for e in events.of("heartbeat") if "active" in e]
    beats.sort(key=lambda e: float(e["time"]))
    assert beats[0]["attributes"]["celery_type"] == "worker-online" and beats[-1]["active"] == 0
    (end,) = events.of("succeeded", "shop.slow")
    assert all(e["active"] > 0 for e in beats if events.of("started", "shop.slow")[0]["time"] < e["time"] < end["time"])
    assert "worker-process-offline" in {e["attributes"]["celery_type"] for e in events.of("heartbeat")}


def test_numbers_have_no_gap(start: Start, publish: Publish, events: Events) -> None:
    worker = start("w1", "-c", "2")
    publish("[settle.delay(n) for n in range(50)]")
    events.wait_for("succeeded", "shop.settle", count=50)
    worker.stop()
    events.wait(lambda _: any(e["attributes"]["celery_type"] == "worker-offline" for e in events.of("heartbeat")))
    numbers: dict[str, list[int]] = {}
    for e in events.read(0.5):
        numbers.setdefault(e["emitter"], []).append(e["seq"])
    assert len(numbers) == 4
    assert all(sorted(n) == list(range(1, len(n) + 1)) for n in numbers.values())


@pytest.mark.parametrize("pool", ["solo", "threads"])
def test_pools_without_children(pool: str, start: Start, publish: Publish, events: Events) -> None:
    start("w1", "-c", "1", "-P", pool)
    task_id = publish("print(settle.delay(8).id)")
    events.wait_for("succeeded", "shop.settle")
    assert events.words(task_id) == ["sent", "received", "started", "effect", "succeeded"]


def test_a_worker_starts_and_works_without_kafka(start: Start, publish: Publish, environment: dict[str, str]) -> None:
    environment.update(AUDITOR_CELERY_BOOTSTRAP_SERVERS="127.0.0.1:1", AUDITOR_CELERY_DRAIN="0.5")
    worker = start("w1", "-c", "1")
    publish("settle.delay(1)")
    until("the task", lambda: "succeeded" in worker.text())
    worker.stop()
    assert "could not be sent" in worker.text()


def test_a_worker_does_not_start_with_a_wrong_key_where_keys_are_strict(environment: dict[str, str]) -> None:
    program = """
from shop import *
@app.task(name="x", business_key="{uuid}")
def x(uuid): ...
app.worker_main(["worker", "-P", "solo"])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=HERE, env={**environment, "AUDITOR_CELERY_STRICT_KEYS": "1"},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode != 0 and "business key of task x: the field {uuid} stands for chance" in done.stderr
