"""What events say of a task's message, from what Celery knows of it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from .config import Config
from .keys import HEADER, KeyProblem, Keys
from .text import MAX_MESSAGE, cut, moment

EXECUTION = "auditor_execution"
"""The header by which a worker's parent tells its children which delivery they run. It is set at each delivery, for
neither a task id nor a delivery tag tells two deliveries apart: Redis delivers a message again under its old tag."""


class Describer:
    """Turns Celery's words into the auditor's. Immutable, but for the keys that it remembers by task."""

    def __init__(self, config: Config, keys: Keys) -> None:
        self._config = config
        self._keys = keys

    def message(
        self,
        name: str,
        task: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        told: Mapping[str, Any],
    ) -> dict[str, Any]:
        """What every event of a message carries. told: its headers, or what stands for them in a request."""
        event: dict[str, Any] = {"system": "celery", "task": cut(name), "task_id": cut(str(told.get("id") or ""))}
        if self._config.namespace:
            event["namespace"] = self._config.namespace
        retries = told.get("retries")
        event["retries"] = retries if isinstance(retries, int) and retries >= 0 else 0
        for field in ("root_id", "parent_id", "traceparent"):
            value = told.get(field)
            if isinstance(value, str) and value:
                event[field] = cut(value)
        if task is not None:
            if task.max_retries is not None:
                event["max_retries"] = int(task.max_retries)
            event["acks_late"] = bool(task.acks_late)
        try:
            key = self._keys.of(name, task, args, kwargs, told.get(HEADER))
            if key is not None:
                event["business_key"] = key
        except KeyProblem as e:
            event["attributes"] = {"business_key_error": cut(str(e))}
        except Exception as e:  # a mistake in the task's own template
            event["attributes"] = {"business_key_error": cut(f"{type(e).__name__}: {e}")}
        return event

    def delivery(self, task: Any, request: Any) -> dict[str, Any]:
        """What every event of a delivery carries. request: Celery's Context of it."""
        event = self.message(task.name, task, request.args or (), request.kwargs or {}, vars(request))
        info = request.delivery_info or {}
        event["worker"] = cut(str(request.hostname))
        if info.get("routing_key"):
            event["queue"] = cut(str(info["routing_key"]))
        if info.get("redelivered") is not None:
            event["redelivered"] = bool(info["redelivered"])
        execution = vars(request).get(EXECUTION)
        if isinstance(execution, str):
            event["execution_id"] = cut(execution)
        if request.is_eager:
            event["attributes"] = {**event.get("attributes", {}), "eager": True}
        return event

    def run(self, task: Any, request: Any) -> dict[str, Any]:
        """What every event of a run in this process carries."""
        event = self.delivery(task, request)
        event["pid"] = os.getpid()
        return event

    def error(self, exception: object, permanent: tuple[type[BaseException], ...] = ()) -> dict[str, Any]:
        """An exception, as an event tells it."""
        error: dict[str, Any] = {"type": cut(type(exception).__name__)}
        if self._config.messages:
            try:
                error["message"] = cut(str(exception), MAX_MESSAGE)
            except Exception:
                error["message"] = "(its text can't be read)"
        if isinstance(exception, permanent) or getattr(exception, "permanent", None) is True:
            error["permanent"] = True
        return error


def schedule(told: Mapping[str, Any]) -> dict[str, float]:
    """When a message is not to be run before and not to be started after."""
    found = {}
    for field in ("eta", "expires"):
        at = moment(told.get(field)) if told.get(field) else None
        if at is not None:
            found[field] = at
    return found
