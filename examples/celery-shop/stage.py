"""Where a trouble is played: a Redis of its own, workers that can be killed, and a line that can be cut."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

HERE = Path(__file__).parent


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def until(what: str, condition: Callable[[], object], seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not come about within {seconds:g} s")
        time.sleep(0.02)


class Worker:
    """A worker in a process group of its own."""

    def __init__(self, module: str, name: str, concurrency: int, log: Path, broker: str) -> None:
        self.log = log
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "celery", "-A", module, "worker",
                 "-n", f"{name}@shop", "-c", str(concurrency), "-l", "INFO"],
                cwd=HERE, env={**os.environ, "SHOP_BROKER": broker}, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        until(f"worker {name}", lambda: " ready." in self.text() or self.process.poll() is not None)
        if self.process.poll() is not None:
            raise RuntimeError(self.text())

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def ask_to_stop(self) -> None:
        """SIGTERM: no new tasks, and those that run are finished."""
        self.process.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.ask_to_stop()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """SIGKILL for the worker and its children at once, as when their machine is lost."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)


class Line:
    """A TCP line to a port of this machine that can be cut."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._cut = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Breaks what is connected, and refuses what comes, until `mend`."""
        self._cut = True
        for pair in self._pairs:
            for end in pair:
                _close(end)
        self._pairs.clear()

    def mend(self) -> None:
        self._cut = False

    def _accept(self) -> None:
        while True:
            near, _ = self._listener.accept()
            if self._cut:
                _close(near)
                continue
            far = socket.create_connection(("127.0.0.1", self._target))
            self._pairs.append((near, far))
            threading.Thread(target=_carry, args=(near, far), daemon=True).start()


def _carry(near: socket.socket, far: socket.socket) -> None:
    with selectors.DefaultSelector() as waiting:
        try:
            waiting.register(near, selectors.EVENT_READ, far)
            waiting.register(far, selectors.EVENT_READ, near)
            while True:
                for key, _ in waiting.select():
                    data = key.fileobj.recv(65536)  # type: ignore[union-attr]
                    if not data:
                        raise ConnectionError
                    key.data.sendall(data)
        except (OSError, ValueError):
            _close(near)
            _close(far)


def _close(end: socket.socket) -> None:
    with suppress(OSError):  # it may be closed by the other side
        end.shutdown(socket.SHUT_RDWR)
    end.close()


class Stage:
    """One play's Redis and workers. All that was started ends with it."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._workers: list[Worker] = []
        self._directory = tempfile.TemporaryDirectory(prefix="celery-shop-")
        self.port = free_port()
        self._redis = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", self._directory.name],
            stdout=subprocess.DEVNULL,
        )
        self.broker = f"redis://127.0.0.1:{self.port}/0"

        def answers() -> bool:
            with socket.socket() as s:
                return s.connect_ex(("127.0.0.1", self.port)) == 0

        until("Redis", answers)

    def worker(self, name: str, concurrency: int = 1, broker: str | None = None) -> Worker:
        worker = Worker(self._module, name, concurrency, Path(self._directory.name) / f"{name}.log", broker or self.broker)
        self._workers.append(worker)
        return worker

    def seen(self, what: str, times: int = 1) -> None:
        """Waits until something has been marked so often."""
        from shop import redis

        until(f"{what} x {times}", lambda: int(redis.get("mark:" + what) or 0) >= times)

    def close(self) -> None:
        for worker in self._workers:
            worker.stop()
            if os.environ.get("SHOP_VERBOSE"):
                print(worker.text())
        self._redis.terminate()
        self._redis.wait(10)
        self._directory.cleanup()
