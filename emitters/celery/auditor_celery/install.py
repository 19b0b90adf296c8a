"""Connects Celery's signals to what tells of them."""

from __future__ import annotations

import atexit
import logging
import os
import threading
from typing import Any

from celery import signals
from celery.utils.nodenames import anon_nodename
from confluent_kafka import KafkaException

from .config import Config, ConfigError, load
from .delivery import Deliveries
from .describe import Describer
from .emitter import Emitter, check
from .execution import Execution
from .heartbeat import Heartbeat
from .keys import Keys
from .publish import Publishing

log = logging.getLogger("auditor_celery")

_lock = threading.Lock()
_installed: Auditor | None = None


class Auditor:
    """What `install` leaves behind: this process's events, and what became of them."""

    def __init__(self, app: Any, config: Config, emitter: Emitter) -> None:
        self.app = app
        self.config = config
        self.emitter = emitter
        self.keys = Keys(config.keys, config.strict_keys)
        describe = Describer(config, self.keys)
        self._heartbeat = Heartbeat(emitter, config.namespace, config.heartbeat)
        publishing = Publishing(app, emitter, describe)
        execution = Execution(config, emitter, describe)
        deliveries = Deliveries(emitter, describe)
        self._handlers: list[tuple[Any, Any]] = [
            (signals.before_task_publish, publishing.before),
            (signals.after_task_publish, publishing.after),
            (signals.task_received, deliveries.received),
            (signals.task_revoked, deliveries.revoked),
            (signals.task_unknown, deliveries.unknown),
            (signals.task_rejected, deliveries.rejected),
            (signals.task_prerun, execution.prerun),
            (signals.task_success, execution.success),
            (signals.task_retry, execution.retry),
            (signals.task_retry, deliveries.cancelled),
            (signals.task_failure, execution.failure),
            (signals.task_internal_error, execution.internal_error),
            (signals.task_postrun, execution.postrun),
            (signals.worker_init, self._worker_init),
            (signals.worker_ready, self._heartbeat.ready),
            (signals.worker_shutdown, self._worker_shutdown),
            (signals.worker_process_init, self._process_init),
            (signals.worker_process_shutdown, self._process_shutdown),
        ]
        self._drained = False
        self._main = os.getpid()

    def stats(self) -> dict[str, Any]:
        """What became of this process's events: emitter, acknowledged, waiting, dropped by reason, and the last error."""
        return self.emitter.stats()

    def flush(self, seconds: float = 5.0) -> int:
        """Waits until Kafka has acknowledged what this process told so far, at most so long; how many events still wait."""
        return self.emitter.flush(seconds)

    def connect(self) -> None:
        """Begins to listen. Raises ConfigError where a task that is registered already has a key that can't be."""
        if self.app.finalized:
            self._check_keys()
        for signal, handler in self._handlers:
            signal.connect(handler, weak=False)
        self.app.on_after_finalize.connect(self._finalized, weak=False)
        atexit.register(self._exit)

    def disconnect(self) -> None:
        """Ends listening, and sends what waits."""
        for signal, handler in self._handlers:
            signal.disconnect(handler)
        self.app.on_after_finalize.disconnect(self._finalized)
        self._heartbeat.stop()
        atexit.unregister(self._exit)
        self.emitter.close()

    def _check_keys(self) -> None:
        problems = []
        for task in list(self.app.tasks.values()):
            try:
                self.keys.register(task)
            except ConfigError as e:
                problems.append(str(e))
        if problems:
            raise ConfigError("; ".join(problems))

    def _finalized(self, **_: Any) -> None:
        """on_after_finalize. Celery's signals swallow what is raised in them, so here it is told in the log."""
        with self.emitter.guard("on_after_finalize"):
            try:
                self._check_keys()
            except ConfigError as e:
                log.error("%s", e)

    def _worker_init(self, sender: Any = None, **_: Any) -> None:
        """worker_init. Where keys are strict a worker does not start with a wrong one."""
        with self.emitter.guard("worker_init"):
            self.emitter.rename(str(sender.hostname))
            if self.config.strict_keys:
                self.app.finalize()
                try:
                    self._check_keys()
                except ConfigError as e:
                    raise SystemExit(str(e)) from None

    def _worker_shutdown(self, **_: Any) -> None:
        with self.emitter.guard("worker_shutdown"):
            self._heartbeat.stop()
            self.emitter.flush(self.config.drain)
            self._drained = True

    def _process_init(self, **_: Any) -> None:
        with self.emitter.guard("worker_process_init"):
            self.emitter.start()  # so that no task waits for it
            self._heartbeat.beat("worker-process-online", active=False)

    def _process_shutdown(self, **_: Any) -> None:
        with self.emitter.guard("worker_process_shutdown"):
            if os.getpid() != self._main:
                self._heartbeat.beat("worker-process-offline", active=False)
                self.emitter.close()

    def _exit(self) -> None:
        self.emitter.close(0.2 if self._drained else None)


def install(app: Any, **settings: Any) -> Auditor:
    """Lets a Celery application tell the auditor what its tasks do.

    Call it once in every process that publishes or runs tasks, where the application is made. Settings are those of
    `Config`; what is not given comes from the environment. Raises ConfigError where they are wrong; that Kafka is away is
    none. A second call with the same settings does nothing, one with others is a ConfigError.
    """
    global _installed
    config = load(settings)
    with _lock:
        if _installed is not None:
            if _installed.app is app and _installed.config == config:
                return _installed
            raise ConfigError(
                "auditor_celery: is installed in this process already, with other settings or for another application"
            )
        emitter = Emitter(config, anon_nodename())
        auditor = Auditor(app, config, emitter)
        if config.enabled:
            try:
                check(config)
            except KafkaException as e:
                raise ConfigError(f"auditor_celery: kafka: {e}") from e
            auditor.connect()
        _installed = auditor
        return auditor


def uninstall() -> None:
    """Takes back `install`, for tests: no signal is listened to any more, and what waits is sent."""
    global _installed
    with _lock:
        if _installed is not None:
            _installed.disconnect()
            _installed = None


def stats() -> dict[str, Any]:
    """What became of this process's events; empty where nothing is installed."""
    return {} if _installed is None else _installed.stats()
