"""Tells what is put into the queue: `sent`, from whatever process publishes, a retry's worker among them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from typing import Any

from .describe import EXECUTION, Describer, schedule
from .emitter import Emitter
from .text import args_digest, cut


class Publishing:
    """Receives Celery's signals of publication. The moment is taken before it, for the message may have been run by the
    time that publishing returns; the event is told after it, for it may fail."""

    def __init__(self, app: Any, emitter: Emitter, describe: Describer) -> None:
        self._app = app
        self._emitter = emitter
        self._describe = describe
        self._began = threading.local()

    def before(self, headers: Mapping[str, Any] | None = None, **_: Any) -> None:
        """before_task_publish."""
        with self._emitter.guard("before_task_publish"):
            self._began.at = time.time()
            if isinstance(headers, dict):
                headers.pop(EXECUTION, None)  # a retry is another delivery than the run that it comes from

    def after(
        self,
        sender: Any = None,
        body: Any = None,
        headers: Mapping[str, Any] | None = None,
        routing_key: str | None = None,
        **_: Any,
    ) -> None:
        """after_task_publish."""
        with self._emitter.guard("after_task_publish"):
            told, args, kwargs = _opened(body, headers or {})
            name = str(told.get("task") or sender)
            event = self._describe.message(name, self._app.tasks.get(name), args, kwargs, told)
            event["type"] = "sent"
            event["time"] = getattr(self._began, "at", None) or time.time()
            event["worker"] = cut(self._emitter.node)
            event["pid"] = os.getpid()
            if routing_key:
                event["queue"] = cut(str(routing_key))
            event.update(schedule(told))
            digest = args_digest(args, kwargs)
            if digest:
                event["args_digest"] = digest
            self._emitter.emit(event)
            self._began.at = None


def _opened(body: Any, headers: Mapping[str, Any]) -> tuple[Mapping[str, Any], Any, Any]:
    """What a message tells, its arguments and its named arguments, in either of Celery's task protocols."""
    if "task" in headers:
        args, kwargs = body[0], body[1]
        return headers, args or (), kwargs or {}
    return {**headers, **body}, body.get("args") or (), body.get("kwargs") or {}
