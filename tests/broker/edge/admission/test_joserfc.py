"""Tokens that another library has signed, and key sets that it has written: joserfc."""

from __future__ import annotations

import json
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.errors import SecurityWarning
from joserfc.jwk import ECKey, KeySet, OctKey, OKPKey, RSAKey

from broker.edge.admission.keys import Keys, fetch_keys
from broker.edge.admission.tokens import LEEWAY_S, TokenVerifier
from broker.edge.admission.verdicts import NotAccepted, Verified
from rsocket_wire.wire.authentication import BEARER, Credentials
from tests.broker.edge.admission.signers import AUDIENCE, ISSUER

# RFC 9864 calls EdDSA with this curve Ed25519, and joserfc warns of the older name.
pytestmark = pytest.mark.filterwarnings(f"ignore::{SecurityWarning.__module__}.{SecurityWarning.__name__}")

AT = int(time.time())
LIFE_S = 86_400  # longer than all tests take


@cache
def keys() -> KeySet:
    """The same each time: a key of RSA takes a tenth of a second."""
    return KeySet(
        [
            RSAKey.generate_key(2048, {"kid": "rsa", "use": "sig"}),
            ECKey.generate_key("P-256", {"kid": "ec"}),
            OKPKey.generate_key("Ed25519", {"kid": "ed"}),
            ECKey.generate_key("P-384", {"kid": "large"}),
            OctKey.generate_key(256, {"kid": "shared"}),
        ]
    )


def sign(algorithm: str, id: str, **more: Any) -> str:
    claims = {"sub": "orders-7", "iss": ISSUER, "aud": AUDIENCE, "exp": AT + LIFE_S, "iat": AT, **more}
    return jwt.encode({"alg": algorithm, "kid": id}, claims, keys().get_by_kid(id), algorithms=[algorithm])


async def verify(folder: Path, token: str) -> Verified:
    path = folder / "keys.json"
    path.write_text(json.dumps(keys().as_dict(private=False)))
    return await TokenVerifier(Keys(str(path), fetch_keys), ISSUER, AUDIENCE).verify(Credentials(BEARER, "", token))


@pytest.mark.parametrize(("algorithm", "id"), [("RS256", "rsa"), ("PS256", "rsa"), ("ES256", "ec"), ("EdDSA", "ed")])
@pytest.mark.parametrize("audience", [AUDIENCE, ["other", AUDIENCE]])
async def test_a_token_of_joserfc_holds(tmp_path: Path, algorithm: str, id: str, audience: object) -> None:
    expected = Verified("orders-7", AT + LIFE_S + LEEWAY_S, AT)
    assert await verify(tmp_path, sign(algorithm, id, aud=audience)) == expected


@pytest.mark.parametrize(
    ("algorithm", "id"), [("RS512", "rsa"), ("ES384", "large"), ("HS256", "shared"), ("Ed25519", "ed")]
)
async def test_one_with_an_algorithm_that_is_not_accepted_does_not(tmp_path: Path, algorithm: str, id: str) -> None:
    with pytest.raises(NotAccepted, match="its algorithm is not RS256, PS256, ES256 or EdDSA"):
        await verify(tmp_path, sign(algorithm, id))
