"""Does work once, and tells the auditor of the runs that stood aside."""

from __future__ import annotations

import functools
import inspect
import logging
import secrets
from collections.abc import Callable
from types import TracebackType
from typing import Any, Literal, TypeVar

from ..effects import skipped
from ..run import current
from .store import Store, Taken

log = logging.getLogger("auditor_celery")

_F = TypeVar("_F", bound=Callable[..., Any])
OnFailure = Literal["release", "keep"]
WhileInFlight = Literal["retry", "skip", "raise"]

DAY = 86_400.0
LONGEST_RETRY = 60.0  # seconds until a run that waits for another looks again


class InFlight(Exception):
    """Another run holds the reservation, and has not ended as far as is known."""

    def __init__(self, key: str, holder: str, left: float) -> None:
        super().__init__(key, holder, left)  # all of them, for Celery pickles exceptions
        self.key = key
        self.holder = holder  # a task id, or empty
        self.left = left  # seconds until the reservation runs out

    def __str__(self) -> str:
        return f"{self.key} is reserved by {self.holder or 'a run without a task id'} for {self.left:.0f} s more"


class Reservation:
    """A key that this run has taken, or (false) has not."""

    def __init__(self, key: str, taken: Taken, on_failure: OnFailure) -> None:
        self.key = key
        self.state = taken.state
        self.holder = taken.holder
        self.on_failure: OnFailure = on_failure  # may be set within the block: "keep" once the effect may have happened

    def __bool__(self) -> bool:
        return self.state == "taken"


class reserve_once:
    """Reserves a key for the work of a block or of a function:

        with reserve_once(f"settle_order:{order_id}", store=store, on_failure="release") as mine:
            if not mine:
                return  # done before: this run is told as skipped
            charge(order_id)

        @app.task
        @reserve_once("settle_order:{order_id}", store=store)
        def settle_order(order_id): ...

    The reservation is pending until the block ends, then done, for `keep` seconds. Where the block raises, it is released,
    so that the next attempt may do the work, or kept, so that none may (on_failure). A run that is killed leaves it pending
    until its lease runs out: choose a lease longer than the longest run.

    A run that finds the work done, or kept, is told as skipped, and who it stood aside for; a function is not called
    then, and None returned. One that finds it pending is tried again later through Celery's retry (in_flight="retry"), or
    stands aside too ("skip": the work is lost if the other run dies), or raises InFlight ("raise").
    """

    def __init__(
        self,
        key: str,
        *,
        store: Store,
        on_failure: OnFailure = "release",
        in_flight: WhileInFlight = "retry",
        lease: float = 3600.0,
        keep: float = 7 * DAY,
    ) -> None:
        if on_failure not in ("release", "keep"):
            raise ValueError(f"reserve_once: on_failure: is {on_failure!r}, must be release or keep")
        if in_flight not in ("retry", "skip", "raise"):
            raise ValueError(f"reserve_once: in_flight: is {in_flight!r}, must be retry, skip or raise")
        if lease <= 0 or keep <= 0:
            raise ValueError("reserve_once: lease and keep must be more than 0 seconds")
        self._key = key
        self._store = store
        self._on_failure = on_failure
        self._in_flight = in_flight
        self._lease = lease
        self._keep = keep
        self._token = ""
        self._mine: Reservation | None = None

    def __enter__(self) -> Reservation:
        if not self._key:
            raise ValueError("reserve_once: key: must not be empty")
        run = current.get()
        self._token = secrets.token_hex(16)
        taken = self._store.take(self._key, run.task_id if run is not None else "", self._token, self._lease)
        self._mine = Reservation(self._key, taken, self._on_failure)
        if taken.state == "taken":
            self._note("pending")
        elif taken.state == "done":
            skipped("already_processed", taken.holder or None)
        elif taken.state == "kept":
            skipped("duplicate_ignored", taken.holder or None)
        else:
            self._stand_aside(taken)
        return self._mine

    def __exit__(self, kind: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        mine = self._mine
        if not mine:
            return
        if kind is None:
            held, state = self._store.finish(self._key, self._token, "done", self._keep), "done"
        elif mine.on_failure == "keep":
            held, state = self._store.finish(self._key, self._token, "kept", self._keep), "kept"
        else:
            held, state = self._store.release(self._key, self._token), "released"
        self._note(state if held else "lost")
        if not held:
            log.warning(
                "the reservation of %s ran out after %g s while its run went on: another may have done the work too",
                self._key,
                self._lease,
            )

    def __call__(self, function: _F) -> _F:
        """Reserves for every call of the function. A key with {name} is filled from its arguments."""
        if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
            raise TypeError("reserve_once: decorates plain functions; use `with reserve_once(...)` in others")
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            with self._for(self._key.format(**bound.arguments)) as mine:
                return function(*args, **kwargs) if mine else None

        return call  # type: ignore[return-value]

    def _for(self, key: str) -> reserve_once:
        return reserve_once(
            key, store=self._store, on_failure=self._on_failure, in_flight=self._in_flight, lease=self._lease, keep=self._keep
        )

    def _stand_aside(self, taken: Taken) -> None:
        problem = InFlight(self._key, taken.holder, taken.left)
        if self._in_flight == "skip":
            skipped("in_flight", taken.holder or None)
        elif self._in_flight == "raise" or current.get() is None:
            raise problem
        else:
            from celery import current_task

            # To wait for another is no failure: it must not use up the retries, and end without the work.
            more = (current_task.request.retries or 0) + 1
            raise current_task.retry(exc=problem, countdown=max(1.0, min(taken.left, LONGEST_RETRY)), max_retries=more)

    def _note(self, state: str) -> None:
        run = current.get()
        if run is not None:
            run.notes["reservation"] = {"key": self._key, "state": state}
