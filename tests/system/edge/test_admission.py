"""Admission on real sockets, with real tokens, passwords and certificates, through the SDK."""

from __future__ import annotations

import asyncio
import ssl
import time
from pathlib import Path

import pytest
from argon2 import PasswordHasher

from broker.edge.admission.keys import fetch_keys
from client_sdk import Password, Service, Token, Unauthenticated, address, connect
from client_sdk.reconnect import renewal
from client_sdk.testing import LocalBroker, local_broker
from tests.broker.edge.admission.signers import AUDIENCE, ISSUER, key_set, signer
from tests.conftest import StartBroker
from tests.system.support.certificates import Authority
from tests.system.support.wires import Closed, Wire

CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


def options(folder: Path, *accept: str, mode: str = "required") -> dict[str, object]:
    """Of a broker that lets these in."""
    (folder / "keys.json").write_bytes(key_set(signer()))
    (folder / "users").write_text(f"ada:{CHEAP.hash('lovelace')}\n")
    return {
        "auth.mode": mode,
        "auth.accept": accept,
        "auth.users": str(folder / "users"),
        "jwt.keys": str(folder / "keys.json"),
        "jwt.issuer": ISSUER,
        "jwt.audience": AUDIENCE,
    }


def echo() -> Service:
    service = Service("echo")

    @service.request_response()
    async def answer(data: bytes) -> bytes:
        return data

    return service


def principals(broker: LocalBroker) -> list[str]:
    return sorted(peer.principal for peer in broker._server.core.peers())


async def test_a_token_and_a_password_let_in_and_nothing_else_does(tmp_path: Path) -> None:
    asked_n = 0

    async def fresh() -> Token:
        nonlocal asked_n
        asked_n += 1
        return Token(signer().sign(sub=f"echo-{asked_n}"))

    async with (
        local_broker(listen=("tcp", "ws"), options=options(tmp_path, "jwt", "user")) as broker,
        connect(broker, service=echo(), credentials=fresh),
        connect(broker.urls["ws"], credentials=Password("ada", "lovelace")) as caller,
    ):
        assert (await caller.request_response(address("echo"), b"x", timeout_s=5)).data == b"x"
        assert (principals(broker), asked_n) == (["jwt:echo-1", "user:ada"], 1)
        for credentials in (None, Password("ada", "byron"), Password("eve", "lovelace"), Token(signer().sign(aud="x"))):
            with pytest.raises(Unauthenticated) as raised:
                await connect(broker, credentials=credentials)
            assert (credentials is None) == ("this broker accepts jwt or user" in raised.value.text)
            assert not raised.value.is_transient
        assert len(broker._server.core.peers()) == 2


