"""The brokers that a client knows: those that it was given, and those that its broker tells of (docs/lame-duck.md).

    connect(urls) ──► configured ──┐
                                   ├─► dial: for want of a connection      dial_elsewhere: away from one that leaves
    METADATA_PUSH ──► learned ─────┘                                        (learned ones only: they do not leave)

Decides which broker is tried when. D-54 of our decisions.
"""

import asyncio
import logging
import random
import socket
import ssl as tls
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final

from client_sdk.credentials import CredentialsSource, credentials_entry, may_carry_credentials
from client_sdk.errors import ClientError, NotConnected, SetupRejected
from client_sdk.io.connection import Connection
from client_sdk.io.dial import Target, dial
from client_sdk.io.dispatch import Responder
from client_sdk.io.misdialled import dial_said, end_said, reason_of
from client_sdk.protocol.settings import Settings
from client_sdk.reconnect.renewal import Renewal
from client_sdk.services.advertisement import Advertisement
from rsocket_wire.rsocket.frames import Setup
from rsocket_wire.rsocket.notices import MAX_NOTICE_URLS, find_notice

MAX_LEARNED_URLS: Final = MAX_NOTICE_URLS  # of brokers that were told; the others are not needed
MAX_ADDRESSES: Final = 16  # of one name that are tried, one after the other
_log: Final = logging.getLogger("client_sdk")
_ENCRYPTED: Final = ("tls", "wss")


