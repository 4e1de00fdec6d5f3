"""broker.config.warnings: what a configuration may say, and had better not."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from broker.config.load import load_all
from tests.broker.config.sources import write_pem


def warnings_of(folder: Path, text: str, environ: Mapping[str, str] | None = None) -> list[str]:
    (folder / "broker.toml").write_text(text, encoding="utf-8")
    return [str(warning) for warning in load_all("broker.toml", environ or {}, {}).warnings]


def test_listeners_that_other_machines_reach_in_the_clear_are_warned_of(folder: Path) -> None:
    write_pem(folder)
    urls = ["tcp://0.0.0.0:1", "ws://10.0.0.4:2/x", "tcp://[::]:3", "tcp://some.name:4", "tcp://127.some.name:4"]
    safe = [
        "tcp://127.0.0.1:5",
        "ws://127.9.9.9:6",
        "tcp://localhost:7",
        "tcp://[::1]:8",
        "unix:///x",
        "tls://0.0.0.0:9",
    ]
    lines = "".join(f'  "{url}",\n' for url in [*urls, *safe])
    text = f'[tls]\ncertificate = "certificate"\nkey = "key"\n[server]\nlisten = [\n{lines}]\n[auth]\nmode = "off"\n'
    (folder / "key").chmod(0o600)
    why = "is reachable from other machines and not encrypted; use tls or wss"
    assert warnings_of(folder, text) == [
        f'broker.toml:{line}: server.listen: "{url}" {why}' for line, url in enumerate(urls, 6)
    ]


def test_a_certificate_that_no_listener_shows_is_warned_of(folder: Path) -> None:
    write_pem(folder)
    (folder / "key").chmod(0o600)
    pair = '[tls]\ncertificate = "certificate"\nkey = "key"\n'
    how = 'listen = ["tls://0.0.0.0:7878"] in [server] is one that does, or one of wss://'
    assert warnings_of(folder, pair) == [f"broker.toml:2: tls.certificate: no listener uses it; {how}"]
    assert warnings_of(folder, '[tls]\nclient_ca = "certificate"\n') == [
        f"broker.toml:2: tls.client_ca: no listener uses it; {how}"
    ]
    link = '[cluster]\nsecret_file = "key"\n'  # it presents the certificate to brokers that it hears of
    assert warnings_of(folder, pair + link) == []


def test_who_gets_through_tls_only_while_admission_observes_is_warned_of(folder: Path) -> None:
    write_pem(folder)
    (folder / "key").chmod(0o600)
    text = '[tls]\ncertificate = "certificate"\nkey = "key"\nclient_ca = "certificate"\n'
    text += '[server]\nlisten = ["tls://127.0.0.1:1"]\n[auth]\nmode = "observe"\n'
    assert warnings_of(folder, text + 'accept = ["certificate"]\n') == []
    assert warnings_of(folder, text + 'accept = ["certificate", "uid"]\n') == [
        "broker.toml:8: auth.mode: clients without a certificate, which TLS refuses with "
        '"off", are let in while this is "observe"'
    ]


def test_links_in_the_clear_are_warned_of(folder: Path) -> None:
    text = '[cluster]\nsecret = "one that is long enough"\nplaintext = true\nlisten = ["tcp://0.0.0.0:1"]\n'
    (folder / "broker.toml").touch(0o600)
    assert warnings_of(folder, text) == [
        'broker.toml:4: cluster.listen: "tcp://0.0.0.0:1" is reachable from other machines and not encrypted; use tls '
        "or wss",
        "broker.toml:3: cluster.plaintext: whoever is between two brokers reads all requests, and can be a broker",
    ]


def test_an_admin_listener_that_other_machines_reach_is_warned_of(folder: Path) -> None:
    why = '"0.0.0.0:1" is reachable from other machines without authentication'
    assert warnings_of(folder, '[admin]\nlisten = "0.0.0.0:1"\n') == [f"broker.toml:2: admin.listen: {why}"]
    more = '; with admin.changes = "all" everybody may drain, redirect and close connections'
    environ = {"RSB_ADMIN__LISTEN": "0.0.0.0:1", "RSB_ADMIN__CHANGES": "all"}
    assert warnings_of(folder, "", environ) == [f"environment: RSB_ADMIN__LISTEN: {why}{more}"]
    assert warnings_of(folder, '[admin]\nlisten = "localhost:1"\nchanges = "all"\n') == []
    assert warnings_of(folder, '[admin]\nlisten = "off"\n') == []


@pytest.mark.parametrize(("mode", "is_told"), [(0o644, True), (0o604, True), (0o640, False), (0o600, False)])
def test_keys_and_secrets_that_all_may_read_are_warned_of(folder: Path, mode: int, is_told: bool) -> None:
    write_pem(folder)
    (folder / "secret").write_text("one that is long enough")
    for name in ("key", "secret"):
        (folder / name).chmod(mode)
    text = '[tls]\ncertificate = "certificate"\nkey = "key"\n[cluster]\nsecret_file = "secret"\n'
    text += '[server]\nlisten = ["tls://127.0.0.1:1"]\n'
    told = [
        'broker.toml:3: tls.key: every user of this machine may read "key"; chmod o-r prevents that',
        "broker.toml:5: cluster.secret_file: every user of this machine may read the file; chmod o-r prevents that",
    ]
    assert warnings_of(folder, text) == (told if is_told else [])


def test_a_secret_in_a_file_that_all_may_read_is_warned_of(folder: Path) -> None:
    text = '[cluster]\nsecret = "one that is long enough"\n'
    (folder / "broker.toml").write_text(text)
    (folder / "broker.toml").chmod(0o644)
    why = 'every user of this machine may read "broker.toml", which holds it; chmod o-r prevents that'
    assert warnings_of(folder, text) == [f"broker.toml:2: cluster.secret: {why}"]
    (folder / "broker.toml").chmod(0o600)
    assert warnings_of(folder, text) == []
    (folder / "broker.toml").chmod(0o644)
    assert warnings_of(folder, "", {"RSB_CLUSTER__SECRET": "one that is long enough"}) == []


def test_services_that_are_told_who_calls_where_nobody_proves_it_are_warned_of(folder: Path) -> None:
    text = "[service.orders]\nidentity = true\n[service.stock]\nidentity = false\n"
    why = "auth.mode is off: nobody proves who it is but by a certificate or a Unix socket, all others are anonymous"
    assert warnings_of(folder, text) == [f"broker.toml:2: service.orders.identity: {why}"]
    assert warnings_of(folder, "[routing]\nidentity = true\n") == [f"broker.toml:2: routing.identity: {why}"]
    assert warnings_of(folder, text + '[auth]\nmode = "observe"\naccept = ["uid"]\n') == []


def test_the_defaults_are_no_reason_for_a_warning() -> None:
    assert load_all(None, {}, {}).warnings == []
