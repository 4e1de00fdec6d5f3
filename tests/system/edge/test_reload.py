"""SIGHUP: what the files of certificates, keys and roots say is in force for new connections and ends none; roles and
users are in force for all."""

import logging
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from argon2 import PasswordHasher

from admin_api.access.identities import make_verifier
from broker.config.load import Sources, load
from broker.edge.admission.verdicts import NotAccepted
from broker.reload import NOTHING, read_again
from broker.server import Server
from rsocket_wire.rsocket.metadata import encode_well_known_entry
from rsocket_wire.wire.authentication import AUTHENTICATION_ID, BEARER, SIMPLE, Credentials
from tests.broker.edge.admission.signers import AUDIENCE, ISSUER, key_set, signer
from tests.system.support.certificates import BROKER_NAMES, Authority
from tests.system.support.waits import until
from tests.system.support.wires import StreamTransport, Wire

FILES = {"certificate": "pem", "key": "key"}
SECRET = "correct horse battery staple"
RELOADED = "broker: files reloaded: tls.certificate, tls.key, cluster.ca"


@pytest.fixture(scope="module")
def turned(authority: Authority) -> Authority:
    """It has signed `second` as well."""
    authority.sign("second", BROKER_NAMES)
    return authority


def put(authority: Authority, name: str, folder: Path, *which: str) -> None:
    """Copies files of this name to where the broker looks."""
    for each in which or FILES:
        shutil.copy(getattr(authority, each)(name), folder / f"broker.{FILES[each]}")


@pytest.fixture
async def server(turned: Authority, tmp_path: Path) -> AsyncIterator[Server]:
    """A broker of a cluster that shows the certificate `broker`."""
    put(turned, "broker", tmp_path)
    files = {f"tls.{each}": str(tmp_path / f"broker.{end}") for each, end in FILES.items()}
    flags = {"server.listen": ("tls://127.0.0.1:0",), "admin.listen": "off", **files}
    made = Server(load(None, {"RSB_CLUSTER__SECRET": SECRET, "RSB_CLUSTER__CA": str(turned.root)}, flags))
    await made.start()
    yield made
    made.wish_stop()
    made.wish_stop()
    await made.stop()


async def shown(server: Server, authority: Authority) -> str:
    """The name in the certificate that a new connection is shown."""
    wire = await Wire.caller(server.listeners[0], authority.client_context())
    assert isinstance(wire.transport, StreamTransport)
    (subject,) = wire.transport.writer.get_extra_info("peercert")["subject"]
    await wire.close()
    return str(subject[0][1])


async def test_new_connections_get_the_new_certificate_and_those_that_are_there_stay(
    server: Server, turned: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    there = await Wire.caller(server.listeners[0], turned.client_context())
    assert await shown(server, turned) == "broker"
    put(turned, "second", tmp_path)
    assert server._dialer is not None
    dialled_with = server._dialer.context
    with caplog.at_level(logging.INFO, "broker"):
        server.reload()
        assert await shown(server, turned) == "second"
        await until(lambda: RELOADED in caplog.messages)
    await there.ping()
    assert server._dialer.context is not dialled_with
    assert caplog.messages.count(RELOADED) == 1
    assert [each.message for each in caplog.records if each.levelno > logging.INFO] == []  # a connection that broke off


@pytest.mark.parametrize(
    ("which", "content", "text"),
    [
        ("key", None, "tls.key: {} is the key of another certificate"),
        ("key", "", "tls.key: {} holds no private key in PEM without a password"),
        (
            "certificate",
            "",
            "tls.certificate: {} holds no certificate in PEM; PEM has a line -----BEGIN CERTIFICATE-----",
        ),
    ],
)
async def test_a_mistake_in_a_file_changes_nothing_and_is_one_line(
    server: Server,
    turned: Authority,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    which: str,
    content: str | None,
    text: str,
) -> None:
    path = tmp_path / f"broker.{FILES[which]}"
    if content is None:
        put(turned, "second", tmp_path, which)
    else:
        path.write_text(content)
    with caplog.at_level(logging.WARNING, "broker"):
        server.reload()
    assert caplog.messages == [f"broker: SIGHUP: nothing is reloaded: {text.format(path)}"]
    assert await shown(server, turned) == "broker"


async def test_a_file_that_is_gone_changes_nothing(
    server: Server, turned: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "broker.pem").unlink()
    with caplog.at_level(logging.WARNING, "broker"):
        server.reload()
    (line,) = caplog.messages
    assert line.startswith("broker: SIGHUP: nothing is reloaded: tls: ")
    assert await shown(server, turned) == "broker"


# Roles and users

ROLES = """
[auth]
mode = "required"
accept = ["user", "anonymous"]
users = "{folder}/users"
revocations = "{folder}/revocations"

[role.staff]
who = ["user:{who}"]

[role.default]
"""
CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Server]:
    """A broker that knows the user `ada`."""
    write_roles(tmp_path, "*")
    write_users(tmp_path, "ada", "bob")
    (tmp_path / "revocations").write_text("2026-03-01T08:30:00Z user:ada\n")
    flags = {"server.listen": ("tcp://127.0.0.1:0",), "admin.listen": "off"}
    sources = Sources(str(tmp_path / "broker.toml"), {}, flags)
    made = Server(sources.load().config, sources=sources)
    await made.start()
    yield made
    made.wish_stop()
    made.wish_stop()
    await made.stop()


