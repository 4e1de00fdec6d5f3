"""The options of a broker among brokers: sections [cluster] and [annotations]. See `broker.config.options`."""

# ruff: noqa: RUF009 -- option() makes a dataclasses.field, which is what a default may be made by

from dataclasses import dataclass
from typing import Final, Literal

from broker.config.option import CLUSTER, CORE, option
from broker.config.urls import Listen, PeerUrl

MIN_SECRET_BYTES: Final = 16  # fewer can be guessed from one handshake that somebody overheard

Auth = Literal["secret", "tls"]
Locality = Literal["local", "even"]
FromClients = Literal["reject", "strip", "accept"]
ToClients = Literal["strip", "keep"]


@dataclass(frozen=True)
class ClusterOptions:
    """Clustering with other brokers. Without a secret, and without auth "tls", this broker links to none."""

    secret: str = option(
        "",
        f"Secret that the brokers of this cluster share; each proves to the other that it knows it. At least "
        f"{MIN_SECRET_BYTES} bytes. Never shown; but more people read a configuration file or a variable than "
        "secret_file.",
        '"correct horse battery staple"',
        is_secret=True,
    )
    secret_file: str = option(
        "",
        "File that holds the secret; line ends at its end are ignored. Instead of secret.",
        '"/run/secrets/rsocket-broker"',
        form="file",
        is_secret=True,
    )
    plaintext: bool = option(
        CLUSTER.plaintext,
        "Whether brokers of two machines may prove the secret, and send requests, over tcp and ws. Off, because "
        "whoever is between them reads all requests, and can relay the proof and be a broker.",
        "true",
    )
    auth: Auth = option(
        CLUSTER.auth,
        "How brokers authenticate: secret, by proving that they know it; tls, by a verified certificate whose "
        "subject is among principals, which needs tls.client_ca.",
        '"tls"',
    )
    principals: tuple[str, ...] = option(
        (),
        "Identities of brokers: certificate: and the URI or DNS name of the certificate, or its subject: all "
        "attributes, in the order of the certificate. A comma in a value is written `\\,`, in TOML best within single "
        "quotes: `'O=Acme\\, Inc., CN=broker-1'`. Or `uid:1000`, the user at the other end of a Unix socket. For auth "
        "tls. In the environment separated by semicolons.",
        '["organizationName=Acme, commonName=broker-1"]',
        form="subject",
    )
    peers: tuple[PeerUrl, ...] = option(
        (),
        "Brokers to dial: URLs like those of listeners; dns+tcp://NAME:PORT and dns+tls://NAME:PORT for all "
        "addresses of a name; srv+tcp://_SERVICE._tcp.NAME and srv+tls://… for all its SRV records. One reachable "
        "broker is enough to discover the others.",
        '["dns+tls://brokers.example:7878", "tls://10.0.0.5:7878"]',
        form="dial",
    )
    listen: tuple[Listen, ...] = option(
        (),
        "Addresses at which other brokers connect, and nobody else; then those of server.listen are for clients "
        "alone. So a firewall can tell one from the other. Empty: brokers and clients share those of server.listen.",
        '["tls://10.0.0.4:7100"]',
        form="URL",
    )
    mesh: bool = option(
        CLUSTER.is_mesh,
        "Whether brokers that this one discovers are dialled too, so that each request passes two brokers at "
        "most. Off to keep the topology that peers describes.",
        "false",
    )
    advertise: tuple[Listen, ...] = option(
        (),
        "URLs at which other brokers reach this one; they dial the first. Empty: those of listen, or else of "
        "server.listen, with the host name of this machine in place of 0.0.0.0 and [::].",
        '["tls://broker-1.example:7878"]',
        form="URL",
    )
    client_urls: tuple[Listen, ...] = option(
        (),
        "URLs at which clients reach this broker, sent to clients of another broker that drains. Empty: those of "
        "server.listen, as for advertise.",
        '["wss://broker-1.example:443/rsocket"]',
        form="URL",
    )
    cost: int = option(
        CLUSTER.link_cost,
        "Cost of each link of this broker. Requests take the cheapest path; ten leaves room below and above.",
        "100",
        "cost",
        within=(1, 65_535),
    )
    locality: Locality = option(
        CORE.locality,
        "Which routes are preferred when routes here and at other brokers match: local, those here while there "
        "are any; even, none. A hop to another broker costs time and CPU. The workers of one machine count as one "
        "broker.",
        '"even"',
    )
    hello_s: float = option(CLUSTER.hello_s, "Interval between heartbeats on a link.", "0.5", within=(0.01, 60))
    silent_s: float = option(
        CLUSTER.silent_s,
        "Time without a heartbeat after which another broker, with its routes, counts as lost. Three heartbeats, "
        "so that one lost in the network does no harm.",
        "10.0",
        within=(0.02, 600),
    )
    digest_s: float = option(
        CLUSTER.digest_s,
        "Interval between comparisons of the route digests of two brokers; what differs is sent again.",
        "5.0",
        within=(0.01, 600),
    )
    redial_max_s: float = option(
        CLUSTER.redial_max_s,
        "Longest interval between attempts to reach a broker; the first are shorter. Short, because the routes of "
        "a broker that is back should be complete within two seconds.",
        "30.0",
        within=(0.01, 3600),
    )
    max_brokers: int = option(
        CLUSTER.max_brokers,
        "Brokers that may be known, including this one; a link to one more is refused with over-limit.",
        "16",
        "brokers",
        within=(1, 65_536),
    )
    max_links: int = option(
        CLUSTER.max_links,
        "Links of this broker; one more is refused with over-limit. Each carries heartbeats and every change, and "
        "all must fit into one BROKER_INFO.",
        "16",
        "links",
        within=(1, 80),
    )
    max_routes: int = option(
        CLUSTER.max_routes,
        "Routes of other brokers that may be known, including recently removed ones; further ones are ignored.",
        "1000000",
        "routes",
        within=(1, 10_000_000),
    )
    ca: str = option(
        "",
        "CA certificates, PEM, one of which must have signed the certificate of a dialled broker. Empty: those of "
        "the system.",
        '"/etc/rsocket-broker/brokers.pem"',
        form="file",
    )


@dataclass(frozen=True)
class AnnotationOptions:
    """Router annotations: what brokers add to requests that they forward, by which loops are detected."""

    from_clients: FromClients = option(
        CORE.annotations_from_clients,
        "What happens to a request from a client that carries router annotations: reject, it is refused; strip, "
        "they are removed; accept, they are treated like a broker's, for debugging.",
        '"strip"',
    )
    to_clients: ToClients = option(
        CORE.annotations_to_clients,
        "Whether the called service gets the annotations: strip, they are removed; keep, it gets them, for debugging.",
        '"keep"',
    )
    max_hops: int = option(
        CORE.max_hops,
        "Brokers that a request may pass; it is refused at the next one. 0: as many as are known, since none may "
        "be passed twice.",
        "8",
        "brokers",
        within=(0, 255),
    )
    require: bool = option(
        CORE.require_annotations,
        "Whether other brokers must support annotations, and every request on a link must carry them. When off, a "
        "forwarding loop through brokers without them is not detected.",
        "false",
    )
    version: int = option(
        CLUSTER.version, "Version of the annotations that this broker supports; 0: none.", "0", "version", within=(0, 1)
    )
