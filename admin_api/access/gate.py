"""Lets a request in or refuses it, by the token that it brings, the role that it needs and where it comes from.

                      from this machine                        from others
    looking           always                                   with a token, once there are some
    changes, events   with a token: that of this machine       with a token, once there are some; before, as
                      (`local_token`), or another one          admin.changes says

A token is one of ours, `rsb_…`, or a JSON Web Token of an identity that has a role here (`identities`), which counts as
one of admin.tokens. One that is wrong is refused wherever no token would be needed, too. Whether changes are allowed at
all is decided behind this (`changes.check_allowed`). A caller whom a proxy on this machine speaks for counts as one
from elsewhere where that gives it less.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from aiohttp import web

from admin_api.access.identities import NO_ROLE, Identities, is_signed
from admin_api.access.local_token import LocalToken
from admin_api.access.roles import ANYBODY, SUFFICES, needed_role
from admin_api.errors import AdminError, Handler
from broker.config.hosts import is_local
from broker.config.sections.admin_checks import VIEWER, AdminToken, find_token
from broker.connections.guesses import Guesses
from broker.connections.rate_limits import TokenBuckets
from broker.edge.admission.verdicts import NotAccepted, Unavailable
from broker.edge.origins import address_of
from broker.limited_log import STRANGERS

BEARER: Final = "bearer"
FORWARDED: Final = ("Forwarded", "X-Forwarded-For")  # a proxy says so
MAX_TOKEN: Final = 512  # characters that are looked at; ours have 47
KIND: Final = "AdminToken (wrong)"  # of lines
MAX_CALLERS: Final = 1024  # whose requests are counted
MAKE_HELP: Final = "rsocket-broker token new NAME --role {role} --file FILE makes one"

Tokens = Sequence[AdminToken]


class Caller(NamedTuple):
    """Who asks, when it has said so."""

    principal: str  # `token:grafana`, `jwt:orders-7`
    role: str  # empty: it has none


NOBODY: Final = Caller("", "")
CALLER: Final = web.RequestKey("CALLER", Caller)  # of a request with a token that holds


class Gate:
    """Of one API."""

    def __init__(
        self,
        tokens: Callable[[], Tokens | None],
        local: LocalToken,
        identities: Identities | None = None,
        max_requests_per_s: int = 0,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`tokens`: of admin.tokens as they are now; None: it is not set. `identities`: None where none has a role.
        `max_requests_per_s`: of one caller; 0: no bound. `clock`, `wall`: seconds, monotonic and since the epoch."""
        self.local: Final = local
        self.identities: Final = identities
        self._tokens: Final = tokens
        self._clock: Final = clock
        self._wall: Final = wall
        self._guesses: Final = Guesses()
        self._asked: Final = TokenBuckets(max_requests_per_s, MAX_CALLERS, "admin.max_requests_per_s")

    @web.middleware
    async def guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """The middleware behind which only requests come that may."""
        resource = request.match_info.route.resource
        # What is no path says so to whoever may look.
        needed = needed_role(request.method, resource.canonical) if resource is not None else VIEWER
        if needed == ANYBODY:
            return await handler(request)
        caller = await self._caller_of(request, needed)
        self._count(caller.principal if caller is not None else _address(request))
        if caller is None:
            self._check_without(request, needed)
        else:
            request[CALLER] = caller
            if caller.role == NO_ROLE:
                raise AdminError(
                    "role-not-enough", f"{caller.principal} has no role here, {_role_help(caller, needed)}"
                )
            if needed not in SUFFICES[caller.role]:
                text = f"{caller.principal} has the role {caller.role}, {_role_help(caller, needed)}"
                raise AdminError("role-not-enough", text)
        return await handler(request)

    def _count(self, who: str) -> None:
        """One more request; AdminError "too-many-requests"."""
        now = self._clock()
        if not self._asked.has_room(who, now):
            raise AdminError("too-many-requests", self._asked.too_many)
        self._asked.spend(who, now)

    async def _caller_of(self, request: web.Request, needed: str) -> Caller | None:
        """By the token that it brings; None: it brings none. `needed`: the role that would do. AdminError
        "wrong-token", "auth-unavailable"."""
        scheme, _, text = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != BEARER:
            return None
        address = _address(request)
        # Before it is looked at: who had to wait for a wrong one only would know it as soon as nothing comes.
        delay_s = self._guesses.delay_s(address, self._clock())
        if delay_s:
            await asyncio.sleep(delay_s)
        text = text.strip()
        if self.identities is not None and is_signed(text):
            return await self._identified(self.identities, text, request, needed)
        token = find_token([*(self._tokens() or ()), self.local.known], text[:MAX_TOKEN])
        if token is not None and self._wall() < token.expires_at_s:
            return Caller(f"token:{token.name}", token.role)
        why = f"the token {token.name} has expired" if token is not None else "a wrong token"
        raise self._wrong(request, why, needed, is_guess=True)

    async def _identified(self, identities: Identities, text: str, request: web.Request, needed: str) -> Caller:
        """By a JSON Web Token; as `_caller_of`."""
        try:
            return Caller(*await identities.find(text))
        except NotAccepted as error:
            raise self._wrong(request, f"a token is not accepted: {error}", needed, error.is_guess) from None
        except Unavailable as error:
            address = _address(request)
            STRANGERS.say(KIND, address, logging.WARNING, f"admin {address}: a token cannot be verified: {error}")
            raise AdminError("auth-unavailable", "the token cannot be verified now; try again later") from None

    def _token_help(self, needed: str, is_here: bool) -> str:
        """How somebody comes by a token with the role; `is_here`: on this machine, whose broker has made one."""
        tokens = (
            "that of admin.tokens" if self._tokens() is not None else "then the value of admin.tokens, which is not set"
        )
        text = f"{MAKE_HELP.format(role=needed)}; FILE is {tokens}"
        file = self.local.file if is_here else None
        return text if file is None else f"{file} has that of this machine, which rsocket-broker ctl reads; {text}"

    def _wrong(self, request: web.Request, why: str, needed: str, is_guess: bool) -> AdminError:
        """`why`: for the log; who asks learns less."""
        address = _address(request)
        if is_guess:
            self._guesses.count_wrong(address, self._clock())
        STRANGERS.say(KIND, address, logging.WARNING, f"admin {address}: {why}")
        text = "no token that holds is like this one: it is wrong, expired or revoked"
        return AdminError("wrong-token", f"{text}; {self._token_help(needed, _is_here(request))}")

    def _check_without(self, request: web.Request, needed: str) -> None:
        """AdminError "no-token" unless this may be asked for without one."""
        is_here, is_set = is_local(request.remote), self._tokens() is not None or self.identities is not None
        if needed == VIEWER:
            if not is_set or _is_here(request):
                return
        elif not is_here and not is_set:
            return
        help = self._token_help(needed, _is_here(request))
        given = request.headers.get("Authorization")
        if given is not None:  # and was no Bearer's: part of it may be a secret
            text = "the header Authorization holds no Bearer token; write Authorization: Bearer TOKEN"
            raise AdminError("no-token", f"{text}, of one with the role {needed}; {help}")
        text = f"this needs a token with the role {needed}, as Authorization: Bearer TOKEN"
        raise AdminError("no-token", f"{text}; {help}")


def _role_help(caller: Caller, needed: str) -> str:
    """How it comes by the role: an identity by the configuration, a token of ours by another one."""
    if not caller.principal.startswith("token:"):
        return f"this needs {needed}; admin.{needed}s lists the identities that have that role"
    return f"this needs {needed}; {MAKE_HELP.format(role=needed)}; FILE is that of admin.tokens"


def _is_here(request: web.Request) -> bool:
    """It comes from this machine, and from nobody else through a proxy."""
    return is_local(request.remote) and not any(name in request.headers for name in FORWARDED)


def _address(request: web.Request) -> str:
    """Where it comes from, as `edge.origins` counts."""
    return address_of(request.remote) if request.remote else "unix"