def write_roles(folder: Path, who: str, more: str = "") -> None:
    (folder / "broker.toml").write_text(ROLES.format(folder=folder, who=who) + more)


def write_users(folder: Path, *names: str) -> None:
    (folder / "users").write_text("".join(f"{name}:{CHEAP.hash(name)}\n" for name in names))


async def log_in(server: Server, name: str) -> Wire:
    credentials = encode_well_known_entry(AUTHENTICATION_ID, Credentials(SIMPLE, name, name).encode())
    wire = await Wire.connect(server.listeners[0])
    wire.setup(credentials)
    await wire.ping()
    return wire


async def end_of(wire: Wire) -> str:
    """The text of the ERROR with which it ends."""
    (frame,) = await wire.rest()
    return frame.text


async def test_roles_and_users_are_in_force_for_those_who_are_there(
    guarded: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ada, bob = await log_in(guarded, "ada"), await log_in(guarded, "bob")
    users = (tmp_path / "users").read_text().splitlines(keepends=True)
    (tmp_path / "users").write_text(users[0])
    with caplog.at_level(logging.INFO, "broker"):
        guarded.reload()
        assert (await end_of(bob)).startswith("revoked: ")
        await ada.ping()
        await until(lambda: "broker: files reloaded: auth.users, auth.revocations" in caplog.messages)
    assert not [line for line in caplog.messages if "roles changed" in line]
    write_roles(tmp_path, "eve")
    text = (tmp_path / "broker.toml").read_text().replace("[role.default]", "")
    (tmp_path / "broker.toml").write_text(text)
    with caplog.at_level(logging.INFO, "broker"):
        guarded.reload()
        assert await end_of(ada) == "denied: user:ada has no role any more"
        await until(lambda: "broker: roles changed: there are 1, 1 connections are judged anew" in caplog.messages)


@pytest.mark.parametrize(
    ("more", "users", "text"),
    [
        ("[role.x]\nwho = 7\n", None, "broker.toml:13: role.x.who: must be"),
        ("[role.x]\n[role.y]\n", None, "broker.toml:12: role.x: needs who: the identities that have it, and 1 more"),
        ("", "ada ada\n", "auth.users"),
    ],
)
async def test_a_mistake_in_roles_or_users_changes_neither(
    guarded: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture, more: str, users: str | None, text: str
) -> None:
    ada = await log_in(guarded, "ada")
    write_roles(tmp_path, "eve", more)
    (tmp_path / "users").write_text(users or "eve:$argon2id$x\n")
    with caplog.at_level(logging.WARNING, "broker"):
        guarded.reload()
    (line,) = caplog.messages
    assert line.startswith("broker: SIGHUP: nothing is reloaded: ")
    assert text in line
    await ada.ping()
    write_roles(tmp_path, "*")
    write_users(tmp_path, "ada")
    await log_in(guarded, "ada")


async def test_revocations_of_the_file_are_in_force_for_those_who_are_there(guarded: Server, tmp_path: Path) -> None:
    ada, bob = await log_in(guarded, "ada"), await log_in(guarded, "bob")
    (tmp_path / "revocations").write_text("9000-01-01T00:00:00Z user:ada\n")
    guarded.reload()
    assert (await end_of(ada)).startswith("revoked: ")
    await bob.ping()
    wire = await Wire.connect(guarded.listeners[0])
    wire.setup(encode_well_known_entry(AUTHENTICATION_ID, Credentials(SIMPLE, "ada", "ada").encode()))
    assert (await end_of(wire)).startswith("revoked: ")


async def test_identities_of_the_rest_api_are_read_again_with_their_keys(tmp_path: Path) -> None:
    file, keys = tmp_path / "broker.toml", tmp_path / "keys.json"
    keys.write_bytes(key_set(signer()))
    own = (
        f'[admin]\nlisten = "off"\nchanges = "off"\n[server]\nlisten = ["tcp://127.0.0.1:0"]\n[jwt]\nkeys = "{keys}"\n'
    )
    own += f'issuer = "{ISSUER}"\naudience = "{AUDIENCE}"\n'
    file.write_text(own.replace("[server]", 'viewers = ["jwt:a"]\n[server]'))
    sources = Sources(str(file), {}, {})
    server = Server(sources.load().config, sources=sources)
    server.operators = verifier = make_verifier(server.config)
    await server.start()
    try:
        assert verifier is not None
        asked = Credentials(BEARER, "", signer("EdDSA", "new").sign())
        with pytest.raises(NotAccepted):
            await verifier.verify(asked)
        keys.write_bytes(key_set(signer("EdDSA", "new")))
        file.write_text(own.replace("[server]", 'admins = ["jwt:b"]\n[server]').replace('changes = "off"', ""))
        server.reload()
        assert (await verifier.verify(asked)).name == "orders-7"
        assert (server.config.admin.jwt_roles, server.config.admin.changes) == ((("admin", ("jwt:b",)),), "off")
    finally:
        server.wish_stop()
        server.wish_stop()
        await server.stop()
        if verifier is not None:
            await verifier.close()


# Options that count from the next start


async def test_what_has_changed_and_is_not_read_again_is_named_without_values(
    guarded: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "broker.toml"
    more = '[cluster]\nsecret = "planted-planted-planted-planted"\n[service.orders]\nchooser = "random"\n'
    file.write_text(file.read_text().replace('"anonymous"', '"uid"') + "[limits]\nmax_connections = 7\n" + more)
    guarded.reload()
    names = "auth.accept, limits.max_connections, cluster.secret, service.orders"
    assert caplog.messages == [f"broker: SIGHUP: what has changed counts from the next start: {names}"]


async def test_with_auth_off_a_mistake_in_the_configuration_is_told_and_files_are_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "broker.toml"
    file.write_text("")
    sources = Sources(str(file), {}, {})
    config = sources.load().config
    file.write_text("[limits]\nmax_connections = 7\n")
    assert read_again(config, sources) is None
    assert read_again(config, sources, is_worker=True) is None
    file.write_text("[limits]\nmax_connections = true\n")
    assert read_again(config, sources) is None
    texts = [line.removeprefix("broker: ") for line in caplog.messages]
    told = "SIGHUP: what has changed counts from the next start: limits.max_connections"
    assert (texts[:3], texts[4]) == ([told, NOTHING, NOTHING], NOTHING)
    assert texts[3].startswith(f"SIGHUP: the configuration has a mistake: {file}:2: limits.max_connections: ")


# Tokens of the REST API


async def test_a_token_that_is_revoked_is_unknown_and_a_mistake_in_the_file_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "tokens"
    lines = [f"{name} viewer 2099-01-01T00:00:00Z {'0' * 64}\n" for name in ("ann", "bob")]
    file.write_text("".join(lines))
    flags = {"server.listen": ("tcp://127.0.0.1:0",), "admin.listen": "off", "admin.tokens": str(file)}
    server = Server(load(None, {}, flags))
    await server.start()
    try:
        for text, known in [(lines[1], ["bob"]), ("rsb_planted", ["bob"])]:
            file.write_text(text)
            server.reload()
            assert [each.name for each in server.tokens or ()] == known
    finally:
        server.wish_stop()
        server.wish_stop()
        await server.stop()
    assert "nothing is reloaded: admin.tokens" in caplog.text
    assert "planted" not in caplog.text
