"""The hook: another program that verifies passwords and tokens, asked over HTTP.

    POST {"kind": "user", "name": "ada", "secret": "correct horse"}     {"kind": "jwt", "name": "", "secret": "eyJ…"}
    200  {"allowed": true, "name": "ada", "expires_in_s": 3600}         {"allowed": false, "reason": "locked"}

Decides what an answer means. Silence, and anything but such an answer, lets nobody in. What was answered is kept for a
short time, by a keyed hash of what was asked, so that a fleet that comes back does not ask for each connection; its
owner decides how late a login that is withdrawn is noticed.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import ssl
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

import aiohttp
import msgspec

from broker.edge.admission.verdicts import NotAccepted, Unavailable, Verified, checked_name
from rsocket_wire.wire.authentication import Credentials

ANSWER_S: Final = 1.0  # for an answer, connecting included
AT_ONCE_N: Final = 16  # requests to the hook; the others wait
MAX_WAITING: Final = 1_024
MAX_KEPT: Final = 10_000  # answers; beyond that the oldest go
MAX_ANSWER_BYTES: Final = 16 << 10
MAX_EXPIRES_S: Final = 1e9  # 31 years
MAX_REASON: Final = 200  # characters of it that are shown


class Answer(msgspec.Struct, frozen=True):
    """What the hook says."""

    allowed: bool
    name: str = ""  # of the identity; empty: that of the credentials
    expires_in_s: float = 0.0  # 0.0: as long as the connection
    reason: str = ""  # for operators, where it is not allowed


class _Kept(NamedTuple):
    answer: Answer
    at: float  # monotonic


class HookVerifier:
    """Verifies credentials of one kind by asking."""

    at_once_n: int = AT_ONCE_N
    max_waiting: int = MAX_WAITING

    def __init__(
        self,
        kind: str,
        url: str,
        keep_s: float = 0.0,
        tls: ssl.SSLContext | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`keep_s`: how long an answer is used again. `tls`: for https; None: with the certificates of the system.
        `clock`: monotonic, `wall`: since the epoch, both seconds. Connects when it is asked first."""
        self._kind: Final = kind
        self._url: Final = url
        self._keep_s: Final = keep_s
        self._tls: Final = tls
        self._clock: Final = clock
        self._wall: Final = wall
        self._salt: Final = secrets.token_bytes(32)
        self._kept: Final[OrderedDict[bytes, _Kept]] = OrderedDict()  # the oldest first
        self._session: aiohttp.ClientSession | None = None  # from the first question on

    async def verify(self, credentials: Credentials) -> Verified:
        """Whose they are; NotAccepted, Unavailable."""
        key = self._key_of(credentials)
        now = self._clock()
        kept = self._kept.get(key)
        if kept is None or kept.at + self._keep_s <= now:
            kept = _Kept(await self._ask(credentials), now)
            self._keep(key, kept)
        answer = kept.answer
        if not answer.allowed:
            raise NotAccepted(f"the hook says: {answer.reason or 'not allowed'}")
        if not answer.expires_in_s:
            return Verified(answer.name)
        return Verified(answer.name, self._wall() - (now - kept.at) + answer.expires_in_s)

    def prepare(self) -> None:
        """There is no file."""

    def commit(self) -> set[str]:
        """Uses no answer that it has got. Of nobody who was let in it is known that the credentials hold no longer."""
        self._kept.clear()
        return set()

    async def close(self) -> None:
        """Asks no more."""
        if self._session is not None:
            await self._session.close()

    async def _ask(self, credentials: Credentials) -> Answer:
        try:
            async with asyncio.timeout(ANSWER_S):
                raw = await self._post(credentials)
        except TimeoutError:
            raise Unavailable(f"the hook has not answered within {ANSWER_S:g} s") from None
        except (OSError, aiohttp.ClientError) as error:
            raise Unavailable(f"the hook cannot be asked: {type(error).__name__}") from None
        try:
            answer = msgspec.json.decode(raw, type=Answer)
        except (msgspec.MsgspecError, RecursionError):
            raise Unavailable('the answer of the hook is no JSON object with "allowed": true or false') from None
        if not 0.0 <= answer.expires_in_s <= MAX_EXPIRES_S:
            raise Unavailable(f"the hook says expires_in_s = {answer.expires_in_s:g}")
        name = checked_name(answer.name or credentials.name) if answer.allowed else ""
        return Answer(answer.allowed, name, answer.expires_in_s, _printable(answer.reason))

    async def _post(self, credentials: Credentials) -> bytes:
        """OSError, ClientError, Unavailable."""
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=AT_ONCE_N, ssl=self._tls or True)
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        asked = {"kind": self._kind, "name": credentials.name, "secret": credentials.secret}
        async with self._session.post(self._url, json=asked, allow_redirects=False) as answer:
            if answer.status != 200:
                raise Unavailable(f"the hook answers with the status {answer.status}")
            raw = bytearray()
            async for piece in answer.content.iter_any():
                raw += piece
                if len(raw) > MAX_ANSWER_BYTES:
                    raise Unavailable(f"the answer of the hook is longer than {MAX_ANSWER_BYTES} bytes")
            return bytes(raw)

    def _key_of(self, credentials: Credentials) -> bytes:
        asked = msgspec.json.encode((credentials.name, credentials.secret))
        return hashlib.blake2b(asked, key=self._salt, digest_size=32).digest()

    def _keep(self, key: bytes, kept: _Kept) -> None:
        if not self._keep_s:
            return
        self._kept[key] = kept
        self._kept.move_to_end(key)
        while self._kept and (len(self._kept) > MAX_KEPT or self._oldest_at() + self._keep_s <= kept.at):
            self._kept.popitem(last=False)

    def _oldest_at(self) -> float:
        return next(iter(self._kept.values())).at


def _printable(text: str) -> str:
    """What may stand in a line of the log."""
    return text[:MAX_REASON] if text.isprintable() else ""
