"""Callers of the REST API with a JSON Web Token: whose it is, and which role that identity has.

Decides the role by the options `admin.admins` … `admin.readers`, in this order. Whether the token holds says the
verifier that connections have, too (`broker.edge.admission.tokens`), and whether it was revoked, the backend.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from broker.access.identities import JWT, identity_text
from broker.access.roles import fits_any
from broker.config.options import Config
from broker.config.sections.process import AdminOptions
from broker.connections.admission import MAX_SECRET_BYTES
from broker.edge.admission.verdicts import NotAccepted, Verifier
from rsocket_wire.wire.authentication import BEARER, Credentials

DOTS_N: Final = 2  # of a signed token; ours have none
NO_ROLE: Final = ""


class Identities:
    """Of one API."""

    def __init__(self, verifier: Verifier, options: Callable[[], AdminOptions]) -> None:
        """`options`: as they are now."""
        # Credentials of this identity that were issued then, ms since the epoch, hold no longer; AdminError where
        # nobody can tell. None until the application is made, which is before anybody asks.
        self.is_revoked: Callable[[str, int], Awaitable[bool]] | None = None
        self._verifier: Final = verifier
        self._options: Final = options

    async def find(self, token: str) -> tuple[str, str]:
        """The identity, `jwt:orders-7`, and its role, or NO_ROLE. NotAccepted, Unavailable, AdminError."""
        assert self.is_revoked is not None  # there is an application
        if len(token) > MAX_SECRET_BYTES:
            raise NotAccepted(f"it has {len(token)} bytes")
        verified = await self._verifier.verify(Credentials(BEARER, "", token))
        principal = identity_text(JWT, verified.name)
        if await self.is_revoked(principal, int(verified.issued_at_s * 1000)):
            raise NotAccepted("it is revoked", is_guess=False)
        roles = self._options().jwt_roles
        return principal, next((role for role, who in roles if fits_any(list(who), principal, "")), NO_ROLE)

    async def close(self) -> None:
        """Asks for no more keys."""
        await self._verifier.close()


def is_signed(token: str) -> bool:
    """It looks like a JSON Web Token."""
    return token.count(".") == DOTS_N


def make_verifier(config: Config) -> Verifier | None:
    """Of tokens for the REST API; None: the options give no identity a role."""
    if not config.admin.jwt_roles:
        return None
    from broker.edge.admission.keys import Keys, fetch_keys
    from broker.edge.admission.tokens import TokenVerifier

    own = config.jwt
    return TokenVerifier(Keys(own.keys, fetch_keys), own.issuer, config.admin.audience or own.audience)
