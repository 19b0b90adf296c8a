"""What tests run against: Kafka, Redis and workers, each started here or named by the environment."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from reading import Events

HERE = Path(__file__).parent


def missing(what: str, how: str) -> None:
    """Skips a test for what the machine lacks; a failure where everything is required."""
    message = f"missing: {what} ({how})"
    if os.environ.get("AUDITOR_REQUIRE") == "all":
        pytest.fail(message)
    pytest.skip(message)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def until(what: str, condition: Callable[[], Any], seconds: float = 30) -> Any:
    """Waits for a condition, and gives what it says."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        said = condition()
        if said:
            return said
        time.sleep(0.02)
    raise AssertionError(f"{what} did not come about within {seconds} s")


@pytest.fixture(scope="session")
def kafka() -> Iterator[str]:
    """A broker's address: the one that AUDITOR_TEST_KAFKA names, else librdkafka's own stand-in."""
    named = os.environ.get("AUDITOR_TEST_KAFKA")
    if named:
        yield named
        return
    host = subprocess.Popen([sys.executable, HERE / "standin.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert host.stdout is not None
    yield host.stdout.readline().strip()
    host.communicate(timeout=30)


@pytest.fixture
def topic(kafka: str) -> str:
    name = f"events-{uuid.uuid4().hex[:12]}"
    if os.environ.get("AUDITOR_TEST_KAFKA"):
        admin = AdminClient({"bootstrap.servers": kafka})  # which must outlive the answer
        admin.create_topics([NewTopic(name, 1)])[name].result(30)
    else:
        Producer({"bootstrap.servers": kafka, "log_level": 0}).list_topics(name, timeout=10)  # makes the stand-in create it
    return name


@pytest.fixture
def events(kafka: str, topic: str) -> Iterator[Events]:
    reader = Events(kafka, topic)
    yield reader
    reader.close()


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Redis of the tests' own."""
    server = shutil.which("redis-server")
    if server is None:
        missing("redis-server", "apt-get install redis-server")
    port = free_port()
    process = subprocess.Popen(
        [str(server), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path_factory.mktemp("redis"))],
        stdout=subprocess.DEVNULL,
    )

    def answers() -> bool:
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", port)) == 0

    until("Redis", answers)
    yield f"redis://127.0.0.1:{port}"
    process.terminate()
    process.wait(10)


@pytest.fixture(scope="session")
def rabbitmq_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A RabbitMQ of the tests' own, with a port mapper of its own."""
    server = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")  # the one on the path wants to be another user
    if not server.exists():
        missing("rabbitmq-server", "apt-get install rabbitmq-server")
    home, port = tmp_path_factory.mktemp("rabbitmq"), free_port()
    environment = {
        **os.environ,
        "HOME": str(home),
        "ERL_EPMD_PORT": str(free_port()),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": f"tests{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_MNESIA_BASE": str(home / "mnesia"),
        "RABBITMQ_LOG_BASE": str(home / "log"),
        "RABBITMQ_CONFIG_FILE": str(home / "none"),
        "RABBITMQ_CONF_ENV_FILE": str(home / "none"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "none"),
    }
    log = home / "output"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(server)], env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )

    def answers() -> bool:
        assert process.poll() is None, log.read_text()
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", port)) == 0

    until("RabbitMQ", answers, seconds=90)
    yield f"amqp://guest:guest@127.0.0.1:{port}//"
    os.killpg(process.pid, 15)
    process.wait(60)
    subprocess.run(["epmd", "-kill"], env=environment, capture_output=True)


class Worker:
    """A worker in a process of its own."""

    def __init__(self, environment: dict[str, str], log: Path, name: str, arguments: list[str]) -> None:
        self.log = log
        self.name = name
        self._out = log.open("wb")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", "shop", "worker", "-n", f"{name}@h", "-l", "INFO", *arguments],
            cwd=HERE, env=environment, stdout=self._out, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        until(f"worker {name}", lambda: " ready." in self.text() or self.process.poll() is not None)
        assert self.process.poll() is None, self.text()

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def stop(self, seconds: float = 20) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.kill()
        self._out.close()

    def kill(self) -> None:
        """Ends the worker and its children as a power cut would."""
        os.killpg(self.process.pid, 9)
        self.process.wait(10)


@pytest.fixture
def environment(kafka: str, topic: str, redis_url: str) -> dict[str, str]:
    """Where the application `shop` finds its servers. Each test has a queue of its own."""
    return {
        **os.environ,
        "SHOP_BROKER": redis_url + "/0",
        "SHOP_QUEUE": topic,
        "AUDITOR_CELERY_BOOTSTRAP_SERVERS": kafka,
        "AUDITOR_CELERY_TOPIC": topic,
        "AUDITOR_CELERY_HEARTBEAT": "0.5",
    }


@pytest.fixture
def start(environment: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    workers: list[Worker] = []

    def start(name: str, *arguments: str, **more: str) -> Worker:
        worker = Worker({**environment, **more}, tmp_path / f"{name}.log", name, list(arguments))
        workers.append(worker)
        return worker

    yield start
    for worker in workers:
        worker.stop()


@pytest.fixture
def publish(environment: dict[str, str]) -> Callable[[str], str]:
    """Runs a line of Python beside the application, in a process that ends by itself; what it prints."""

    def publish(line: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", "from shop import *\n" + line],
            cwd=HERE, env=environment, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return publish
