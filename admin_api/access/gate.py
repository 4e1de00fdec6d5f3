"""Lets a request in or refuses it, by the token that it brings, the role that it needs and where it comes from.

                      from this machine                        from others
    looking           always                                   with a token, once admin.tokens is set
    changes, events   with a token: that of this machine       with a token, once admin.tokens is set; before, as
                      (`local_token`), or one of admin.tokens  admin.changes says

A token that is wrong is refused wherever no token would be needed, too. Whether changes are allowed at all is decided
behind this (`changes.check_allowed`). A caller whom a proxy on this machine speaks for counts as one from elsewhere
where that gives it less.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from aiohttp import web

from admin_api.access.local_token import LocalToken
from admin_api.access.roles import ANYBODY, SUFFICES, needed_role
from admin_api.errors import AdminError, Handler
from broker.config.hosts import is_local
from broker.config.sections.admin_checks import VIEWER, AdminToken, find_token
from broker.connections.guesses import Guesses
from broker.edge.origins import address_of
from broker.limited_log import STRANGERS

BEARER: Final = "bearer"
FORWARDED: Final = ("Forwarded", "X-Forwarded-For")  # a proxy says so
MAX_TOKEN: Final = 512  # characters that are looked at; ours have 47
KIND: Final = "AdminToken (wrong)"  # of lines
LOCAL_HELP: Final = "rsocket-broker ctl finds that of this machine by itself"
Tokens = Sequence[AdminToken]


class Caller(NamedTuple):
    """Who asks, when it has said so."""

    principal: str  # `token:grafana`
    role: str


NOBODY: Final = Caller("", "")
CALLER: Final = web.RequestKey("CALLER", Caller)  # of a request with a token that holds


class Gate:
    """Of one API."""

    def __init__(
        self,
        tokens: Callable[[], Tokens | None],
        local: LocalToken,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`tokens`: of admin.tokens as they are now; None: it is not set. `clock`, `wall`: seconds, monotonic and since
        the epoch."""
        self.local: Final = local
        self._tokens: Final = tokens
        self._clock: Final = clock
        self._wall: Final = wall
        self._guesses: Final = Guesses()

    @web.middleware
    async def guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """The middleware behind which only requests come that may."""
        resource = request.match_info.route.resource
        # What is no path says so to whoever may look.
        needed = needed_role(request.method, resource.canonical) if resource is not None else VIEWER
        if needed == ANYBODY:
            return await handler(request)
        token = await self._token_of(request)
        if token is None:
            self._check_without(request, needed)
        else:
            request[CALLER] = Caller(f"token:{token.name}", token.role)
            if needed not in SUFFICES[token.role]:
                text = f"the token {token.name} has the role {token.role}, this needs {needed}"
                raise AdminError("role-not-enough", text)
        return await handler(request)

    async def _token_of(self, request: web.Request) -> AdminToken | None:
        """The token that it brings; None: it brings none. AdminError "wrong-token"."""
        scheme, _, text = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != BEARER:
            return None
        address = address_of(request.remote) if request.remote else "unix"
        # Before it is looked at: who had to wait for a wrong one only would know it as soon as nothing comes.
        delay_s = self._guesses.delay_s(address, self._clock())
        if delay_s:
            await asyncio.sleep(delay_s)
        token = find_token([*(self._tokens() or ()), self.local.known], text.strip()[:MAX_TOKEN])
        if token is not None and self._wall() < token.expires_at_s:
            return token
        self._guesses.count_wrong(address, self._clock())
        why = f"the token {token.name} has expired" if token is not None else "a wrong token"
        STRANGERS.say(KIND, address, logging.WARNING, f"admin {address}: {why}")
        raise AdminError("wrong-token", "no token that holds is like this one: it is wrong, expired or revoked")

    def _check_without(self, request: web.Request, needed: str) -> None:
        """AdminError "no-token" unless this may be asked for without one."""
        is_here, is_set = is_local(request.remote), self._tokens() is not None
        if needed == VIEWER:
            is_forwarded = any(name in request.headers for name in FORWARDED)
            if not is_set or (is_here and not is_forwarded):
                return
        elif not is_here and not is_set:
            return
        help = f"; {LOCAL_HELP}" if is_here else ""
        raise AdminError("no-token", f"this needs a token with the role {needed}, as Authorization: Bearer …{help}")
