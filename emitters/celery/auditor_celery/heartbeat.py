"""A worker's signs of life, by which the auditor tells a run that hangs from one whose worker is gone."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

from celery.worker import state

from .emitter import Emitter
from .text import cut


class Heartbeat:
    """Beats from a thread of its own in the worker's parent, whatever the worker's pool is."""

    def __init__(self, emitter: Emitter, namespace: str, interval: float) -> None:
        self._emitter = emitter
        self._namespace = namespace
        self._interval = interval
        self._stop: threading.Event | None = None

    def ready(self, **_: Any) -> None:
        """worker_ready."""
        with self._emitter.guard("worker_ready"):
            self.beat("worker-online")
            if self._stop is None:
                self._stop = threading.Event()
                threading.Thread(target=self._run, args=(self._stop,), name="auditor-heartbeat", daemon=True).start()

    def stop(self) -> None:
        """Ends the beat with a farewell. Does nothing where it never began."""
        if self._stop is not None:
            self._stop.set()
            self._stop = None
            self.beat("worker-offline")

    def beat(self, what: str, active: bool = True) -> None:
        """Emits one sign of life. active: tell how many tasks are at hand, which only the parent knows."""
        event: dict[str, Any] = {
            "system": "celery",
            "type": "heartbeat",
            "time": time.time(),
            "worker": cut(self._emitter.node),
            "pid": os.getpid(),
        }
        if self._namespace:
            event["namespace"] = self._namespace
        if active:
            event["active"] = at_hand()
        attributes: dict[str, Any] = {"celery_type": what}
        if self._emitter.dropped:
            attributes["dropped"] = self._emitter.dropped
        event["attributes"] = attributes
        self._emitter.emit(event)

    def _run(self, stop: threading.Event) -> None:
        while not stop.wait(self._interval):
            with self._emitter.guard("heartbeat"):
                self.beat("worker-heartbeat")


def at_hand() -> int:
    """How many tasks this worker runs or has ready to run. Those count too that its pool may have begun without its
    knowing yet: a beat that says 0 must be true of every run that was told before it."""
    return max(len(state.reserved_requests), len(state.active_requests))
