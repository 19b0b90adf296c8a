"""Reads the events of a topic back."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

Event = dict[str, Any]


class Events:
    """All that a topic holds, in order of arrival by partition."""

    def __init__(self, kafka: str, topic: str) -> None:
        self._consumer = Consumer({"bootstrap.servers": kafka, "group.id": topic, "log_level": 0, "fetch.wait.max.ms": 20})
        partitions = self._consumer.list_topics(topic, timeout=10).topics[topic].partitions
        self._consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in partitions])
        self.all: list[Event] = []

    def read(self, seconds: float = 0.05) -> list[Event]:
        """What has arrived by now."""
        message = self._consumer.poll(seconds)
        while message is not None:
            if message.error() is None:
                self.all.append({**json.loads(message.value()), "_key": (message.key() or b"").decode()})
            message = self._consumer.poll(0)
        return self.all

    def wait(self, enough: Callable[[list[Event]], Any], seconds: float = 30) -> list[Event]:
        """Reads until there is enough."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if enough(self.read()):
                return self.all
        raise AssertionError("not enough came:\n" + "\n".join(map(json.dumps, self.all)))

    def of(self, kind: str, task: str | None = None) -> list[Event]:
        """Those of a type, and of a task."""
        return [e for e in self.read() if e["type"] == kind and task in (None, e.get("task"))]

    def wait_for(self, kind: str, task: str | None = None, count: int = 1, seconds: float = 30) -> list[Event]:
        self.wait(lambda _: len(self.of(kind, task)) >= count, seconds)
        return self.of(kind, task)

    def words(self, task_id: str) -> list[str]:
        """What was told of a task id, in order of time."""
        return [e["type"] for e in self.story(task_id)]

    def story(self, task_id: str) -> list[Event]:
        return sorted((e for e in self.read() if e.get("task_id") == task_id), key=lambda e: float(e["time"]))

    def close(self) -> None:
        self._consumer.close()
