"""Tokens: JSON Web Tokens (RFC 7519) that somebody has signed whose public keys are known.

Decides whether one holds: its signature by a key that is bound to its algorithm, its times, its issuer and its
audience. `none` and algorithms of shared secrets are never accepted, and no key comes from a token. The identity is its
subject.
"""

from __future__ import annotations

from typing import Any, Final

import jwt

from broker.edge.admission.keys import ALGORITHMS, Keys
from broker.edge.admission.verdicts import NotAccepted, Verified, checked_name
from rsocket_wire.wire.authentication import Credentials

LEEWAY_S: Final = 10  # that clocks of brokers and of those who sign may differ
AT_ONCE_N: Final = 256  # verified; nearly all of them wait for keys that are being read
MAX_WAITING: Final = 4096  # a second's worth
MAX_HEADERS: Final = 64  # that are remembered; at one more all are forgotten
MAX_MOMENT_S: Final = 253_402_300_799  # since the epoch: the last second of the year 9999
_ACCEPTED: Final = frozenset(name for names in ALGORITHMS.values() for name in names)
# What operators are told: texts of the library may quote the token.
_REASONS: Final[tuple[tuple[type[Exception], str], ...]] = (
    (jwt.ExpiredSignatureError, "it has expired"),
    (jwt.ImmatureSignatureError, "it does not hold yet"),
    (jwt.InvalidAudienceError, "it is for another audience"),
    (jwt.InvalidIssuerError, "it is of another issuer"),
    (jwt.MissingRequiredClaimError, "it lacks exp, sub, iss or aud"),
    (jwt.InvalidSignatureError, "its signature is wrong"),
)
_SIGNED: Final = (  # found when the signature was verified
    jwt.ExpiredSignatureError,
    jwt.ImmatureSignatureError,
    jwt.InvalidAudienceError,
    jwt.InvalidIssuerError,
    jwt.MissingRequiredClaimError,
)


class TokenVerifier:
    """Verifies tokens of one issuer for one audience."""

    at_once_n: int = AT_ONCE_N
    max_waiting: int = MAX_WAITING

    def __init__(self, keys: Keys, issuer: str, audience: str) -> None:
        self._keys: Final = keys
        self._issuer: Final = issuer
        self._audience: Final = audience
        self._headers: Final[dict[str, tuple[str, str]]] = {}  # bounded by MAX_HEADERS

    async def verify(self, credentials: Credentials) -> Verified:
        """Whose token it is, and until when; NotAccepted, Unavailable."""
        token = credentials.secret
        algorithm, id = self._header(token)
        key = await self._keys.find(id, algorithm)
        if key is None:
            raise NotAccepted("no known key has its id and algorithm")
        claims = self._claims(token, algorithm, key.key)
        subject = claims["sub"]
        if not isinstance(subject, str):
            raise NotAccepted("its subject is no text")
        return Verified(checked_name(subject), _moment(claims["exp"]) + LEEWAY_S, _moment(claims.get("iat", 0)))

    def prepare(self) -> None:
        self._keys.prepare()

    def commit(self) -> set[str]:
        self._keys.commit()
        return set()

    async def close(self) -> None:
        """Asks for no more keys."""
        self._keys.close()

    def _header(self, token: str) -> tuple[str, str]:
        """Algorithm and id of its key; NotAccepted. They are the same in all tokens of one key, so they are remembered,
        which saves 28 of 190 µs of ES256; what they are good for, the signature shows.
        """
        head = token.partition(".")[0]
        known = self._headers.get(head)
        if known is not None:
            return known
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, RecursionError):  # its JSON may be a thousand brackets
            raise NotAccepted("it is no JSON Web Token") from None
        algorithm, id = header.get("alg"), header.get("kid", "")
        if not isinstance(algorithm, str) or algorithm not in _ACCEPTED or not isinstance(id, str):
            raise NotAccepted("its algorithm is not RS256, PS256, ES256 or EdDSA")
        if len(self._headers) >= MAX_HEADERS:
            self._headers.clear()
        self._headers[head] = algorithm, id
        return algorithm, id

    def _claims(self, token: str, algorithm: str, key: Any) -> dict[str, Any]:
        """What it says, verified; NotAccepted."""
        try:
            return jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=self._audience,
                issuer=self._issuer,
                leeway=LEEWAY_S,
                options={"require": ["exp", "sub", "iss", "aud"]},
            )
        except (jwt.PyJWTError, RecursionError) as error:
            reason = next((text for kind, text in _REASONS if isinstance(error, kind)), "it is malformed")
            raise NotAccepted(reason, is_guess=not isinstance(error, _SIGNED)) from None


def _moment(said: Any) -> float:
    """Seconds since the epoch, of a claim that the library takes for some; NotAccepted for what no clock shows."""
    if not 0 <= int(said) <= MAX_MOMENT_S:
        raise NotAccepted("it is malformed")
    return float(said)
