"""Tokens: what holds, and every way not to."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jwt.algorithms import ECAlgorithm

from broker.edge.admission.keys import Keys, fetch_keys
from broker.edge.admission.tokens import LEEWAY_S, MAX_HEADERS, MAX_MOMENT_S, TokenVerifier
from broker.edge.admission.verdicts import NotAccepted, Verified
from rsocket_wire.wire.authentication import BEARER, Credentials
from tests.broker.edge.admission.signers import AUDIENCE, ISSUER, key_set, signer


async def verify(folder: Path, token: str, raw: bytes = b"") -> Verified:
    """`raw`: the key set; empty: that of the usual signer."""
    path = folder / "keys.json"
    path.write_bytes(raw or key_set(signer()))
    return await TokenVerifier(Keys(str(path), fetch_keys), ISSUER, AUDIENCE).verify(Credentials(BEARER, "", token))


@pytest.mark.parametrize("algorithm", ["RS256", "PS256", "ES256", "EdDSA"])
async def test_a_token_gives_its_subject_its_end_and_when_it_was_issued(tmp_path: Path, algorithm: str) -> None:
    by = signer("RS256" if algorithm == "PS256" else algorithm)
    ends_at = int(time.time()) + 60
    verified = await verify(tmp_path, by.sign(algorithm, exp=ends_at, iat=ends_at - 90), key_set(by))
    assert verified == Verified("orders-7", ends_at + LEEWAY_S, ends_at - 90)


def part(said: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(said).encode()).rstrip(b"=").decode()


def unsigned() -> str:
    """Algorithm `none`, made by hand: a library would refuse."""
    claims = signer().sign().split(".")[1]
    return f"{part({'alg': 'none', 'kid': 'one'})}.{claims}."


def signed_with_the_public_key() -> str:
    """HS256 whose secret everybody knows: it confused many libraries."""
    by = signer()
    secret = by.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    head = f"{part({'alg': 'HS256', 'kid': 'one'})}.{by.sign().split('.')[1]}"
    digest = hmac.new(secret, head.encode(), hashlib.sha256).digest()
    return f"{head}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def key_in_the_token() -> str:
    """It brings the key that verifies it."""
    other = signer("ES256", "other")
    return other.sign(headers={"jwk": other.jwk, "kid": "one"})


def written(claims: str = "", header: str = '{"alg": "ES256", "kid": "one"}') -> str:
    """A token by the usual signer with this text as its claims, or the usual ones, and this header."""
    by = signer()
    parts = (header.encode(), claims.encode() or base64.urlsafe_b64decode(by.sign().split(".")[1] + "=="))
    head = ".".join(base64.urlsafe_b64encode(each).rstrip(b"=").decode() for each in parts)
    signature = ECAlgorithm(ECAlgorithm.SHA256).sign(head.encode(), by.key)
    return f"{head}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def claims(exp: str = "", **more: str) -> str:
    """Claims that hold but for these, each as JSON."""
    ends_at = exp or str(int(time.time()) + 60)
    said = {"sub": '"orders-7"', "iss": f'"{ISSUER}"', "aud": f'"{AUDIENCE}"', "exp": ends_at, **more}
    return "{" + ", ".join(f'"{name}": {value}' for name, value in said.items()) + "}"


ALGORITHM = "its algorithm is not RS256, PS256, ES256 or EdDSA"
UNKNOWN = "no known key has its id and algorithm"
SIGNED = (  # what is said of no guess
    "it has expired",
    "it does not hold yet",
    "it is for another audience",
    "it is of another issuer",
    "it lacks exp, sub, iss or aud",
)


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (lambda: signer().sign(exp=int(time.time()) - LEEWAY_S - 1), "it has expired"),
        (lambda: signer().sign(nbf=int(time.time()) + LEEWAY_S + 60), "it does not hold yet"),
        (lambda: signer().sign(aud="another"), "it is for another audience"),
        (lambda: signer().sign(iss="https://evil.example"), "it is of another issuer"),
        (lambda: signer().sign(exp=None), "it lacks exp, sub, iss or aud"),
        (lambda: signer().sign(sub=None), "it lacks exp, sub, iss or aud"),
        (lambda: signer().sign(sub=""), "its name is not printable text of 1 to 255 bytes"),
        (lambda: signer().sign(sub="a\nb"), "its name is not printable text of 1 to 255 bytes"),
        (lambda: signer().sign(sub="a" * 256), "its name is not printable text of 1 to 255 bytes"),
        (lambda: signer().sign()[:-8] + "AAAAAAAA", "its signature is wrong"),
        (lambda: signer("ES256", "other").sign(headers={"kid": "one"}), "its signature is wrong"),
        (key_in_the_token, "its signature is wrong"),
        (lambda: signer("ES256", "other").sign(), UNKNOWN),
        (lambda: signer("EdDSA").sign(), UNKNOWN),  # the id of a key for another algorithm
        (lambda: written(header='{"alg": "RS256", "kid": "one"}'), UNKNOWN),
        (lambda: written(header='{"alg": "ES256", "kid": "one", "alg": "none"}'), ALGORITHM),  # the last one counts
        (lambda: written(header='{"alg": ["ES256"], "kid": "one"}'), ALGORITHM),
        (lambda: written(header='{"alg": {}, "kid": "one"}'), ALGORITHM),
        (lambda: written(header='{"alg": "ES256", "kid": 1}'), "it is no JSON Web Token"),
        (lambda: written(header='{"alg": "ES256", "kid": "one", "crit": ["x"], "x": 1}'), "it is no JSON Web Token"),
        (lambda: written("[" * 9000), "it is malformed"),
        (lambda: written(claims(more="[" * 100_000 + "]" * 100_000)), "it is malformed"),
        (lambda: written(claims(exp="1" + "0" * 400)), "it is malformed"),
        (lambda: written(claims(exp="253402300800")), "it is malformed"),
        (lambda: written(claims(exp="1e400")), "it is malformed"),
        (lambda: written(claims(iat="-1e308")), "it is malformed"),
        (lambda: written(claims(iat="-1" + "0" * 400)), "it is malformed"),
        (lambda: written(claims(exp="null")), "it lacks exp, sub, iss or aud"),
        (lambda: written(claims(sub="7")), "it is malformed"),
        (lambda: written(claims(sub='"\\ud800"')), "its name is not printable text of 1 to 255 bytes"),
        (lambda: written(claims(aud='{"rsocket-broker": 1}')), "it is for another audience"),
        (lambda: signer().sign() + "!", "it is no JSON Web Token"),
        (lambda: signer().sign() + "\n", "it is no JSON Web Token"),
        (lambda: signer().sign().replace(".", "+.", 1), "it is no JSON Web Token"),
        (lambda: signer().sign() + ".AAAA.AAAA", "it is no JSON Web Token"),  # encrypted ones have five parts
        (lambda: signer().sign().rpartition(".")[0] + ".", "its signature is wrong"),
        (unsigned, ALGORITHM),
        (signed_with_the_public_key, ALGORITHM),
        (lambda: f"{base64.urlsafe_b64encode(b'[' * 9000).rstrip(b'=').decode()}.a.b", "it is no JSON Web Token"),
        (lambda: "no token", "it is no JSON Web Token"),
        (lambda: "a.b.c", "it is no JSON Web Token"),
        (lambda: "a" * 10_000, "it is no JSON Web Token"),
    ],
)
async def test_what_does_not_hold_is_told_to_operators_without_the_token(
    tmp_path: Path, token: Callable[[], str], reason: str
) -> None:
    with pytest.raises(NotAccepted) as raised:
        await verify(tmp_path, token())
    assert str(raised.value) == reason
    assert raised.value.is_guess == (reason not in SIGNED)


async def test_of_a_claim_that_is_there_twice_the_last_counts(tmp_path: Path) -> None:
    """RFC 7519, section 4: refuse them, or take the last."""
    twice = claims()[:-1] + ', "sub": "billing"}'
    assert (await verify(tmp_path, written(twice))).name == "billing"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from(["sub", "iss", "aud", "exp", "iat", "nbf", "jti"]), JSON, max_size=3))
async def test_whatever_a_signed_token_says_it_holds_or_it_does_not(tmp_path: Path, more: dict[str, Any]) -> None:
    token = written(json.dumps(json.loads(claims()) | more))
    try:
        verified = await verify(tmp_path, token)
    except NotAccepted:
        return
    assert 0 <= verified.issued_at_s <= MAX_MOMENT_S
    assert time.time() < verified.expires_at_s <= MAX_MOMENT_S + LEEWAY_S


async def test_a_key_that_names_its_algorithm_verifies_no_other(tmp_path: Path) -> None:
    by = signer("RS256")
    raw = key_set(by, alg="PS256")
    assert (await verify(tmp_path, by.sign("PS256"), raw)).name == "orders-7"
    with pytest.raises(NotAccepted, match=UNKNOWN):
        await verify(tmp_path, by.sign("RS256"), raw)


async def test_many_headers_are_no_matter_and_one_that_is_known_lets_nobody_in(tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_bytes(key_set(signer()))
    verifier = TokenVerifier(Keys(str(tmp_path / "keys.json"), fetch_keys), ISSUER, AUDIENCE)

    async def reason_of(token: str) -> str:
        with pytest.raises(NotAccepted) as raised:
            await verifier.verify(Credentials(BEARER, "", token))
        return str(raised.value)

    token = signer().sign()
    assert (await verifier.verify(Credentials(BEARER, "", token))).name == "orders-7"
    head = token.partition(".")[0]
    assert [await reason_of(each) for each in (head, f"{head}.a", f"{head}.e30.")] == ["it is malformed"] * 2 + [
        "its signature is wrong"
    ]
    for number in range(MAX_HEADERS + 1):
        assert await reason_of(f"{part({'alg': 'ES256', 'kid': str(number)})}.e30.") == UNKNOWN
    assert len(verifier._headers) <= MAX_HEADERS
    assert (await verifier.verify(Credentials(BEARER, "", token))).name == "orders-7"


async def test_without_an_id_the_only_key_for_the_algorithm_counts(tmp_path: Path) -> None:
    token = signer().sign(headers={"kid": ""})
    assert (await verify(tmp_path, token, key_set(signer(), signer("EdDSA")))).name == "orders-7"
    with pytest.raises(NotAccepted, match=UNKNOWN):
        await verify(tmp_path, token, key_set(signer(), signer("ES256", "other")))