class Brokers:
    """Opens connections, each with the same SETUP, and learns from them where else it could."""

    def __init__(
        self,
        targets: Sequence[Target],
        setup: Setup,
        responder: Responder | None,
        timeout_s: float,
        ssl: tls.SSLContext | None,
        chance: Callable[[], float] = random.random,
        advertisement: Advertisement | None = None,
        settings: Settings | None = None,
        look_up: Callable[[str, int], Awaitable[list[str]]] | None = None,
        credentials: CredentialsSource | None = None,
        renewal: Renewal | None = None,
    ) -> None:
        """`targets`: the configured ones, one at least. `chance` gives numbers in [0, 1).

        `advertisement`: added to each SETUP as it is then; None: a caller only. `settings` of each connection.
        `look_up` gives the addresses of a host and port, or raises OSError; None: the system's resolver.
        `credentials`: added to each SETUP, and asked for anew each time; None: there are none. `renewal`: of them.
        """
        self._targets: Final = list(targets)  # the one that was reached last comes first
        self._learned: list[Target] = []  # bounded by MAX_LEARNED_URLS, and one
        self._setup: Final = setup
        self._responder: Final = responder
        self._timeout_s: Final = timeout_s
        self._ssl: Final = ssl
        self._chance: Final = chance
        self.advertisement: Final = advertisement
        self._settings: Final = settings
        self._look_up: Final = addresses_of if look_up is None else look_up
        self._credentials: Final = credentials
        self.renewal: Final = renewal
        # Whoever wants encryption everywhere is not led to a place without.
        self._wants_encryption: Final = all(target.scheme in _ENCRYPTED for target in targets)
        self._reached: Target | None = None  # None until the first connection
        self._address = ""  # of its host, where it was reached; empty when nobody looked
        self.last_end = ""  # why the broker ended the connection before this one, if it could not say so then

    @property
    def url(self) -> str:
        """Of the broker that was reached last; empty before the first."""
        return "" if self._reached is None else self._reached.url

    @property
    def urls(self) -> list[str]:
        """All, in the order in which they are tried."""
        return [target.url for target in self._known()]

    async def dial(self) -> Connection:
        """A connection to any broker. Raises what the last of them said: NotConnected or SetupRejected."""
        return await self._dial(self._known())

    async def dial_elsewhere(self) -> Connection:
        """A connection to a broker that the present one has named; NotConnected when there is none.

        The first one is drawn, so that not all clients of a broker go to the same; of the present scheme before others.
        """
        if not self._learned:
            raise NotConnected("the broker has named no other broker", word="connect-failed")
        # One may have the URL of the present one: processes of one machine share it, or those behind a balancer.
        scheme = self._reached.scheme if self._reached is not None else ""
        alike = [target for target in self._learned if target.scheme == scheme]
        others = [target for target in self._learned if target.scheme != scheme]
        first = int(self._chance() * (len(alike) or len(others)))
        if alike:
            return await self._dial(alike[first:] + alike[:first] + others)
        return await self._dial(others[first:] + others[:first])

    async def resume(self, connection: Connection) -> None:
        """The session of a broken connection goes on at its broker, which is the one that was reached last.

        NotConnected, word "connect-failed" when nobody listens there any more; ConnectionLost as `Connection.resume`.
        """
        target = self._reached
        assert target is not None  # there was a connection
        try:
            async with asyncio.timeout(self._timeout_s):
                await connection.resume(await dial(target, self._ssl, self._address))
            if self.advertisement is not None:
                self.advertisement.resumed()
        except ClientError:
            raise
        except TimeoutError:
            text = f"{target.url}: the broker did not resume the session within {self._timeout_s} s"
            raise NotConnected(text, word="connect-timeout") from None
        except (ConnectionRefusedError, FileNotFoundError) as error:
            raise NotConnected(f"{target.url}: {reason_of(error)}", word="connect-failed") from None
        except (OSError, ValueError) as error:
            raise NotConnected(f"{target.url}: {reason_of(error)}", word="connect-timeout") from error

    def hear(self, connection: Connection, metadata: bytes) -> bool:
        """A METADATA_PUSH; whether the broker itself says it, and it is not for the service."""
        notice = find_notice(metadata)
        if notice is None:
            return False
        if notice.last_end:
            self.last_end = notice.last_end
            _log.warning("the broker ended the connection before this one: %s", notice.last_end)
        if self.renewal is not None:
            self.renewal.hear(connection, notice)
        if not connection.is_retired:
            learned = [target for target in map(self._target_of, notice.urls) if target is not None]
            # A broker that knows of no other one says nothing against those that were there.
            self._learned = learned or self._learned
            connection.notice = notice
            connection.changed.set()
        return True

    def _target_of(self, url: str) -> Target | None:
        try:
            target = Target(url)
        except ValueError:
            return None  # a scheme that we do not speak
        if self._credentials is not None and not may_carry_credentials(target):
            return None
        return target if target.scheme in _ENCRYPTED or not self._wants_encryption else None

    def _known(self) -> list[Target]:
        known: dict[str, Target] = {target.url: target for target in self._targets}
        for target in [*([] if self._reached is None else [self._reached]), *self._learned]:
            known.setdefault(target.url, target)
        return list(known.values())

    async def _dial(self, targets: list[Target]) -> Connection:
        failure: ClientError | None = None
        for target in targets:
            try:
                connection = await self._dial_one(target)
            except ClientError as error:
                failure = error
            else:
                self._reached = target
                if target in self._targets:
                    self._targets.remove(target)
                    self._targets.insert(0, target)
                return connection
        assert failure is not None  # there is at least one target
        raise failure

    async def _dial_one(self, target: Target) -> Connection:
        settings = self._settings
        try:
            return await self._open(target, settings)
        except SetupRejected as error:
            if error.word != "resume-unsupported" or settings is None or not settings.wants_resume:
                raise
            return await self._open(target, replace(settings, wants_resume=False))

    async def _open(self, target: Target, settings: Settings | None) -> Connection:
        """A name with several addresses is tried address by address, each with a time of its own."""
        if target.scheme not in ("tcp", "tls"):  # aiohttp looks at all addresses itself
            return await self._open_at(target, "", settings)
        try:
            async with asyncio.timeout(self._timeout_s):
                addresses = await self._look_up(target.host, target.port)
        except TimeoutError:
            text = f"{target.url}: the host name was not resolved within {self._timeout_s} s"
            text = f"{text}: correct the URL, or look whether this machine's DNS answers"
            raise NotConnected(text, word="connect-timeout", says_how=True) from None
        except (OSError, ValueError) as error:
            raise NotConnected(f"{target.url}: {reason_of(error)}", word="connect-failed") from None
        failure: ClientError = NotConnected(f"{target.url}: the host name has no address", word="connect-failed")
        for address in addresses[:MAX_ADDRESSES]:
            try:
                return await self._open_at(target, address, settings)
            except ClientError as error:
                failure = error
        raise failure

    async def _open_at(self, target: Target, address: str, settings: Settings | None) -> Connection:
        try:
            async with asyncio.timeout(self._timeout_s):
                credentials = self._credentials
                proof = b"" if credentials is None else await credentials_entry(credentials)
                wire = await dial(target, self._ssl, address)
                advertisement = self.advertisement
                setup = self._setup if advertisement is None else advertisement.setup_of(self._setup)
                if proof:
                    setup = replace(setup, metadata=(setup.metadata or b"") + proof)
                connection = await Connection(wire, setup, self._responder, self.hear, settings).open()
                if advertisement is not None:
                    advertisement.opened(connection, setup)
                self._address = address
                return connection
        except ClientError as error:
            if isinstance(error, SetupRejected):
                raise type(error)(f"{target.url}: {error.text}", word=error.word, code=error.code) from None
            text, says_how = end_said(target, error)
            text = f"{target.shown}: {text}"
            raise NotConnected(text, word=error.word, code=error.code, says_how=says_how) from None
        except TimeoutError:
            text = f"{target.shown}: the broker did not accept the connection within {self._timeout_s} s"
            raise NotConnected(text, word="connect-timeout") from None
        except (OSError, ValueError) as error:
            cause = None if self._credentials is None else error  # which a function of the program may have raised
            text, says_how = dial_said(target, error)
            raise NotConnected(f"{target.shown}: {text}", word="connect-failed", says_how=says_how) from cause


async def addresses_of(host: str, port: int) -> list[str]:
    """Every A and AAAA address of the host, in the resolver's order, each once; OSError when it has none."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(info[4][0]) for info in found))
