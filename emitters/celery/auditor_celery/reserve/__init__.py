"""Work that is to be done once: an atomic reservation of its key, which the runs of every copy meet."""

from __future__ import annotations

from .once import InFlight, Reservation, reserve_once
from .store import Store, Taken

__all__ = ["InFlight", "Reservation", "Store", "Taken", "reserve_once"]
