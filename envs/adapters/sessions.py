"""Sessions with an OpenEnv server: reset and steps over its WebSocket, schema and metadata over HTTP.

In: an address.  Out: observations as JSON.  Called by `envs.adapters.openenv`.

A server makes a new world for each HTTP request to /reset and /step, so an episode lives in a WebSocket to /ws, as in
OpenEnv's own client.  Connections are tried again, requests never: a step that was sent twice could count twice.
No proxy is used, and no redirect followed.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from envs.adapters.settings import Settings

MAX_BYTES = 8 * 1024 * 1024
PAUSE = 0.2  # seconds before a connection is tried again, doubled each time


class SessionFailure(Exception):
    """The server or the way to it failed."""


class ActionRefused(Exception):
    """The server says that the action is none; the text is for the model."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where the server is, what a request may take, and how often a connection is tried again."""

    url: str
    host: str
    port: int
    seconds: float
    retries: int

    @staticmethod
    def checked(settings: Settings, url: str, allow_remote: bool, seconds: float, retries: int) -> Address:
        """ValueError for what is no plain http address, and for another machine unless the file allows it."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port or 80
        except ValueError as problem:
            raise settings.wrong("url", f"{url!r} is no address: {problem}") from problem
        if parts.scheme != "http" or not host or parts.username or parts.path not in ("", "/") or parts.query:
            raise settings.wrong("url", f"{url!r} must look like http://127.0.0.1:8000")
        if not allow_remote and not _is_loopback(host):
            raise settings.wrong(
                "url",
                f"{host} is another machine: what the model writes would leave this one; add `allow_remote: true`",
            )
        return Address(f"http://{parts.netloc}", host, port, seconds, retries)


def _is_loopback(host: str) -> bool:
    """`localhost` is taken at its word; other names could lead anywhere."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def get_json(address: Address, path: str) -> dict[str, Any]:
    """What GET answers.  Raises SessionFailure."""
    connection = http.client.HTTPConnection(address.host, address.port, timeout=address.seconds)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        found = json.loads(response.read(MAX_BYTES))
    except (OSError, http.client.HTTPException, ValueError, RecursionError) as problem:
        raise SessionFailure(f"GET {address.url}{path}: {type(problem).__name__}: {problem}") from problem
    finally:
        connection.close()
    if response.status != 200 or not isinstance(found, dict):
        raise SessionFailure(f"GET {address.url}{path}: status {response.status}, {str(found)[:200]}")
    return found


class Session:
    """One world of the server.  Open, reset, step; close on every path."""

    def __init__(self, address: Address):
        self._address = address
        self._socket: Any = None

    async def open(self) -> None:
        from websockets.asyncio.client import connect

        pause = PAUSE
        for attempt in range(self._address.retries + 1):
            try:
                self._socket = await connect(
                    f"ws://{self._address.url.removeprefix('http://')}/ws",
                    open_timeout=self._address.seconds,
                    close_timeout=min(self._address.seconds, 5.0),
                    max_size=MAX_BYTES,
                    proxy=None,
                )
                return
            except Exception as problem:
                if attempt == self._address.retries:
                    raise SessionFailure(f"no session with {self._address.url}: {_words(problem)}") from problem
            await asyncio.sleep(pause)
            pause *= 2

    async def reset(self, data: Mapping[str, Any]) -> dict[str, Any]:
        return await self._ask({"type": "reset", "data": dict(data)})

    async def step(self, action: Mapping[str, Any]) -> dict[str, Any]:
        """Raises ActionRefused where the server finds the action to be none."""
        return await self._ask({"type": "step", "data": dict(action)})

    async def close(self) -> None:
        socket, self._socket = self._socket, None
        if socket is not None:
            # The server ends the world when the connection goes, with or without a word.
            with contextlib.suppress(Exception):
                await socket.send(json.dumps({"type": "close"}))
            with contextlib.suppress(Exception):
                await socket.close()

    async def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        kind = request["type"]
        try:
            async with asyncio.timeout(self._address.seconds):
                await self._socket.send(json.dumps(request))
                answer = json.loads(await self._socket.recv())
        except TimeoutError as problem:
            raise SessionFailure(f"no answer to {kind} within {self._address.seconds:g} s") from problem
        except Exception as problem:
            raise SessionFailure(f"{kind}: {_words(problem)}") from problem
        return _observation(kind, answer)


def _observation(kind: str, answer: Any) -> dict[str, Any]:
    """`{"observation": {…}, "reward": …, "done": …}`, or why not."""
    data = answer.get("data") if isinstance(answer, dict) else None
    if isinstance(data, dict) and answer.get("type") == "error":
        if kind == "step" and data.get("code") == "VALIDATION_ERROR":
            raise ActionRefused(f"this is no action: {_first_error(data)}")
        raise SessionFailure(f"{kind}: the server says {data.get('code')}: {str(data.get('message'))[:500]}")
    if not isinstance(data, dict) or not isinstance(data.get("observation"), dict):
        raise SessionFailure(f"{kind}: this is no observation: {str(answer)[:200]}")
    return {"observation": data["observation"], "reward": data.get("reward"), "done": bool(data.get("done"))}


def _first_error(data: Mapping[str, Any]) -> str:
    errors = data.get("errors")
    first = errors[0] if isinstance(errors, list) and errors and isinstance(errors[0], dict) else {}
    return f"{'.'.join(map(str, first.get('loc', [])))} {first.get('msg', data.get('message', ''))}".strip()[:300]


def _words(problem: Exception) -> str:
    return f"{type(problem).__name__}: {str(problem)[:300]}"


def one_reset(address: Address, data: Mapping[str, Any]) -> dict[str, Any]:
    """The first observation of a world that is closed again; whether or not the caller runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_one_reset(address, data))
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, _one_reset(address, data)).result()


async def _one_reset(address: Address, data: Mapping[str, Any]) -> dict[str, Any]:
    session = Session(address)
    try:
        await session.open()
        return await session.reset(data)
    finally:
        await session.close()
