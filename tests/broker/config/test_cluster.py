"""broker.config.cluster: which options among brokers go together, what the core is told, and that secrets stay so."""

import socket
from dataclasses import fields
from pathlib import Path

import pytest

from broker.cluster.settings import ClusterSettings
from broker.config.cluster import reachable
from broker.config.load import load
from broker.config.options import Config
from broker.config.settings import cluster_settings_of
from broker.config.urls import Listen, PeerUrl
from broker.views.queries import config_view
from tests.broker.config.sources import mistakes_of, of_file
from tests.pem import CERTIFICATE

SECRET = "correct horse battery staple"
SCHEMES = "tcp, tls, ws, wss, unix, dns+tcp, dns+tls, srv+tcp or srv+tls"
A_SECRET = f'secret = "{SECRET}"\n'


# --- options that do not go together -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, sentence",
    [
        (
            'peers = ["tcp://a:1"]',
            '2: cluster.peers: needs cluster.secret or cluster.secret_file, or cluster.auth = "tls": brokers '
            "authenticate each other",
        ),
        ('secret = "0123456789abcde"', "2: cluster.secret: has 15 bytes, at least 16 are needed"),
        ('secret_file = "short"', "2: cluster.secret_file: has 15 bytes, at least 16 are needed"),
        (
            'secret_file = "gone"',
            "2: cluster.secret_file: the file cannot be read: No such file or directory; write the path of a file that "
            "holds the secret",
        ),
        (f'{A_SECRET}secret_file = "long"', "2: cluster.secret: and cluster.secret_file exclude each other"),
        ("secret = 123456", "2: cluster.secret: must be printable text of 0 to 4095 bytes"),
        (f"{A_SECRET}silent_s = 1", "3: cluster.silent_s: must be more than cluster.hello_s, 1"),
        (f"{A_SECRET}hello_s = 3", "3: cluster.hello_s: must be less than cluster.silent_s, 3"),
        (f'{A_SECRET}peers = [\n"tcp://a:0"]', '4: cluster.peers: "tcp://a:0" has port 0, which cannot be dialled'),
        (
            f'{A_SECRET}peers = ["tcp://localhost:1", "dns+tcp://a:1"]',
            '3: cluster.peers: "dns+tcp://a:1" is another machine, and not encrypted; use tls or wss, or set '
            "cluster.plaintext = true",
        ),
        (
            'listen = ["tcp://127.0.0.1:1"]',
            "2: cluster.listen: needs cluster.secret, cluster.secret_file or cluster.auth",
        ),
        (
            f'{A_SECRET}listen = ["tcp://0.0.0.0:7878"]',
            '3: cluster.listen: "tcp://0.0.0.0:7878" has the same address as "tcp://127.0.0.1:7878"',
        ),
        (
            f'{A_SECRET}peers = ["dns+ws://a:1"]',
            f'3: cluster.peers: "dns+ws://a:1" is not a URL of {SCHEMES}; write it as in tcp://127.0.0.1:7878',
        ),
        (f'{A_SECRET}peers = ["tcp://a"]', '3: cluster.peers: "tcp://a" has no port; write tcp://a:7878'),
        (f'{A_SECRET}peers = ["dns+tcp://a"]', '3: cluster.peers: "dns+tcp://a" has no port; write dns+tcp://a:7878'),
        (
            f'{A_SECRET}peers = ["srv+tcp://a:1"]',
            '3: cluster.peers: "srv+tcp://a:1" must be a scheme and a name; SRV records give hosts and ports',
        ),
        (
            f'{A_SECRET}peers = ["dns+tcp://a:1/x"]',
            '3: cluster.peers: "dns+tcp://a:1/x" must be a scheme, a name and a port',
        ),
        (f"{A_SECRET}peers = [5]", f'3: cluster.peers: "5" is not a URL of {SCHEMES}; write tcp://127.0.0.1:5'),
        (
            f'{A_SECRET}peers = "tcp://a:1"',
            '3: cluster.peers: must be a list of URLs, not "tcp://a:1"; write ["tcp://a:1"]',
        ),
        ("principals = [1]", "2: cluster.principals: 1 is not printable text"),
        (
            'principals = ["CN=b1", "O=Acme, Inc."]',
            '2: cluster.principals: "O=Acme, Inc." is not a principal: "Inc." is not NAME=VALUE (a comma in a value is '
            "written \\,); it is written certificate:NAME, commonName=NAME, organizationName=NAME … or uid:NUMBER",
        ),
        (
            'advertise = ["tls://0.0.0.0:1"]',
            '2: cluster.advertise: "tls://0.0.0.0:1" is an address to listen on, which others cannot dial',
        ),
        (
            'client_urls = ["tcp://a:0"]',
            '2: cluster.client_urls: "tcp://a:0" is an address to listen on, which others cannot dial',
        ),
    ],
)
def test_what_does_not_go_together_is_told_with_its_line(folder: Path, text: str, sentence: str) -> None:
    (folder / "short").write_text("0123456789abcde\n")
    (folder / "long").write_text("0123456789abcdef\n")
    assert mistakes_of(folder, f"[cluster]\n{text}\n") == [f"broker.toml:{sentence}"]


