"""Where events go and how many may wait: from arguments, else from the environment, else defaults."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Union

KeySpec = Union[str, Callable[..., Any]]
"""How a task's arguments make its business key: a template, or a function of the same arguments."""

PREFIX = "AUDITOR_CELERY_"
KAFKA_PREFIX = PREFIX + "KAFKA_"
MAX_TEXT = 1024  # bytes of an id or a name that the auditor takes


class ConfigError(ValueError):
    """A setting is missing or wrong. The message names every one."""


@dataclass(frozen=True)
class Config:
    """The settings of one process. Each can be given to `install`; those of simple types are also read from the
    environment, as `AUDITOR_CELERY_` and the name in capitals."""

    bootstrap_servers: str = ""  # host:port, with commas between several
    topic: str = "task-events"
    namespace: str = ""  # environment or team; empty: what the auditor is configured for
    enabled: bool = True  # false: nothing is connected, nothing is sent
    buffer_events: int = 100_000  # that wait in memory while Kafka is slow or away; then new ones are dropped and counted
    buffer_bytes: int = 32 << 20
    linger: float = 0.005  # seconds that an event may wait for company
    drain: float = 5.0  # seconds that a process may take at its end to send what waits
    heartbeat: float = 5.0  # seconds between a worker's signs of life
    effect_wait: float = 0.0  # seconds that an effect may wait for Kafka's word; 0: not at all
    messages: bool = True  # false: an error's message stays here, only its type is sent
    strict_keys: bool = False  # true: a key of time or chance is an error at registration, no warning
    keys: Mapping[str, KeySpec] = field(default_factory=dict)  # business keys by task name, or pattern such as "mail.*"
    permanent_errors: tuple[type[BaseException], ...] = ()  # errors that no retry heals
    kafka: Mapping[str, Any] = field(default_factory=dict, repr=False)  # may hold a password; further settings of librdkafka

    def __post_init__(self) -> None:
        problems = [
            f"{name}: is {value!r}, must be {allowed}"
            for name, value, right, allowed in (
                ("topic", self.topic, bool(self.topic), "a topic's name"),
                ("namespace", self.namespace, len(self.namespace.encode()) <= MAX_TEXT, f"at most {MAX_TEXT} bytes"),
                ("buffer_events", self.buffer_events, 0 < self.buffer_events <= 10_000_000, "from 1 to 10,000,000"),
                ("buffer_bytes", self.buffer_bytes, 1 << 20 <= self.buffer_bytes <= 1 << 31, "from 1 MiB to 2 GiB"),
                ("linger", self.linger, 0 <= self.linger <= 60, "from 0 to 60 seconds"),
                ("drain", self.drain, 0 <= self.drain <= 600, "from 0 to 600 seconds"),
                ("heartbeat", self.heartbeat, 0.1 <= self.heartbeat <= 600, "from 0.1 to 600 seconds"),
                ("effect_wait", self.effect_wait, 0 <= self.effect_wait <= 60, "from 0 to 60 seconds"),
            )
            if not right
        ]
        if self.enabled and not self.bootstrap_servers:
            problems.append(
                f"bootstrap_servers: must name at least one host:port, as an argument or in {PREFIX}BOOTSTRAP_SERVERS"
            )
        if problems:
            raise ConfigError("auditor_celery: " + "; ".join(problems))


def load(given: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> Config:
    """Makes the configuration: what is given wins over the environment, and that over the defaults."""
    environ = os.environ if environ is None else environ
    known = {f.name: f for f in fields(Config)}
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ConfigError(f"auditor_celery: {', '.join(unknown)}: no such setting; there are {', '.join(sorted(known))}")
    values: dict[str, Any] = {}
    for name, f in known.items():
        told = environ.get(PREFIX + name.upper(), "")
        if told and f.type in _READERS:
            values[name] = _read(name, str(f.type), told)
    values.update(given)
    values["kafka"] = {**_kafka(environ), **dict(given.get("kafka", {}))}
    return Config(**values)


def _flag(text: str) -> bool:
    if text.lower() in ("1", "true", "yes", "on"):
        return True
    if text.lower() in ("0", "false", "no", "off"):
        return False
    raise ValueError("must be true or false")


_READERS: Mapping[Any, Callable[[str], Any]] = {"str": str, "bool": _flag, "int": int, "float": float}


def _read(name: str, kind: str, text: str) -> Any:
    try:
        return _READERS[kind](text)
    except ValueError as e:
        raise ConfigError(f"auditor_celery: {PREFIX}{name.upper()}: is {text!r}, must be a {kind}") from e


def _kafka(environ: Mapping[str, str]) -> dict[str, str]:
    """Settings of librdkafka from the environment: AUDITOR_CELERY_KAFKA_SASL_USERNAME is sasl.username."""
    return {
        name[len(KAFKA_PREFIX) :].lower().replace("_", "."): text
        for name, text in environ.items()
        if name.startswith(KAFKA_PREFIX) and text
    }
