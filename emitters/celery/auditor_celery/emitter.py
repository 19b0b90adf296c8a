"""Sends a process's events to Kafka.

`emit` never waits and never raises. An event gets its number, then a place in librdkafka's bounded buffer, from which
librdkafka's own threads send it; where there is no place it is dropped and counted, and the gap in the numbers shows the
auditor that something is missing. Kafka need not be there when a process starts, nor later.

librdkafka does not survive a fork: a forked process makes a producer, a name and numbers of its own when it first emits.
Safe for concurrent use.
"""

from __future__ import annotations

import ctypes
import itertools
import logging
import os
import secrets
import time
import weakref
from collections import Counter
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from .config import Config
from .text import record

log = logging.getLogger("auditor_celery")

TELL_EVERY = 60.0  # seconds between two warnings of one kind
CONNECTING = 2.0  # seconds in which a new producer looks up and connects to its brokers
SETTLE = 1.0  # seconds that a fork may wait for it


class Emitter:
    """The events of one process, numbered. `node` names the process for a person: a worker's name, say."""

    def __init__(self, config: Config, node: str, make: Callable[[dict[str, Any]], Any] = Producer) -> None:
        self._config = config
        self._make = make
        self.node = node
        self._told: dict[str, float] = {}
        self._begin()
        _emitters.add(self)

    def _begin(self) -> None:
        """Takes up work in this process: nothing of another process's is used from here on."""
        self._pid = os.getpid()
        self._producer: Any = None
        self._made = 0.0
        self._name = ""
        self._numbers = itertools.count(1)
        self._given = 0
        self._dropped: Counter[str] = Counter()
        self._last_error = ""
        self._closed = False

    @property
    def name(self) -> str:
        """Who numbers the events of this process; another name after each start and each fork."""
        if not self._name:
            self._name = f"{self.node}/{os.getpid()}/{time.time_ns() // 1_000_000:x}{secrets.token_hex(2)}"
        return self._name

    def rename(self, node: str) -> None:
        """Says whose events these are, once it is known. What was numbered before keeps its name."""
        if node != self.node:
            self.node = node
            self._name = ""
            self._numbers = itertools.count(1)

    def emit(self, event: dict[str, Any]) -> None:
        """Numbers an event and hands it over. The event is the emitter's from then on."""
        try:
            if self._pid != os.getpid():
                self._begin()
            number = next(self._numbers)
            name = self._name or self.name
            event["emitter"] = name
            event["seq"] = number
            event["event_id"] = f"{name}/{number}"
            self._send(event)
        except Exception as e:  # a task must not fail for being watched
            self._drop("defect", e)

    def _send(self, event: Mapping[str, Any]) -> None:
        if self._closed:
            self._drop("closed", None)
            return
        try:
            value = record(event)
        except (TypeError, ValueError, RecursionError) as e:
            self._drop("not_json", e)
            return
        producer = self._producer
        try:
            if producer is None:
                producer = self.start()
            key = event.get("business_key") or event.get("task_id") or event.get("worker") or ""
            producer.produce(self._config.topic, value, key.encode("utf-8", "replace"))
            self._given += 1
        except BufferError as e:
            self._drop("buffer_full", e)
        except KafkaException as e:
            self._drop("refused", e)
        if producer is not None:
            producer.poll(0)  # hears what became of earlier ones

    def guard(self, what: str) -> Guard:
        """Keeps a defect of this package out of the task: it is counted, and told in the log."""
        return Guard(self, what)

    def start(self) -> Any:
        """Makes the producer of this process, which connects by itself and in its own time."""
        if self._pid != os.getpid():
            self._begin()
        if self._producer is None:
            self._producer = self._make({**settings(self._config), "on_delivery": self._on_delivery, "error_cb": self._on_error})
            self._made = time.monotonic()
        return self._producer

    def settle(self) -> None:
        """Waits, for a moment at most, until a producer that was made just now has found its brokers. A fork in the midst of
        that would inherit the locks of the C library's name look-up, and could look up no name ever after."""
        if self._producer is not None and self._pid == os.getpid() and time.monotonic() - self._made < CONNECTING:
            self._producer.flush(SETTLE)

    def poll(self) -> None:
        """Hears what became of the events that were sent. Does not wait."""
        if self._producer is not None and self._pid == os.getpid():
            self._producer.poll(0)

    def flush(self, seconds: float) -> int:
        """Waits until Kafka has acknowledged what was given to it, for at most so long; how many are still to be sent."""
        if self._producer is None or self._pid != os.getpid():
            return 0
        return int(self._producer.flush(seconds))

    def close(self, seconds: float | None = None) -> None:
        """Sends what waits, for at most so long, by default as long as the configuration allows. What is emitted later is
        dropped and counted."""
        if self._pid != os.getpid() or self._closed:
            return
        self._closed = True
        left = self.flush(self._config.drain if seconds is None else seconds)
        if left:
            self._dropped["unsent_at_exit"] += left
            log.warning("%d events could not be sent before the process ended", left)
            self._producer.purge()  # else to free it would wait for Kafka

    @property
    def dropped(self) -> dict[str, int]:
        """How many events of this process were dropped, by reason."""
        return dict(self._dropped) if self._pid == os.getpid() else {}

    def stats(self) -> dict[str, Any]:
        """What became of this process's events: emitter, acknowledged, waiting, dropped by reason, and the last error."""
        if self._pid != os.getpid():
            self._begin()
        self.poll()
        waiting = len(self._producer) if self._producer is not None else 0
        lost_later = self._dropped["not_delivered"]
        return {
            "emitter": self.name,
            "acknowledged": max(0, self._given - waiting - lost_later),
            "waiting": waiting,
            "dropped": self.dropped,
            "last_error": self._last_error,
        }

    def _on_delivery(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._drop("not_delivered", error)

    def _on_error(self, error: KafkaError) -> None:
        self._last_error = str(error)
        self._tell("kafka", "Kafka: %s", error)

    def _drop(self, reason: str, error: object) -> None:
        self._dropped[reason] += 1
        if error is not None:
            self._last_error = f"{type(error).__name__}: {error}"
        self._tell(reason, "an event was dropped (%s): %s; in all %s", reason, error, dict(self._dropped))

    def note_defect(self, what: str, e: Exception) -> None:
        """Counts and tells that this package failed at something. It takes a number, for an event may be missing."""
        next(self._numbers)
        self._dropped["defect"] += 1
        self._last_error = f"{what}: {type(e).__name__}: {e}"
        self._tell("defect", "auditor_celery failed at %s, the task goes on", what, exc_info=True)

    def _tell(self, kind: str, message: str, *args: object, exc_info: bool = False) -> None:
        now = time.monotonic()
        if now - self._told.get(kind, -TELL_EVERY) >= TELL_EVERY:
            self._told[kind] = now
            log.warning(message, *args, exc_info=exc_info)


class Guard:
    """A block that never raises an Exception. A class, for a generator would cost a task three times as much."""

    __slots__ = ("_emitter", "_what")

    def __init__(self, emitter: Emitter, what: str) -> None:
        self._emitter = emitter
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, _t: TracebackType | None) -> bool:
        if kind is None or not isinstance(e, Exception):
            return False
        self._emitter.note_defect(self._what, e)
        return True