def test_listeners_for_other_brokers_need_a_certificate_too(folder: Path) -> None:
    assert mistakes_of(folder, f'[cluster]\n{A_SECRET}listen = ["tls://127.0.0.1:1"]') == [
        f'broker.toml:3: tls.{each}: is required by the listener "tls://127.0.0.1:1"; write {each} = "FILE" in [tls], '
        f"or RSB_TLS__{each.upper()}=FILE"
        for each in ("certificate", "key")
    ]


def test_auth_tls_needs_an_authority_names_and_peers_that_show_a_certificate(folder: Path) -> None:
    text = '[broker]\nname = "b"\n[cluster]\nauth = "tls"\npeers = ["tls://a:1", "tcp://b:1", "dns+tcp://c:1", "unix:///d"]\n'
    assert mistakes_of(folder, text) == [
        'broker.toml:4: cluster.auth: "tls" needs tls.client_ca',
        'broker.toml:4: cluster.auth: "tls" needs cluster.principals',
        'broker.toml:5: cluster.peers: "tcp://b:1" presents no certificate, which cluster.auth = "tls" requires',
        'broker.toml:5: cluster.peers: "dns+tcp://c:1" presents no certificate, which cluster.auth = "tls" requires',
    ]


@pytest.mark.parametrize("character", [" ", ",", ">"])
def test_a_name_that_cannot_stand_in_traces_is_refused_in_a_cluster_only(folder: Path, character: str) -> None:
    name = f'[broker]\nname = "eu{character}1"\n'
    assert of_file(folder, name).broker.name == f"eu{character}1"
    (mistake,) = mistakes_of(folder, f"{name}[cluster]\n{A_SECRET}")
    assert mistake.startswith("broker.toml:2: broker.name: cannot be used in traces: ")


def test_a_name_of_63_bytes_can_stand_in_traces_and_no_longer_one(folder: Path) -> None:
    of_file(folder, f'[broker]\nname = "{"n" * 63}"\n[cluster]\n{A_SECRET}')
    assert len(mistakes_of(folder, f'[broker]\nname = "{"n" * 64}"\n[cluster]\n{A_SECRET}')) == 1


def test_what_is_wrong_already_has_no_second_mistake(folder: Path) -> None:
    text = '[broker]\nname = "b"\n[cluster]\nauth = "tls"\nprincipals = 5\npeers = ["tpc://a:1"]\nhello_s = "x"\n'
    text += "secret = 5\n[tls]\nclient_ca = 5\n"
    assert [line.split(":")[1] for line in mistakes_of(folder, text)] == ["5", "6", "7", "8", "10"]


# --- secrets -------------------------------------------------------------------------------------------------------


def test_a_secret_is_shown_to_nobody(folder: Path) -> None:
    config = of_file(folder, f"[cluster]\n{A_SECRET}")
    assert config.cluster.secret == SECRET
    assert config_view(config)["cluster"]["secret"] == "***"
    assert config_view(config)["cluster"]["secret_file"] == ""
    assert SECRET not in repr(config)
    assert SECRET not in str(config_view(config))


@pytest.mark.parametrize(
    "text",
    [
        f'[cluster]\nsecret = "{SECRET}',  # no TOML: its line would be quoted
        f'[cluster]\nsecret = """\n{SECRET}',
        f'[cluster]\nsecret = ["{SECRET}"]',
        f'[broker]\nsecret = "{SECRET}"',
        f'secret = "{SECRET}"',
        f'[cluster]\nsecret = "{SECRET}\\u0000"',
    ],
)
def test_no_mistake_quotes_a_secret(folder: Path, text: str) -> None:
    assert SECRET not in "\n".join(mistakes_of(folder, text))


def test_a_variable_that_holds_a_wrong_secret_is_not_quoted(folder: Path) -> None:
    assert mistakes_of(folder, "", {"RSB_CLUSTER__SECRET": "too short"}) == [
        "environment: RSB_CLUSTER__SECRET: has 9 bytes, at least 16 are needed"
    ]


