"""Reservations in Redis: SET NX with a time to live, and changes by who still holds them only."""

from __future__ import annotations

import json
from typing import Any, Literal

from .store import Taken

_REPLACE = """
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('set', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
"""
_DELETE = """
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('del', KEYS[1])
"""


class RedisStore:
    """Keeps reservations in Redis. client: a `redis.Redis`. A Redis that evicts keys, or loses them in a failover, loses
    reservations: where that is too little, use a database."""

    def __init__(self, client: Any, prefix: str = "auditor:once:") -> None:
        self._client = client
        self._prefix = prefix
        self._held: dict[str, str] = {}  # what this process wrote, by token

    def take(self, key: str, holder: str, token: str, lease: float) -> Taken:
        name, value = self._prefix + key, _value("pending", holder, token)
        for _ in range(5):
            if self._client.set(name, value, nx=True, px=_milliseconds(lease)):
                self._held[token] = value
                return Taken("taken", holder, lease)
            there = self._client.get(name)
            if there is not None:
                told = json.loads(there)
                return Taken(told["state"], told["holder"], max(0, self._client.pttl(name)) / 1000)
        raise RuntimeError(f"{name} comes and goes faster than it can be read")

    def finish(self, key: str, token: str, state: Literal["done", "kept"], keep: float) -> bool:
        was = self._held.pop(token, "")
        value = _value(state, json.loads(was)["holder"], token) if was else ""
        return bool(was) and bool(self._client.eval(_REPLACE, 1, self._prefix + key, was, value, _milliseconds(keep)))

    def release(self, key: str, token: str) -> bool:
        was = self._held.pop(token, "")
        return bool(was) and bool(self._client.eval(_DELETE, 1, self._prefix + key, was))


def _value(state: str, holder: str, token: str) -> str:
    return json.dumps({"state": state, "holder": holder, "token": token})


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))
