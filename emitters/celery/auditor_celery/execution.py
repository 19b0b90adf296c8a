"""Tells the runs of the process that executes tasks: a pool's child, or the worker itself where its pool has none."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from .config import Config
from .describe import Describer, schedule
from .emitter import Emitter
from .run import Run, current
from .text import args_digest, cut


class Execution:
    """Receives Celery's signals of execution. The code of the run finds it in `current`, its threads that copy the
    context too."""

    def __init__(self, config: Config, emitter: Emitter, describe: Describer) -> None:
        self._config = config
        self._emitter = emitter
        self._describe = describe
        self._returned = ""  # the task id of the run that ended last

    def prerun(self, task_id: str = "", task: Any = None, args: Any = (), kwargs: Any = None, **_: Any) -> None:
        """task_prerun."""
        with self._emitter.guard("task_prerun"):
            request = task.request
            permanent = (*self._config.permanent_errors, *(getattr(task, "permanent_errors", None) or ()))
            run = Run(self._emitter, self._describe.run(task, request), permanent, self._config.effect_wait)
            run.outer = current.get()
            current.set(run)
            said: dict[str, Any] = dict(schedule(vars(request)))
            digest = args_digest(args, kwargs or {})
            if digest:
                said["args_digest"] = digest
            run.tell("started", said)

    def success(self, sender: Any = None, **_: Any) -> None:
        """task_success."""
        with self._emitter.guard("task_success"):
            run = self._run_of(sender)
            if run is not None:
                self._return(run)

    def failure(self, sender: Any = None, task_id: str = "", exception: Any = None, **_: Any) -> None:
        """task_failure. A worker's parent sends it too, for runs that are none of its own: see `delivery`."""
        with self._emitter.guard("task_failure"):
            run = self._run_of(sender, task_id)
            if run is not None:
                run.end("failed", {"error": self._describe.error(exception, run.permanent)})

    def retry(self, sender: Any = None, request: Any = None, reason: Any = None, **_: Any) -> None:
        """task_retry, with a reason where a run asks for it."""
        with self._emitter.guard("task_retry"):
            run = self._run_of(sender, getattr(request, "id", None))
            if run is None or reason is None:
                return
            said: dict[str, Any] = {}
            wait = _seconds(getattr(reason, "when", None))
            if wait is not None:
                said["retry_in"] = wait
            cause = getattr(reason, "exc", None)
            if cause is not None:
                said["error"] = self._describe.error(cause, run.permanent)
            run.end("retried", said)

    def internal_error(self, sender: Any = None, task_id: str = "", exception: Any = None, request: Any = None, **_: Any) -> None:
        """task_internal_error: Celery itself failed, often after the run's context is gone."""
        with self._emitter.guard("task_internal_error"):
            run = self._run_of(sender, task_id)
            if run is None and task_id and task_id == self._returned:
                return  # its run was told of: what failed since, such as the result's storage, is not the task's
            if run is None and request is not None:
                run = Run(self._emitter, self._describe.run(sender, _context(request)), (), 0)
                run.common["task_id"] = cut(str(task_id))
            if run is not None:
                run.notes["internal"] = True
                run.end("failed", {"error": self._describe.error(exception)})

    def postrun(self, sender: Any = None, task_id: str = "", state: Any = None, retval: Any = None, **_: Any) -> None:
        """task_postrun: the end of the runs that no other signal tells the end of."""
        with self._emitter.guard("task_postrun"):
            run = self._run_of(sender, task_id)
            if run is None:
                return
            current.set(run.outer)
            self._returned = task_id
            if run.ended:
                return
            if state == "SUCCESS" or (state == "IGNORED" and run.skip is not None):
                self._return(run)
            elif state in ("REJECTED", "IGNORED"):
                requeue = {"requeue": True} if getattr(retval, "requeue", False) else {}
                run.end("rejected", {**requeue, "error": self._describe.error(retval)})
            elif state in ("FAILURE", "RETRY"):
                run.end("failed", {"error": self._describe.error(retval, run.permanent)})

    def _return(self, run: Run) -> None:
        if run.skip is not None:
            run.end("skipped", {"skip": run.skip})
        else:
            run.end("succeeded")

    @staticmethod
    def _run_of(task: Any, task_id: str | None = None) -> Run | None:
        """The current run, where it is the one that a signal speaks of."""
        run = current.get()
        if run is None or run.common["task"] != cut(str(getattr(task, "name", ""))):
            return None
        return run if task_id is None or run.task_id == cut(str(task_id)) else None


def _seconds(when: object) -> float | None:
    """In how many seconds a retry is due; None where it is not told."""
    if isinstance(when, datetime):
        now = datetime.now(when.tzinfo or timezone.utc)
        return max(0.0, ((when if when.tzinfo else when.replace(tzinfo=timezone.utc)) - now).total_seconds())
    if isinstance(when, (int, float)) and not isinstance(when, bool):
        return max(0.0, float(when))
    return None


def _context(request: Any) -> Any:
    """Celery's Context of a request that is told as a dictionary."""
    from celery.app.task import Context

    return Context(request) if isinstance(request, dict) else request
