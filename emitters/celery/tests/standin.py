"""librdkafka's own stand-in for a broker, in a process of its own: prints its address, and runs until standard input ends."""

from __future__ import annotations

import sys

from confluent_kafka import Producer

host = Producer({"bootstrap.servers": "replaced", "test.mock.num.brokers": 1, "log_level": 0})
broker = next(iter(host.list_topics(timeout=10).brokers.values()))
print(f"{broker.host}:{broker.port}", flush=True)
sys.stdin.read()
