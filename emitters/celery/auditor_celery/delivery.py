"""Tells what a worker's parent sees of deliveries: that they came, and that they ended where no child could say so."""

from __future__ import annotations

import itertools
import os
import time
from typing import Any

from celery.exceptions import TimeLimitExceeded, WorkerLostError

from .describe import EXECUTION, Describer, schedule
from .emitter import Emitter
from .text import cut


class Deliveries:
    """Receives the signals of a worker's parent, and watches its requests."""

    def __init__(self, emitter: Emitter, describe: Describer) -> None:
        self._emitter = emitter
        self._describe = describe
        self._numbers = itertools.count(1)

    def received(self, request: Any = None, **_: Any) -> None:
        """task_received. Numbers the delivery, and lets its child know."""
        with self._emitter.guard("task_received"):
            request.request_dict[EXECUTION] = f"{self._emitter.name}#{next(self._numbers)}"
            watch(request, self)
            event = self._event(request, "received")
            event["pid"] = os.getpid()
            event.update(schedule(request.request_dict))
            self._emitter.emit(event)

    def revoked(self, sender: Any = None, request: Any = None, terminated: Any = None, expired: Any = None, **_: Any) -> None:
        """task_revoked. An expired or revoked message is told so before it was received."""
        with self._emitter.guard("task_revoked"):
            event = self._describe.delivery(sender, request)
            event.update(type="revoked", time=time.time())
            if terminated:
                event["terminated"] = True
            if expired:
                event["expired"] = True
            event.update(schedule(vars(request)))
            self._emitter.emit(event)

    def unknown(self, name: Any = None, id: Any = None, message: Any = None, exc: Any = None, **_: Any) -> None:
        """task_unknown: a message of a task that is not registered here. Celery drops it."""
        with self._emitter.guard("task_unknown"):
            self._refused(name, id, message, {"type": "NotRegistered", "message": cut(str(name))})

    def rejected(self, message: Any = None, exc: Any = None, **_: Any) -> None:
        """task_rejected: a message that is none of a task, or one that cannot be read. Celery drops it."""
        with self._emitter.guard("task_rejected"):
            headers = getattr(message, "headers", None) or {}
            error = {"type": "UnknownMessage"} if exc is None else self._describe.error(exc)
            self._refused(headers.get("task"), headers.get("id"), message, error)

    def cancelled(self, sender: Any = None, request: Any = None, reason: Any = None, **_: Any) -> None:
        """task_retry without a reason: the connection was lost, the parent gave the run up, and the broker has it again."""
        with self._emitter.guard("task_retry"):
            if reason is None and request is not None:
                event = self._describe.delivery(sender, request)
                event.update(type="rejected", requeue=True, time=time.time(), error={"type": "ConnectionLost"})
                self._emitter.emit(event)

    def lost(self, request: Any, error: object, requeue: bool) -> None:
        """A child is gone, and its run with it."""
        with self._emitter.guard("worker_lost"):
            event = self._event(request, "worker_lost")
            event["error"] = self._describe.error(error)
            if requeue:
                event["requeue"] = True
            if request.worker_pid:
                event["pid"] = request.worker_pid
            self._emitter.emit(event)

    def timed_out(self, request: Any, timeout: object, requeue: bool) -> None:
        """A child was killed for its run's hard time limit."""
        with self._emitter.guard("time_limit"):
            event = self._event(request, "rejected" if requeue else "failed")
            event["error"] = {"type": "TimeLimitExceeded", "message": f"hard time limit of {timeout} s"}
            if requeue:
                event["requeue"] = True
            if request.worker_pid:
                event["pid"] = request.worker_pid
            self._emitter.emit(event)

    def deduplicated(self, request: Any) -> None:
        """Celery itself dropped a copy of what had succeeded (worker_deduplicate_successful_tasks)."""
        with self._emitter.guard("deduplicated"):
            event = self._event(request, "skipped")
            event["skip"] = {"reason": "already_processed", "holder": event["task_id"]}
            self._emitter.emit(event)

    def _event(self, request: Any, kind: str) -> dict[str, Any]:
        event = self._describe.delivery(request.task, _View(request))
        event["type"] = kind
        event["time"] = time.time()
        return event

    def _refused(self, name: Any, task_id: Any, message: Any, error: dict[str, Any]) -> None:
        if not task_id:
            return  # nothing tells which task it was
        info = getattr(message, "delivery_info", None) or {}
        headers = getattr(message, "headers", None) or {}
        event = self._describe.message(str(name or ""), None, (), {}, {**headers, "id": task_id})
        event.update(type="rejected", time=time.time(), worker=cut(self._emitter.node), pid=os.getpid(), error=error)
        if info.get("routing_key"):
            event["queue"] = cut(str(info["routing_key"]))
        self._emitter.emit(event)


class _View:
    """A worker's request as a Context, without the cost of making one."""

    is_eager = False

    def __init__(self, request: Any) -> None:
        self.__dict__ = request.request_dict
        self.args: Any
        self.kwargs: Any


def watch(request: Any, deliveries: Deliveries) -> None:
    """Lets a request tell the ends that only the parent sees. Its own class is extended, not the one that its task names:
    Celery derives another from that, which has methods of its own."""
    request._auditor = deliveries
    request.__class__ = _watched(type(request))


_classes: dict[type, type] = {}


def _watched(base: type) -> type:
    if base not in _classes:
        _classes[base] = _derive(base)
    return _classes[base]


def _derive(parent: Any) -> type:
    """The class of requests with these methods extended."""

    class Watched(parent):  # type: ignore[misc]
        _auditor: Deliveries
        _auditor_requeued = False
        _auditor_told = False

        def reject(self, requeue: bool = False) -> Any:
            self._auditor_requeued = requeue
            return super().reject(requeue=requeue)

        def on_success(self, failed__retval__runtime: Any, **kwargs: Any) -> Any:
            failed, _, runtime = failed__retval__runtime
            if not failed and runtime is None:
                self._auditor.deduplicated(self)
            return super().on_success(failed__retval__runtime, **kwargs)

        def on_failure(self, exc_info: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return super().on_failure(exc_info, *args, **kwargs)
            finally:
                self._auditor_ended(exc_info)

        def on_timeout(self, soft: bool, timeout: float) -> Any:
            try:
                return super().on_timeout(soft, timeout)
            finally:
                if not soft and not self._auditor_told:
                    self._auditor_told = True
                    self._auditor.timed_out(self, timeout, self._auditor_requeued)

        def _auditor_ended(self, exc_info: Any) -> None:
            error = getattr(exc_info, "exception", None)
            error = getattr(error, "exc", error)  # as billiard wraps it
            if self._auditor_told or self._already_revoked or self._already_cancelled:
                return
            if isinstance(error, (WorkerLostError, SystemExit, KeyboardInterrupt)):
                self._auditor_told = True
                self._auditor.lost(self, error, self._auditor_requeued)
            elif isinstance(error, TimeLimitExceeded):
                self._auditor_told = True
                self._auditor.timed_out(self, error.args[0] if error.args else "?", self._auditor_requeued)

    Watched.__name__ = parent.__name__
    Watched.__qualname__ = parent.__qualname__
    return Watched
