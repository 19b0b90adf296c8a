"""What a task does to the world outside, and runs that stand aside."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from decimal import Decimal
from types import TracebackType
from typing import Any, TypeVar

from .run import Run, current
from .text import cut

_F = TypeVar("_F", bound=Callable[..., Any])


class effect:
    """Marks an effect, as a context manager or a decorator:

        with effect("payment.charge", idempotency_key=f"settle_order:{order.id}") as e:
            answer = bank.charge(...)
            e.deduplicated = answer.replayed

    It is told when the block ends without an exception, or at once by `done()`. A block that raises tells nothing: where
    the effect may have happened all the same, call `done()` in its handler. Outside of a run nothing is told.

    wait: seconds to wait for Kafka's acknowledgement, so that even a kill right after the effect can't hide it.
    """

    def __init__(
        self,
        name: str,
        *,
        idempotency_key: str | None = None,
        target: str | None = None,
        amount: Decimal | int | str | None = None,
        currency: str | None = None,
        deduplicated: bool = False,
        wait: float | None = None,
    ) -> None:
        self.name = name
        self.idempotency_key = idempotency_key
        self.target = target
        self.amount = amount
        self.currency = currency
        self.deduplicated = deduplicated  # the receiver knew the copy and dropped it
        self.wait = wait
        self._told = False

    def done(self) -> None:
        """Tells the effect now. A second call does nothing."""
        if self._told:
            return
        self._told = True
        run = current.get()
        if run is None:
            return
        with run.emitter.guard("effect"):
            run.tell("effect", {"effect": self._fields()})
            wait = run.wait if self.wait is None else self.wait
            if wait > 0:
                run.emitter.flush(wait)

    def _fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"name": cut(str(self.name))}
        for name in ("idempotency_key", "target", "currency"):
            value = getattr(self, name)
            if value is not None:
                fields[name] = cut(str(value))
        if self.amount is not None:
            amount = _amount(self.amount)
            fields["amount" if amount else "amount_told"] = amount or cut(str(self.amount))
        if self.deduplicated:
            fields["deduplicated"] = True
        return fields

    def __enter__(self) -> effect:
        return self

    def __exit__(self, kind: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        if kind is None:
            self.done()

    def __call__(self, function: _F) -> _F:
        """Marks every call of a function that returns. A text with {name} in key or target is filled from its arguments."""
        if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
            raise TypeError("effect: decorates plain functions; use `with effect(...)` in others")
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            run = current.get()
            if run is not None:
                with run.emitter.guard("effect"):
                    self._filled(signature, args, kwargs).done()
            return result

        return call  # type: ignore[return-value]

    def _filled(self, signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> effect:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()

        def fill(text: str | None) -> str | None:
            try:
                return None if text is None else str(text).format(**bound.arguments)
            except (LookupError, AttributeError, ValueError, TypeError):
                return None  # no key is better than a wrong one

        return effect(
            self.name,
            idempotency_key=fill(self.idempotency_key),
            target=fill(self.target),
            amount=self.amount,
            currency=self.currency,
            deduplicated=self.deduplicated,
            wait=self.wait,
        )


def _amount(value: Decimal | int | str) -> str | None:
    """An amount's decimal digits; None where it is no decimal number."""
    try:
        number = Decimal(value)
    except (ArithmeticError, ValueError, TypeError):
        return None
    return format(number, "f") if number.is_finite() else None


def skipped(reason: str = "duplicate_ignored", holder: str | None = None) -> None:
    """Says that this run stands aside, as a copy: its end is told as `skipped`, whether it then returns or raises Ignore.

    reason: duplicate_ignored, already_processed, locked, in_flight, already_running, or another.
    holder: the task id that it stands aside for, where it is known.
    """
    run = current.get()
    if run is None:
        return
    with run.emitter.guard("skipped"):
        run.skip = {"reason": cut(str(reason))}
        if holder:
            run.skip["holder"] = cut(str(holder))


def run_id() -> str | None:
    """The task id of the calling code's run; None outside of one."""
    run: Run | None = current.get()
    return None if run is None else run.task_id
