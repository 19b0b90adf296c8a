"""What keeps reservations."""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol

State = Literal["taken", "pending", "done", "kept"]


class Taken(NamedTuple):
    """What came of an attempt to take a key."""

    state: State  # taken: by this call; else how the one stands that is there
    holder: str = ""  # task id of the run that has or had it
    left: float = 0.0  # seconds until it runs out


class Store(Protocol):
    """Keeps reservations by key. Every call is atomic, whatever other processes do. A token names one reservation: who lost
    it, for its lease ran out and another took it, changes nothing any more and is told so by False."""

    def take(self, key: str, holder: str, token: str, lease: float) -> Taken:
        """Reserves the key for so many seconds, where it is free or what was there has run out."""

    def finish(self, key: str, token: str, state: Literal["done", "kept"], keep: float) -> bool:
        """Keeps the reservation for so many seconds more, as done, or as failed and not to be tried again."""

    def release(self, key: str, token: str) -> bool:
        """Frees the key."""
