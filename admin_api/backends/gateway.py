"""A gateway beside the broker, asked at the socket that it has for operators (`client_sdk.gateways.control`).

It is a process of its own that may be busy, hang or be gone: every question has ANSWER_S, and what is no answer is a
sentence for the operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import aiohttp
import msgspec

from admin_api.errors import AdminError, shown
from admin_api.processes import GatewayProcess

ANSWER_S: Final = 0.8  # operators are answered within a second, whatever the gateway does
HOST: Final = "http://gateway"  # the path of the socket says which one

T = TypeVar("T")


class Words(NamedTuple):
    """What is said of one kind of gateway."""

    name: str  # "the feed"
    none: str  # code word where there is none
    why_none: str  # and its sentence
    unavailable: str  # code word where it does not answer


class AskedGateway:
    """One gateway, or none. AdminError: there is none, or it does not answer."""

    def __init__(self, words: Words, path: Path, process: GatewayProcess | None, answer_s: float = ANSWER_S) -> None:
        """`path`: of its socket. `process`: None where none is kept running."""
        self.process: Final = process
        self._words: Final = words
        self._path: Final = path
        self._answer_s: Final = answer_s
        self._session: aiohttp.ClientSession | None = None  # None until the first question

    @property
    def is_there(self) -> bool:
        """One is kept running."""
        return self.process is not None

    async def close(self) -> None:
        """Asks no more."""
        if self._session is not None:
            await self._session.close()

    async def ask(
        self, method: str, path: str, kind: type[T], query: Mapping[str, str] | None = None, body: bytes = b""
    ) -> T:
        """What it answers."""
        if self.process is None:
            raise AdminError(self._words.none, self._words.why_none)
        if not self.process.pid:
            raise self._unavailable("does not run; the broker's log says why")
        if self._session is None:
            # A connection for each question: the process at the other end may be another one each time.
            connector = aiohttp.UnixConnector(str(self._path), force_close=True)
            self._session = aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(self._answer_s))
        try:
            async with self._session.request(method, HOST + path, params=query, data=body or None) as response:
                data = await response.read()
        except TimeoutError:
            late = "; what was asked for may still be done" if method == "POST" else ""
            raise self._unavailable(f"has not answered within {self._answer_s:g} s{late}") from None
        except (aiohttp.ClientError, OSError):
            restarts = self.process.restarts
            often = f", after {restarts:,} restarts; the broker's log says why" if restarts else ""
            raise self._unavailable(f"cannot be asked: it is starting, or ending{often}") from None
        if response.status != 200:
            raise self._unavailable(f"refuses: {shown(data.decode(errors='replace'))}")
        try:
            return msgspec.json.decode(data, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise self._unavailable("gives an answer that is none") from None

    def _unavailable(self, text: str) -> AdminError:
        return AdminError(self._words.unavailable, f"{self._words.name} {text}")
