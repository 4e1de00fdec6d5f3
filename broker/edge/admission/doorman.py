"""The doorman: has the credentials verified that the core asks about, and answers.

    core ── take_asks ──► take ──► a task each ──► queue of its verifier ──► admit, or refuse ──► core

Decides nothing about what is acceptable (`connections.admission` does). Whoever is not answered within
`limits.setup_timeout_s` is refused by the core; then the task ends, too.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from broker.access.identities import JWT, USER, identity_text
from broker.config.options import Config
from broker.connections.admission import NOT_ACCEPTED, UNAUTHENTICATED, UNAVAILABLE, Ask
from broker.connections.guesses import WRONG_PER_S
from broker.edge.admission.attempts import Attempts
from broker.edge.admission.queue import LoginQueue
from broker.edge.admission.verdicts import NotAccepted, Unavailable, Verifier
from broker.edge.shell import Shell
from broker.limited_log import STRANGERS

_CANNOT: Final = "the credentials cannot be verified now; try again later"
_log: Final = logging.getLogger(__name__)


class Doorman:
    """Of one shell."""

    def __init__(
        self,
        verifiers: Mapping[str, Verifier],
        timeout_s: float,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        wrong_per_s: int = WRONG_PER_S,
    ) -> None:
        """`verifiers` by kind of identity. `clock`: of the core; `wall`: seconds since the epoch. `wrong_per_s`:
        limits.max_wrong_logins_per_s."""
        self.shell: Shell | None = None  # None until there is one, which is before anybody asks
        self._verifiers: Final = verifiers
        attempts = Attempts(wrong_per_s)
        self._queues: Final = {kind: LoginQueue(verifier, attempts) for kind, verifier in verifiers.items()}
        self._timeout_s: Final = timeout_s
        self._clock: Final = clock
        self._wall: Final = wall
        self._tasks: Final[set[asyncio.Task[None]]] = set()  # bounded by max_connections

    def take(self, asks: Sequence[Ask]) -> None:
        """Has them verified; answers in later turns of the loop."""
        for ask in asks:
            task = asyncio.get_running_loop().create_task(self._answer(ask))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def prepare(self) -> None:
        """Reads the files of all verifiers again; BrokerError "bad-config" when one is not what it should be."""
        for verifier in self._verifiers.values():
            verifier.prepare()

    def commit(self) -> set[str]:
        """What was read is in force. Returns the principals whose credentials hold no longer."""
        return {identity_text(kind, name) for kind, verifier in self._verifiers.items() for name in verifier.commit()}

    async def stop(self) -> None:
        """Answers nobody any more."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for queue in self._queues.values():
            queue.stop()
        for verifier in self._verifiers.values():
            await verifier.close()

    async def _answer(self, ask: Ask) -> None:
        shell = self.shell
        assert shell is not None  # it has handed the ask out
        try:
            async with asyncio.timeout(self._timeout_s):
                verified = await self._queues[ask.kind].verify(_origin_of(ask), ask.credentials)
        except NotAccepted as error:
            shell.refuse_credentials(ask.peer, UNAUTHENTICATED, NOT_ACCEPTED, f"{ask.kind}: {error}")
        except Unavailable as error:
            shell.refuse_credentials(ask.peer, UNAVAILABLE, _CANNOT, f"{ask.kind}: {error}")
        except TimeoutError:
            reason = f"{ask.kind}: no answer within {self._timeout_s:g} s"
            shell.refuse_credentials(ask.peer, UNAVAILABLE, _CANNOT, reason)
        except Exception as error:  # a fault of ours or of a library; its text may hold what was verified
            if STRANGERS.admits("Credentials (fault)", ask.peer.address, logging.ERROR):
                _log.error("peer %s: %s cannot be verified: %s", ask.peer.name, ask.kind, type(error).__name__)
            shell.refuse_credentials(ask.peer, UNAVAILABLE, _CANNOT, f"{ask.kind}: {type(error).__name__}")
        else:
            expires_at = 0.0
            if verified.expires_at_s:
                expires_at = self._clock() + verified.expires_at_s - self._wall()
            issued_at_ms = int(verified.issued_at_s * 1000)
            shell.admit(ask.peer, identity_text(ask.kind, verified.name), expires_at, issued_at_ms)


def make_doorman(config: Config) -> Doorman | None:
    """As it is configured, where `auth.mode` is not off; None: nothing is to be verified. OSError, ValueError: a file
    is not what it should be."""
    auth = config.auth
    verifiers: dict[str, Verifier] = {}
    if auth.hook:
        from broker.edge.admission.hook import HookVerifier

        tls = ssl.create_default_context(cafile=auth.hook_ca) if auth.hook_ca else None
        for kind in {JWT, USER}.intersection(auth.accept):
            verifiers[kind] = HookVerifier(kind, auth.hook, auth.hook_keep, tls)
    if JWT in auth.accept and config.jwt.keys:
        from broker.edge.admission.keys import Keys, fetch_keys
        from broker.edge.admission.tokens import TokenVerifier

        verifiers[JWT] = TokenVerifier(Keys(config.jwt.keys, fetch_keys), config.jwt.issuer, config.jwt.audience)
    if USER in auth.accept and auth.users:
        from broker.edge.admission.passwords import PasswordVerifier

        verifiers[USER] = PasswordVerifier(auth.users)
    if not verifiers:
        return None
    limits = config.limits
    return Doorman(verifiers, limits.setup_timeout_s, wrong_per_s=limits.max_wrong_logins_per_s)


def _origin_of(ask: Ask) -> str:
    """Whose turns it takes: all that one address asks, or through a Unix socket one user of this machine."""
    return ask.peer.address or ask.peer.proof.principal