def settings(config: Config) -> dict[str, Any]:
    """librdkafka's settings. What the configuration says of them itself wins."""
    return {
        "bootstrap.servers": config.bootstrap_servers,
        "client.id": "auditor-celery",
        "acks": "all",
        "enable.idempotence": True,
        "compression.type": "lz4",
        "partitioner": "murmur2_random",  # as Java's clients do: one key, one partition, whoever sends
        "linger.ms": config.linger * 1000,
        "queue.buffering.max.messages": config.buffer_events,
        "queue.buffering.max.kbytes": config.buffer_bytes >> 10,
        "message.timeout.ms": 0,  # what was taken is kept until Kafka is back, within the buffer
        "delivery.report.only.error": True,
        "socket.keepalive.enable": True,
        "log_level": 2,  # what goes wrong comes as an error, and is told through logging
        **config.kafka,
    }


def check(config: Config) -> None:
    """Raises KafkaException where librdkafka does not take the settings. Connects to nothing."""
    Producer(settings(config))


_emitters: weakref.WeakSet[Emitter] = weakref.WeakSet()


def _settle() -> None:
    for emitter in _emitters:
        emitter.settle()


def _forget_parent() -> None:
    """Keeps a fork from ever touching its parent's producers. To free one would wait for threads that the fork does not
    have, so they are made immortal."""
    for emitter in _emitters:
        producer = emitter._producer
        if producer is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(producer))
        emitter._begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_settle, after_in_child=_forget_parent)
