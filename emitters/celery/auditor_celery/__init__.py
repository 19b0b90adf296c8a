"""Tells the auditor what Celery tasks do.

    import auditor_celery

    auditor_celery.install(app, bootstrap_servers="kafka:9092", topic="task-events")

It listens to Celery's signals, and is never in a task's way: events wait in a bounded buffer, nothing here blocks a task or
raises into it, and what had to be dropped is counted (`stats`) and shows the auditor as a gap.
"""

from __future__ import annotations

from .config import Config, ConfigError
from .effects import effect, run_id, skipped
from .install import Auditor, install, stats, uninstall
from .keys import HEADER as BUSINESS_KEY_HEADER
from .keys import KeyProblem, business_key
from .reserve import InFlight, Reservation, reserve_once

__version__ = "0.1.0"
__all__ = [
    "BUSINESS_KEY_HEADER",
    "Auditor",
    "Config",
    "ConfigError",
    "InFlight",
    "KeyProblem",
    "Reservation",
    "business_key",
    "effect",
    "install",
    "reserve_once",
    "run_id",
    "skipped",
    "stats",
    "uninstall",
]
