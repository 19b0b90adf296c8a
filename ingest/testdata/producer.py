"""Writes what TestServersProducersOfOtherMake reads, with librdkafka: brokers, topic."""

import os
import sys

from confluent_kafka import Producer

brokers, topic = sys.argv[1:]
sent = 0


def open_producer(**more):
    config = {"bootstrap.servers": brokers, "enable.idempotence": True, "linger.ms": 20}
    config.update({name.replace("_", "."): value for name, value in more.items()})
    return Producer(config)


def check(error, _):
    if error is not None:
        sys.exit(str(error))


def send(producer, codec, n):
    global sent
    for _ in range(n):
        producer.produce(
            topic,
            partition=0,
            key=None if sent % 3 == 0 else f"key-{sent}",
            value=f'{{"codec":"{codec}","n":{sent},"padding":"{"x" * 200}"}}',
            headers=[("traceparent", f"00-{sent}".encode()), ("empty", None)],
            on_delivery=check,
        )
        sent += 1
    if producer.flush(30) > 0:
        sys.exit("not all was sent")


for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
    send(open_producer(compression_type=codec), codec, 20)

producer = open_producer(transactional_id=topic + "-python", transaction_timeout_ms=1000)
producer.init_transactions(30)
for commit in (True, False, True):
    producer.begin_transaction()
    send(producer, "none", 2)
    if commit:
        producer.commit_transaction(30)
    else:
        producer.abort_transaction(30)
producer.begin_transaction()
send(producer, "none", 1)
os._exit(0)  # it dies inside the transaction
