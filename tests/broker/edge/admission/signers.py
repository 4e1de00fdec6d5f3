"""Those who sign tokens, and their key sets, for tests of what verifies them."""

from __future__ import annotations

import json
import time
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as generate_rsa_key
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

ISSUER = "https://id.example"
AUDIENCE = "rsocket-broker"


class Signer:
    """One key."""

    def __init__(self, algorithm: str, id: str) -> None:
        self.algorithm = algorithm
        self.id = id
        self.key: Any
        if algorithm == "ES256":
            self.key = generate_private_key(SECP256R1())
            self.jwk = ECAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        elif algorithm == "EdDSA":
            self.key = Ed25519PrivateKey.generate()
            self.jwk = OKPAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        else:
            self.key = generate_rsa_key(65537, 2048)
            self.jwk = RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        self.jwk |= {"kid": id, "use": "sig"}

    def sign(self, algorithm: str = "", headers: dict[str, Any] | None = None, **claims: Any) -> str:
        """A token that holds, but for these claims; None leaves one out."""
        now = int(time.time())
        said = {"sub": "orders-7", "iss": ISSUER, "aud": AUDIENCE, "exp": now + 600, "iat": now, **claims}
        said = {name: value for name, value in said.items() if value is not None}
        return jwt.encode(said, self.key, algorithm or self.algorithm, {"kid": self.id, **(headers or {})})


@cache
def signer(algorithm: str = "ES256", id: str = "one") -> Signer:
    """The same each time: a key of RSA takes a tenth of a second."""
    return Signer(algorithm, id)


def key_set(*signers: Signer, **more: Any) -> bytes:
    """Their public keys. `more`: members of each."""
    return json.dumps({"keys": [each.jwk | more for each in signers]}).encode()
