"""What a configuration may say and had better not: secrets that all may read, and what other machines reach unguarded.

Decides what is worth a warning; nothing here keeps a broker from its start.
"""

from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit

from broker.access.identities import ANONYMOUS, CERTIFICATE, UID
from broker.config.certificates import expired_at, is_open_to_all, read_revoked, unlisted_authorities
from broker.config.cluster import is_in_cluster
from broker.config.options import Config
from broker.config.sections.samwise import RabbitmqOptions
from broker.config.toml import shown_value

CHMOD: Final = "chmod o-r prevents that"

Warning = tuple[str, str, str]  # the option, a sentence, and the item of a list or nothing


def config_warnings(config: Config, secrets_file: str, file: str = "") -> list[Warning]:
    """All of them. `file`: the configuration's, empty if there is none; `secrets_file`: likewise, if a secret of the
    cluster stands in it."""
    found: list[Warning] = []
    for name, listeners in (("server.listen", config.server.listen), ("cluster.listen", config.cluster.listen)):
        for listen in listeners:
            if not listen.is_tls and not listen.is_local:
                text = f"{shown_value(str(listen))} is reachable from other machines and not encrypted; use tls or wss"
                found.append((name, text, str(listen)))
    if config.cluster.plaintext:
        found.append(
            ("cluster.plaintext", "whoever is between two brokers reads all requests, and can be a broker", "")
        )
    admin = config.admin
    if admin.listen is not None and not admin.listen.is_local:
        text = f"{shown_value(admin.listen.address)} is reachable from other machines without authentication"
        if admin.tokens or admin.jwt_roles:
            text = (
                f"{shown_value(admin.listen.address)} is reachable from other machines and not encrypted: whoever is "
                "between learns the tokens; listen on this machine, behind a proxy with TLS"
            )
        elif admin.changes == "all":
            text += '; with admin.changes = "all" everybody may drain, redirect and close connections'
        found.append(("admin.listen", text, admin.listen.address))
    is_listening = any(each.is_tls for each in (*config.server.listen, *config.cluster.listen))
    # Brokers show it to those that they dial, also to some that they only heard of.
    is_used = is_listening or is_in_cluster(config.cluster) or config.samwise.endpoints
    name = "tls.certificate" if config.tls.certificate else "tls.client_ca" if config.tls.client_ca else ""
    if name and not is_used:
        text = 'no listener uses it; listen = ["tls://0.0.0.0:7878"] in [server] is one that does, or one of wss://'
        found.append((name, text, ""))
    if config.tls.key and is_open_to_all(config.tls.key):
        text = f"every user of this machine may read {shown_value(config.tls.key)}; {CHMOD}"
        found.append(("tls.key", text, ""))
    if config.tls.client_crl:
        found += [
            ("tls.client_crl", text, "") for text in _faults_of_lists(config.tls.client_crl, config.tls.client_ca)
        ]
    if config.auth.users and is_open_to_all(config.auth.users):
        found.append(("auth.users", f"every user of this machine may read the file; {CHMOD}", ""))
    auth = config.auth
    if auth.mode == "observe" and config.tls.client_ca and auth.accept != (CERTIFICATE,):
        text = 'clients without a certificate, which TLS refuses with "off", are let in while this is "observe"'
        found.append(("auth.mode", text, ""))
    if auth.mode == "required" and not {UID, ANONYMOUS} & set(auth.accept):
        text = 'the gateway connects without credentials: accept "uid", with a unix:// listener as the first one'
        if config.samwise.endpoints:
            found.append(("samwise.endpoints", text, ""))
        if config.feed.is_used:
            found.append(("auth.accept", text.replace("gateway", "feed"), ""))
    told = [f"service.{name}.identity" for name, own in config.service.items() if own.get("identity")]
    told += ["routing.identity"] if config.routing.identity else []
    for name in told if auth.mode == "off" else []:
        text = "nobody proves who it is but by a certificate or a Unix socket, all others are anonymous"
        found.append((name, f"auth.mode is off: {text}", ""))
    if config.cluster.secret_file and is_open_to_all(config.cluster.secret_file):
        found.append(("cluster.secret_file", f"every user of this machine may read the file; {CHMOD}", ""))
    if secrets_file and is_open_to_all(secrets_file):
        text = f"every user of this machine may read {shown_value(secrets_file)}, which holds it; {CHMOD}"
        found.append(("cluster.secret", text, ""))
    curve_key = config.samwise.curve_key
    if curve_key and is_open_to_all(curve_key):
        text = f"every user of this machine may read {shown_value(curve_key)}; {CHMOD}"
        found.append(("samwise.curve_key", text, ""))
    for name, rabbitmq in config.samwise.rabbitmq.items():
        if rabbitmq.password != RabbitmqOptions.password and file and is_open_to_all(file):
            text = f"every user of this machine may read {shown_value(file)}, which holds it; {CHMOD}"
            found.append((f"samwise.rabbitmq.{name}.password", text, ""))
    for name in config.feed.broker:
        if urlsplit(config.feed.broker[name].url).password and file and is_open_to_all(file):
            text = f"every user of this machine may read {shown_value(file)}, which holds a password; {CHMOD}"
            found.append((f"feed.broker.{name}.url", text, ""))
    return found


def _faults_of_lists(path: str, client_ca: str) -> list[str]:
    """For whom lists of revoked certificates leave no way in."""
    revoked = read_revoked(path)
    found = [
        f"{shown_value(path)} has a list that has expired, at {moment:%Y-%m-%dT%H:%M:%SZ}: certificates of its "
        "authority are refused"
        for moment in expired_at(revoked, datetime.now(UTC))
    ]
    return found + [
        f"{shown_value(path)} has no list of {name}: its certificates are refused"
        for name in unlisted_authorities(client_ca, revoked)
    ]
