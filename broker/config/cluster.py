"""What a configuration says about the cluster: which options exclude each other, the secret, where others reach it."""

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from broker.cluster.links.broker_info import fault_of_name
from broker.config.options import OPTIONS, Config
from broker.config.sections.cluster import MIN_SECRET_BYTES, ClusterOptions
from broker.config.toml import shown_value
from broker.config.urls import WILDCARDS, Listen

NO_NAME: Final = OPTIONS["broker.name"].default  # in traces: all who are not named are called so
ANONYMOUS: Final = ("tcp", "ws")  # schemes that tell nobody who is at the other end


def cluster_mistakes(values: Mapping[str, object], wrong: set[str]) -> list[tuple[str, str, str]]:
    """What does not go together in these values: the option to blame, a sentence, and the item of a list or nothing.

    `values` by name as `load` has read them; nothing follows from those that are `wrong`.
    """
    cluster = ClusterOptions(**{key: values[f"cluster.{key}"] for key in _KEYS})  # type: ignore[arg-type]
    found: list[tuple[str, str, str]] = []
    if not wrong & {"cluster.secret", "cluster.secret_file"}:
        found += _secret_mistakes(cluster)
    if cluster.peers and cluster.auth == "secret" and not (cluster.secret or cluster.secret_file):
        text = 'needs cluster.secret or cluster.secret_file, or cluster.auth = "tls": brokers authenticate each other'
        found.append(("cluster.peers", text, str(cluster.peers[0])))
    if cluster.auth == "secret" and (cluster.secret or cluster.secret_file) and not cluster.plaintext:
        for peer in cluster.peers:
            if peer.scheme in ANONYMOUS and not peer.is_local:
                text = f"{shown_value(str(peer))} is another machine, and not encrypted; use tls or wss, or set "
                found.append(("cluster.peers", f"{text}cluster.plaintext = true", str(peer)))
    if cluster.auth == "tls":
        if values["broker.name"] == NO_NAME and "broker.name" not in wrong:
            found.append(("cluster.auth", '"tls" needs broker.name, which is in the certificate', ""))
        for name in ("tls.client_ca", "cluster.principals"):
            if not values[name] and name not in wrong:
                found.append(("cluster.auth", f'"tls" needs {name}', ""))
        for peer in cluster.peers:
            if peer.scheme in ANONYMOUS:
                text = f'{shown_value(str(peer))} presents no certificate, which cluster.auth = "tls" requires'
                found.append(("cluster.peers", text, str(peer)))
    if cluster.silent_s <= cluster.hello_s:
        if cluster.silent_s == ClusterOptions().silent_s:  # then it is the other one that somebody wrote
            found.append(("cluster.hello_s", f"must be less than cluster.silent_s, {cluster.silent_s:g}", ""))
        else:
            found.append(("cluster.silent_s", f"must be more than cluster.hello_s, {cluster.hello_s:g}", ""))
    if cluster.listen and not is_in_cluster(cluster):
        found.append(("cluster.listen", "needs cluster.secret, cluster.secret_file or cluster.auth", ""))
    for key in ("advertise", "client_urls"):
        for url in getattr(cluster, key):
            if url.host in WILDCARDS or (not url.port and url.scheme != "unix"):
                text = f"{shown_value(str(url))} is an address to listen on, which others cannot dial"
                found.append((f"cluster.{key}", text, str(url)))
    fault = fault_of_name(str(values["broker.name"]))
    if fault and is_in_cluster(cluster):
        found.append(("broker.name", f"cannot be used in traces: {fault}", ""))
    return [mistake for mistake in found if mistake[0] not in wrong]


def is_in_cluster(cluster: ClusterOptions) -> bool:
    """It could be linked to other brokers."""
    return bool(cluster.secret or cluster.secret_file or cluster.peers or cluster.auth == "tls")


def all_listeners(config: Config) -> tuple[Listen, ...]:
    """Those for clients, and those for other brokers."""
    return (*config.server.listen, *config.cluster.listen)


def secret_of(cluster: ClusterOptions) -> bytes:
    """The secret; empty when there is none. OSError when its file cannot be read."""
    if cluster.secret_file:
        return Path(cluster.secret_file).read_bytes().rstrip(b"\r\n")
    return cluster.secret.encode()


def reachable(wanted: tuple[Listen, ...], listeners: list[str]) -> list[str]:
    """URLs to tell others: those wanted, or those that are listened on, with this machine's name for all its addresses.

    `listeners`: with the ports that the system gave them; those without are left out.
    """
    if wanted:
        return [str(url) for url in wanted]
    urls: list[str] = []
    for text in listeners:
        url = Listen.parse(text)
        if url.host in WILDCARDS:
            url = Listen(url.scheme, socket.gethostname(), url.port, url.path)
        if url.port or url.scheme == "unix":
            urls.append(str(url))
    return urls


def _secret_mistakes(cluster: ClusterOptions) -> list[tuple[str, str, str]]:
    if cluster.secret and cluster.secret_file:
        return [("cluster.secret", "and cluster.secret_file exclude each other", "")]
    name = "cluster.secret_file" if cluster.secret_file else "cluster.secret"
    try:
        secret = secret_of(cluster)
    except OSError:
        return []  # said already: it is a file that cannot be read
    if (cluster.secret or cluster.secret_file) and len(secret) < MIN_SECRET_BYTES:
        return [(name, f"has {len(secret)} bytes, at least {MIN_SECRET_BYTES} are needed", "")]
    return []


_KEYS: Final = [doc.key for doc in OPTIONS.values() if doc.section == "cluster"]
