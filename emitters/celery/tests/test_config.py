"""Settings: what is given, the environment, defaults, and what is refused."""

from __future__ import annotations

import pytest

from auditor_celery.config import Config, ConfigError, load


def test_arguments_win_over_the_environment_and_that_over_defaults() -> None:
    environ = {
        "AUDITOR_CELERY_BOOTSTRAP_SERVERS": "of-env:9092",
        "AUDITOR_CELERY_TOPIC": "of-env",
        "AUDITOR_CELERY_DRAIN": "1.5",
        "AUDITOR_CELERY_BUFFER_EVENTS": "7",
        "AUDITOR_CELERY_MESSAGES": "no",
        "AUDITOR_CELERY_KAFKA_SASL_USERNAME": "shop",
        "AUDITOR_CELERY_KAFKA_CLIENT_ID": "of-env",
    }
    config = load({"topic": "given", "kafka": {"client.id": "given"}}, environ)
    assert config.bootstrap_servers == "of-env:9092" and config.topic == "given"
    assert config.drain == 1.5 and config.buffer_events == 7 and config.messages is False
    assert config.kafka == {"sasl.username": "shop", "client.id": "given"}
    assert config.heartbeat == Config.heartbeat


@pytest.mark.parametrize(
    ("given", "environ", "says"),
    [
        ({}, {}, "bootstrap_servers: must name"),
        ({"bootstrap": "k:1"}, {}, "bootstrap: no such setting"),
        ({"bootstrap_servers": "k:1", "drain": -1, "topic": ""}, {}, "topic: is '', must be a topic's name; drain: is -1"),
        ({"bootstrap_servers": "k:1"}, {"AUDITOR_CELERY_DRAIN": "soon"}, "AUDITOR_CELERY_DRAIN: is 'soon', must be a float"),
        ({"bootstrap_servers": "k:1"}, {"AUDITOR_CELERY_ENABLED": "perhaps"}, "AUDITOR_CELERY_ENABLED"),
        ({"bootstrap_servers": "k:1", "namespace": "n" * 1025}, {}, "namespace"),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, object], environ: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says.replace("'", ".")):
        load(given, environ)


def test_what_is_not_enabled_needs_no_kafka() -> None:
    assert load({"enabled": False}, {}).bootstrap_servers == ""