async def test_a_token_is_renewed_under_traffic_and_nobody_notices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clocks of the test: of a token of a minute new ones are asked for at once, and not at four fifths."""
    for name, number in (("LEAD_SHARE", 1.0), ("SPREAD_SHARE", 0.0), ("MIN_LEAD_S", 0.0), ("MIN_DELAY_S", 0.02)):
        monkeypatch.setattr(renewal, name, number)
    lives = [600, 60]

    async def fresh() -> Token:
        return Token(signer().sign(exp=int(time.time()) + lives.pop()))

    async with (
        local_broker(options=options(tmp_path, "jwt", "user")) as broker,
        connect(broker, service=echo(), credentials=fresh),
        connect(broker, credentials=Password("ada", "lovelace")) as caller,
    ):
        first = next(peer for peer in broker._server.core.peers() if peer.caller_service == "echo")
        while first.login.expires_at < time.monotonic() + 500:
            assert (await caller.request_response(address("echo"), b"x", timeout_s=5)).data == b"x"
        await caller.request_response(address("echo"), b"x", timeout_s=5)
        assert (lives, first.is_ending, broker._server.core.lifecycle.limits.accepted_n) == ([], False, 2)


async def test_with_observe_everybody_is_let_in_and_counted(tmp_path: Path) -> None:
    async with (
        local_broker(options=options(tmp_path, "user", mode="observe")) as broker,
        connect(broker) as first,
        connect(broker, credentials=Password("ada", "byron")) as second,
        connect(broker, credentials=Password("ada", "lovelace")) as third,
    ):
        assert (first.is_connected, second.is_connected, third.is_connected) == (True,) * 3
        admission = broker._server.core.lifecycle.admission
        assert (principals(broker), admission.refused, admission.admitted_n) == (
            ["", "", "user:ada"],
            {"unauthenticated": 2},
            1,
        )


async def test_the_user_of_a_unix_socket_needs_no_credentials(tmp_path: Path) -> None:
    async with local_broker(listen=("unix",), options=options(tmp_path, "uid")) as broker, connect(broker):
        (principal,) = principals(broker)
        assert principal.startswith("uid:")


async def test_a_certificate_is_enough_or_a_token_and_a_certificate_of_others_is_not(
    start_broker: StartBroker, authority: Authority, tmp_path: Path
) -> None:
    """A client without a certificate gets through TLS, since tokens are accepted, too."""
    authority.sign("orders", "subjectAltName=URI:spiffe://acme/orders,DNS:orders.example\n")
    said = options(tmp_path, "certificate", "jwt") | {"tls.client_ca": authority.root, "log.format": "json"}
    said["auth.accept"] = "certificate,jwt"
    named = {name.replace(".", "__"): value for name, value in said.items()}
    broker = start_broker("--listen", "tls://127.0.0.1:0", **authority.broker_options(), **named)
    url = broker.url("tls")
    trusting = ssl.create_default_context(cafile=str(authority.root))
    async with (
        connect(url, ssl=authority.client_context("orders")),
        connect(url, ssl=trusting, credentials=Token(signer().sign())),
        connect(url, ssl=authority.client_context("orders"), credentials=Token(signer().sign(sub="both"))),
    ):
        with pytest.raises(Unauthenticated):
            await connect(url, ssl=trusting)
        with pytest.raises(Unauthenticated):
            await connect(url, ssl=authority.client_context("orders"), credentials=Token("no token"))
    broker.signal()
    broker.wait()
    text = broker.errors
    for principal in ("certificate:spiffe://acme/orders", "jwt:orders-7", "jwt:both"):
        assert f"admitted: {principal}" in text
    assert "jwt: it is no JSON Web Token" in text


@pytest.mark.parametrize(
    ("alternatives", "subject", "identity"),
    [
        ("URI:spiffe://acme/shop/orders", "/O=Acme/CN=orders", "certificate:spiffe://acme/shop/orders"),
        ("DNS:orders.shop,DNS:other.shop", "/O=Acme/CN=orders", "certificate:orders.shop"),
        (
            "email:a@b,IP:10.0.0.1,DNS:orders.shop,URI:https://acme/orders,URI:spiffe://acme/one,URI:spiffe://acme/two",
            "/O=Acme/CN=orders",
            "certificate:spiffe://acme/one",
        ),
        ("", "/O=Acme/CN=orders", "certificate:CN=orders,O=Acme"),
        ("URI:CN=admin", "/O=Acme/CN=orders", "certificate:CN=orders,O=Acme"),
        ("", "/O=Acme\\, Inc./OU=a+CN=b", "certificate:CN=b+OU=a,O=Acme\\, Inc."),
        ("", "/", ""),
    ],
)
async def test_certificates_of_openssl_have_the_identity_that_the_rule_says(
    authority: Authority, alternatives: str, subject: str, identity: str
) -> None:
    authority.sign("named", f"subjectAltName={alternatives}\n" if alternatives else "", subject)
    said = {
        "auth.mode": "required",
        "auth.accept": ("certificate",),
        "tls.client_ca": str(authority.root),
        "tls.certificate": str(authority.certificate("broker")),
        "tls.key": str(authority.key("broker")),
    }
    async with local_broker(listen=("tls://127.0.0.1:0",), options=said) as broker:
        if not identity:
            with pytest.raises(Unauthenticated):
                await connect(broker, ssl=authority.client_context("named"))
            return
        async with connect(broker, ssl=authority.client_context("named")):
            assert principals(broker) == [identity]


@pytest.mark.parametrize(
    ("mode", "accept", "is_let_in"),
    [
        ("off", ("jwt", "certificate"), False),
        ("observe", ("certificate",), False),
        ("observe", ("jwt", "certificate"), True),
    ],
)
async def test_tls_refuses_who_has_no_certificate_unless_admission_judges_other_kinds(
    mode: str, accept: tuple[str, ...], is_let_in: bool, authority: Authority, tmp_path: Path
) -> None:
    files = {name.replace("__", "."): str(path) for name, path in authority.broker_options().items()}
    said = options(tmp_path, *accept, mode=mode) | {"tls.client_ca": str(authority.root)} | files
    trusting = ssl.create_default_context(cafile=str(authority.root))
    async with local_broker(listen=("tls://127.0.0.1:0",), options=said) as broker:
        if is_let_in:
            await (await Wire.caller(broker._server.listeners[0], trusting)).close()
        else:
            with pytest.raises(Closed):
                await Wire.caller(broker._server.listeners[0], trusting)


async def test_keys_are_fetched_over_https_from_who_is_trusted(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(authority.certificate("broker"), authority.key("broker"))
    answers = [b"200 OK", b"200 OK", b"302 Found\r\nLocation: /elsewhere"]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 " + answers.pop() + b"\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/keys"
        with pytest.raises(OSError, match="certificate verify failed"):
            await fetch_keys(url)
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.root))
        with pytest.raises(OSError, match="status 302"):
            await fetch_keys(url)
        assert await fetch_keys(url) == b"{}"
