"""A Celery application that knows nothing of the auditor. Run as a program, it publishes a task for each argument."""

import json
import os
import sys

from celery import Celery

app = Celery("shop", broker=os.environ["BROKER"])
app.conf.update(
    broker_transport_options=json.loads(os.environ.get("TRANSPORT", "{}")),
    broker_connection_retry_on_startup=True,
    task_ignore_result=True,
    task_send_sent_event=True,
)


@app.task(name="shop.settle")
def settle(order):
    return order


if __name__ == "__main__":
    for number in sys.argv[1:]:
        settle.delay(int(number))
