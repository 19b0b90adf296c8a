"""The run that the calling code belongs to: one delivery of a task, from its start here to its end."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from .emitter import Emitter


class Run:
    """One run, as its process knows it. `common` is what every event of it carries."""

    __slots__ = ("common", "emitter", "ended", "notes", "outer", "permanent", "skip", "started", "wait")

    def __init__(self, emitter: Emitter, common: dict[str, Any], permanent: tuple[type[BaseException], ...], wait: float) -> None:
        self.emitter = emitter
        self.common = common
        self.permanent = permanent  # errors that no retry of this task heals
        self.wait = wait  # seconds that an effect may wait for Kafka's word
        self.ended = False
        self.skip: dict[str, str] | None = None  # why it stood aside
        self.notes: dict[str, Any] = {}  # attributes of its end
        self.outer: Run | None = None  # the run that this one was called in, where tasks run eagerly
        self.started = time.monotonic()

    @property
    def task_id(self) -> str:
        return str(self.common["task_id"])

    def tell(self, kind: str, said: Mapping[str, Any] | None = None) -> None:
        """Emits an event of this run."""
        event = self.common.copy()
        event["type"] = kind
        event["time"] = time.time()
        if said:
            event.update(said)
        self.emitter.emit(event)

    def end(self, kind: str, said: Mapping[str, Any] | None = None) -> None:
        """Emits the end of the run, once."""
        if self.ended:
            return
        self.ended = True
        event: dict[str, Any] = {"runtime": round(time.monotonic() - self.started, 6)}
        if said:
            event.update(said)
        if self.notes:
            event["attributes"] = {**self.common.get("attributes", {}), **self.notes}
        self.tell(kind, event)


current: ContextVar[Run | None] = ContextVar("auditor_celery_run", default=None)
"""The run of the calling code; None outside of one, or where nothing is installed."""
