"""The public keys of those who sign tokens: a JSON Web Key Set (RFC 7517) in a file, or fetched over HTTPS.

    find ──► known ──► the key
       └───► unknown ──► read again, once in ASK_AGAIN_S ──► the key, or None

A reading goes on when those who wait for it give up: a source that is slower than their time is known to the next ones.

Decides which key may verify what: one of RSA, P-256 or Ed25519, for the algorithm that it names or, where it names
none, for those of its type. A key for anything else, a secret for one, is none. What was read is used for KEYS_S; when
it cannot be read again, it goes on being used, so that those who sign may be away for a while.
"""

from __future__ import annotations

import asyncio
import logging
import math
import ssl
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from jwt import PyJWK
from jwt.exceptions import PyJWTError

from broker.config.auth import HTTPS, MAX_KEYS_BYTES, read_key_set
from broker.config.sections.files import bad_file
from broker.edge.admission.verdicts import Unavailable

ASK_AGAIN_S: Final = 30.0  # so often at most because of an unknown key: strangers can name any
RETRY_S: Final = 5.0  # after a reading that failed
KEYS_S: Final = 600.0  # for which keys are used before they are read again: one that is withdrawn is used no longer
FETCH_S: Final = 5.0  # for an answer over HTTPS
# JWK -> algorithms of tokens that it may verify (RFC 7518, section 3.1, and RFC 8037).
ALGORITHMS: Final = {"RSA": ("RS256", "PS256"), "P-256": ("ES256",), "Ed25519": ("EdDSA",)}

_log: Final = logging.getLogger(__name__)


class Key:
    """A public key."""

    def __init__(self, id: str, algorithms: tuple[str, ...], key: object) -> None:
        self.id: Final = id  # `kid`; empty: it has none
        self.algorithms: Final = algorithms
        self.key: Final = key  # as PyJWT verifies with it


class Keys:
    """The keys of one source."""

    def __init__(
        self,
        source: str,
        fetch: Callable[[str], Awaitable[bytes]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`source`: a path, or a URL of https. `fetch` gives what is at that URL, or raises OSError."""
        self._source: Final = source
        self._fetch: Final = fetch
        self._clock: Final = clock
        self._keys: list[Key] = []
        self._read_at: float | None = None  # None until it was read
        self._ask_at = 0.0  # not to be read again before, on the clock
        self._reading: asyncio.Task[None] | None = None  # None: it is not being read
        self._prepared: list[Key] | None = None  # what `prepare` has read; None: nothing

    async def find(self, id: str, algorithm: str) -> Key | None:
        """The key of that id for that algorithm; without an id the only one for it. Unavailable."""
        if self._read_at is None or self._clock() - self._read_at > KEYS_S:
            await self._read()
        found = self._known(id, algorithm)
        if found is None:
            await self._read()
            found = self._known(id, algorithm)
        if found is None and self._read_at is None:
            raise Unavailable("the keys could not be read")
        return found

    def _known(self, id: str, algorithm: str) -> Key | None:
        fitting = [key for key in self._keys if algorithm in key.algorithms and (not id or key.id == id)]
        return fitting[0] if len(fitting) == 1 else None

    def close(self) -> None:
        """Reads no more."""
        if self._reading is not None:
            self._reading.cancel()

    def prepare(self) -> None:
        """Reads a file again, for `commit`; BrokerError "bad-config"."""
        if self._source.startswith(HTTPS):
            return
        try:
            self._prepared = keys_of(Path(self._source).read_bytes())
        except (OSError, ValueError) as error:
            raise bad_file("jwt.keys", self._source, error) from None

    def commit(self) -> None:
        """Uses what was read; keys of a URL are fetched before the next one is looked for."""
        if self._prepared is not None:
            self._keys, self._prepared = self._prepared, None
            self._read_at = self._clock()
        elif self._read_at is not None:
            self._read_at = -math.inf
        self._ask_at = 0.0

    async def _read(self) -> None:
        """Waits until the keys were read, unless that was tried a short time ago."""
        if self._reading is None:
            if self._clock() < self._ask_at:
                return
            self._reading = asyncio.get_running_loop().create_task(self._read_source())
        await asyncio.shield(self._reading)

    async def _read_source(self) -> None:
        try:
            is_remote = self._source.startswith(HTTPS)
            raw = await self._fetch(self._source) if is_remote else Path(self._source).read_bytes()
            self._keys = keys_of(raw)
        except (OSError, ValueError, TimeoutError) as error:
            _log.warning("jwt.keys: %s cannot be read: %s", self._source, str(error) or type(error).__name__)
            self._ask_at = self._clock() + RETRY_S
        else:
            self._read_at = self._clock()
            self._ask_at = self._read_at + ASK_AGAIN_S
        finally:
            self._reading = None


def keys_of(raw: bytes) -> list[Key]:
    """Those of a key set that can be used; ValueError."""
    found: list[Key] = []
    for each in read_key_set(raw):
        kind = str(each.get("kty") if each.get("kty") == "RSA" else each.get("crv"))
        algorithms = ALGORITHMS.get(kind, ())
        named = each.get("alg")
        if named is not None:
            algorithms = tuple(name for name in algorithms if name == named)
        if not algorithms:
            continue
        try:
            key = PyJWK(each, algorithms[0])
        except PyJWTError as error:
            raise ValueError(f"a key is broken: {type(error).__name__}") from None
        found.append(Key(str(each.get("kid") or ""), algorithms, key.key))
    return found


async def fetch_keys(url: str) -> bytes:
    """What is at that URL; OSError, TimeoutError. Goes nowhere else than it is told."""
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=FETCH_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(url, allow_redirects=False, ssl=ssl.create_default_context()) as answer,
        ):
            if answer.status != 200:
                raise OSError(f"the answer has the status {answer.status}")
            raw = bytearray()
            async for piece in answer.content.iter_chunked(1 << 16):
                raw += piece
                if len(raw) > MAX_KEYS_BYTES:
                    raise OSError(f"the answer is longer than {MAX_KEYS_BYTES} bytes")
            return bytes(raw)
    except aiohttp.ClientError as error:
        raise OSError(str(error) or type(error).__name__) from error
