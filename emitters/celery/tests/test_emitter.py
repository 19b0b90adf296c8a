"""The emitter: numbers first, a bounded buffer, nothing raised, a fork of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from reading import Events

from auditor_celery.config import load
from auditor_celery.emitter import Emitter, check


class Kafka:
    """Stands for librdkafka: takes so many events."""

    def __init__(self, room: int = 1_000_000) -> None:
        self.room = room
        self.taken: list[dict[str, Any]] = []
        self.settings: dict[str, Any] = {}
        self.left = 0
        self.purged = False
        self.flushed = 0

    def __call__(self, settings: dict[str, Any]) -> Kafka:
        self.settings = settings
        return self

    def produce(self, topic: str, value: bytes, key: bytes) -> None:
        if len(self.taken) >= self.room:
            raise BufferError("Local: Queue full")
        self.taken.append({**json.loads(value), "key": key.decode(), "topic": topic})

    def poll(self, _seconds: float) -> int:
        return 0

    def flush(self, _seconds: float) -> int:
        self.flushed += 1
        return self.left

    def purge(self) -> None:
        self.purged = True

    def __len__(self) -> int:
        return self.left


def emitter(made: Callable[..., Any], **settings: Any) -> Emitter:
    return Emitter(load({"bootstrap_servers": "k:1", **settings}, {}), "w1@h", made)


def test_a_fork_waits_for_a_producer_that_was_made_just_now(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = Kafka()
    e = emitter(kafka)
    e.settle()
    assert kafka.flushed == 0  # there is none
    e.start()
    e.settle()
    assert kafka.flushed == 1
    later = time.monotonic() + 60
    monkeypatch.setattr("auditor_celery.emitter.time.monotonic", lambda: later)
    e.settle()
    assert kafka.flushed == 1


def test_a_defect_leaves_a_gap() -> None:
    kafka = Kafka()
    e = emitter(kafka)
    e.emit({"type": "started"})
    with e.guard("what fails"):
        raise RuntimeError("a defect")
    e.emit({"type": "succeeded"})
    assert [event["seq"] for event in kafka.taken] == [1, 3]


def test_events_are_numbered_and_keyed() -> None:
    kafka = Kafka()
    e = emitter(kafka)
    e.emit({"business_key": "b", "task_id": "t"})
    e.emit({"task_id": "t", "worker": "w"})
    e.emit({"worker": "w"})
    assert [(t["seq"], t["key"]) for t in kafka.taken] == [(1, "b"), (2, "t"), (3, "w")]
    assert {t["emitter"] for t in kafka.taken} == {e.name} and e.name.startswith(f"w1@h/{os.getpid()}/")
    assert len({t["event_id"] for t in kafka.taken}) == 3


def test_what_is_dropped_leaves_a_gap_in_the_numbers(caplog: pytest.LogCaptureFixture) -> None:
    kafka = Kafka(room=2)
    e = emitter(kafka)
    for _ in range(5):
        e.emit({"task_id": "t"})
    kafka.room = 9
    e.emit({"task_id": "t"})
    assert [t["seq"] for t in kafka.taken] == [1, 2, 6]
    assert e.dropped == {"buffer_full": 3} and e.stats()["acknowledged"] == 3
    assert len(caplog.records) == 1, "it is told once in a while, not for each"


def test_nothing_is_raised_whatever_fails() -> None:
    def broken(_settings: dict[str, Any]) -> Any:
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG))

    e = emitter(broken)
    e.emit({"task_id": "t"})
    e.emit({"task_id": object()})
    e.emit({"task_id": 7})
    assert e.dropped == {"refused": 1, "not_json": 1, "defect": 1} or sum(e.dropped.values()) == 3
    with e.guard("a test"):
        raise LookupError("ours")
    assert e.dropped["defect"] >= 1 and "LookupError" in e.stats()["last_error"]
    with pytest.raises(KeyboardInterrupt), e.guard("a test"):
        raise KeyboardInterrupt


def test_numbers_are_given_once_whoever_emits() -> None:
    kafka = Kafka()
    e = emitter(kafka)
    threads = [threading.Thread(target=lambda: [e.emit({"task_id": "t"}) for _ in range(500)]) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(t["seq"] for t in kafka.taken) == list(range(1, 2001))


def test_a_closed_emitter_counts_what_comes_later_and_what_it_could_not_send() -> None:
    kafka = Kafka()
    e = emitter(kafka)
    e.emit({"task_id": "t"})
    kafka.left = 1
    e.close()
    e.close()
    e.emit({"task_id": "t"})
    assert e.dropped == {"unsent_at_exit": 1, "closed": 1} and kafka.purged


def test_a_failed_delivery_is_counted() -> None:
    kafka = Kafka()
    e = emitter(kafka)
    e.emit({"task_id": "t"})
    kafka.settings["on_delivery"](KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), None)
    kafka.settings["error_cb"](KafkaError(KafkaError._ALL_BROKERS_DOWN))
    assert e.stats()["dropped"] == {"not_delivered": 1} and e.stats()["acknowledged"] == 0


def test_a_renamed_emitter_numbers_anew() -> None:
    kafka = Kafka()
    e = emitter(kafka)
    e.emit({"task_id": "t"})
    e.rename("w2@h")
    e.rename("w2@h")
    e.emit({"task_id": "t"})
    assert [t["seq"] for t in kafka.taken] == [1, 1] and kafka.taken[1]["emitter"].startswith("w2@h/")


def test_settings_reach_librdkafka_and_wrong_ones_are_refused() -> None:
    kafka = Kafka()
    emitter(kafka, buffer_events=7, kafka={"client.id": "mine"}).start()
    assert kafka.settings["queue.buffering.max.messages"] == 7 and kafka.settings["client.id"] == "mine"
    assert kafka.settings["acks"] == "all" and kafka.settings["enable.idempotence"] is True
    check(load({"bootstrap_servers": "127.0.0.1:1"}, {}))
    with pytest.raises(KafkaException, match="bogus"):
        check(load({"bootstrap_servers": "127.0.0.1:1", "kafka": {"bogus": 1}}, {}))


def test_events_arrive_in_kafka(kafka: str, topic: str, events: Events) -> None:
    e = Emitter(load({"bootstrap_servers": kafka, "topic": topic}, {}), "w1@h")
    for n in range(1000):
        e.emit({"task_id": f"t{n}", "type": "started"})
    assert e.flush(10) == 0
    assert e.stats()["acknowledged"] == 1000
    events.wait(lambda all: len(all) == 1000)
    e.close()


def test_an_event_that_kafka_takes_for_too_large_is_counted(kafka: str, topic: str) -> None:
    e = Emitter(load({"bootstrap_servers": kafka, "topic": topic, "kafka": {"message.max.bytes": 2000}}, {}), "w1@h")
    e.emit({"task_id": "t", "x": "y" * 5000})
    e.flush(10)
    assert sum(e.dropped.values()) == 1
    e.close()


def test_a_fork_has_its_own_producer_and_numbers(kafka: str, topic: str) -> None:
    e = Emitter(load({"bootstrap_servers": kafka, "topic": topic}, {}), "w1@h")
    e.emit({"task_id": "parent", "type": "started"})
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            e.emit({"task_id": "child", "type": "started"})
            e.close()
            status = 0 if not e.dropped else 2
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    e.emit({"task_id": "parent", "type": "started"})
    e.close()
    events = Events(kafka, topic)  # made after the fork: while it looks up its brokers nothing may fork, see Emitter.settle
    events.wait(lambda all: len(all) == 3)
    told = sorted((t["task_id"], t["seq"], t["emitter"]) for t in events.all)
    assert [t[:2] for t in told] == [("child", 1), ("parent", 1), ("parent", 2)]
    assert told[0][2] != told[1][2] == told[2][2]


def test_a_fork_that_ends_normally_does_not_hang(kafka: str, topic: str) -> None:
    """To free the parent's producer, as an interpreter does at its end, would wait for threads that the fork does not have."""
    program = f"""
import os, sys
from auditor_celery.config import load
from auditor_celery.emitter import Emitter
e = Emitter(load({{"bootstrap_servers": "{kafka}", "topic": "{topic}"}}, {{}}), "w1@h")
e.emit({{"task_id": "parent"}})
pid = os.fork()
if pid == 0:
    if len(sys.argv) > 1:
        e.emit({{"task_id": "child"}})
        e.close()
    del e
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
e.close()
"""
    for arguments in ([], ["emits"]):
        done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr


def test_nothing_waits_while_kafka_is_away() -> None:
    e = Emitter(load({"bootstrap_servers": "127.0.0.1:1", "buffer_events": 100}, {}), "w1@h")
    began = time.monotonic()
    for _ in range(1000):
        e.emit({"task_id": "t"})
    e.close(0.1)
    assert time.monotonic() - began < 10
    assert e.dropped["buffer_full"] == 900 and e.dropped["unsent_at_exit"] == 100