def test_the_secret_of_a_file_is_its_content_without_the_ends_of_lines(folder: Path) -> None:
    (folder / "secret").write_bytes(b"sixteen \xff bytes!\r\n\n")
    settings = cluster_settings_of(of_file(folder, '[cluster]\nsecret_file = "secret"'))
    assert settings is not None
    assert settings.secret == b"sixteen \xff bytes!"


# --- what the core is told -----------------------------------------------------------------------------------------


def values_of(settings: ClusterSettings | None) -> dict[str, object]:
    assert settings is not None
    return {each.name: getattr(settings, each.name) for each in fields(ClusterSettings)}


def test_without_a_secret_there_is_no_cluster() -> None:
    assert cluster_settings_of(Config()) is None


def test_the_defaults_are_those_of_the_core(folder: Path) -> None:
    config = of_file(folder, f'[server]\nlisten = ["tcp://a:1", "ws://b:0", "unix:///c"]\n[cluster]\n{A_SECRET}')
    urls = ["tcp://a:1", "unix:///c"]
    assert values_of(cluster_settings_of(config)) == {
        **values_of(ClusterSettings()),
        "secret": SECRET.encode(),
        "urls": urls,
        "client_urls": urls,
    }


def test_other_brokers_are_told_the_listeners_that_are_for_them(folder: Path) -> None:
    text = f'[server]\nlisten = ["tcp://a:1"]\n[cluster]\nlisten = ["tcp://b:2"]\n{A_SECRET}'
    settings = cluster_settings_of(of_file(folder, text))
    assert settings is not None
    assert (settings.urls, settings.client_urls) == (["tcp://b:2"], ["tcp://a:1"])


def test_what_is_worked_out_or_has_another_name_reaches_the_core(folder: Path) -> None:
    (folder / "ca").write_text(CERTIFICATE)
    config = of_file(
        folder,
        """\
[broker]
name = "b1"
[tls]
client_ca = "ca"
[annotations]
version = 0
[cluster]
auth = "tls"
principals = ["organizationName=Acme, commonName=b1", "uid 1000"]
peers = ["tls://a:1", "dns+tls://b:2", "unix:///c", "srv+tls://_d._tcp.e"]
mesh = false
advertise = ["tls://f:3"]
client_urls = ["wss://g:4/x"]
cost = 7
""",
    )
    assert values_of(cluster_settings_of(config)) == {
        **values_of(ClusterSettings()),
        "auth": "tls",
        "principals": ["certificate:CN=b1,O=Acme", "uid:1000"],
        "peers": ["tls://a:1", "unix:///c"],
        "is_mesh": False,
        "urls": ["tls://f:3"],
        "client_urls": ["wss://g:4/x"],
        "link_cost": 7,
        "version": 0,
    }
    to_look_up = [peer for peer in config.cluster.peers if peer.finder]
    assert to_look_up == [PeerUrl("tls", "b", 2, finder="dns"), PeerUrl("tls", "_d._tcp.e", finder="srv")]


def test_lists_in_variables_are_separated_by_commas_and_subjects_by_semicolons() -> None:
    environ = {
        "RSB_CLUSTER__SECRET": SECRET,
        "RSB_CLUSTER__PEERS": "tcp://a:1, srv+tcp://b",
        "RSB_CLUSTER__PLAINTEXT": "true",
        "RSB_CLUSTER__PRINCIPALS": "O=Acme, CN=b1; CN=b\\;2",
        "RSB_CLUSTER__ADVERTISE": "",
    }
    cluster = load(None, environ, {}).cluster
    assert cluster.peers == (PeerUrl("tcp", "a", 1), PeerUrl("tcp", "b", finder="srv"))
    assert cluster.principals == ("certificate:CN=b1,O=Acme", "certificate:CN=b\\;2")
    assert cluster.advertise == ()


def test_others_are_told_where_the_broker_listens_by_a_name_that_they_can_reach() -> None:
    listeners = ["tcp://0.0.0.0:7878", "ws://[::]:7879/x", "tls://10.0.0.4:7002", "unix:///run/b.sock"]
    name = socket.gethostname()
    assert reachable((), listeners) == [
        f"tcp://{name}:7878",
        f"ws://{name}:7879/x",
        "tls://10.0.0.4:7002",
        "unix:///run/b.sock",
    ]
    assert reachable((Listen("tls", "b1.example", 1),), listeners) == ["tls://b1.example:1"]
