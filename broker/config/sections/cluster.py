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
    """Other brokers. Without a secret, and without auth "tls", this broker has none and is linked to by none."""

    secret: str = option(
        "",
        f"What only brokers of this cluster know; each proves it to the other. At least {MIN_SECRET_BYTES} bytes. "
        "Shown nowhere, but a file or a variable is read by more people than secret_file.",
        '"correct horse battery staple"',
        is_secret=True,
    )
    secret_file: str = option(
        "",
        "A file that holds the secret, without the ends of lines behind it. Instead of secret.",
        '"/run/secrets/rsocket-broker"',
        form="file",
        is_secret=True,
    )
    auth: Auth = option(
        CLUSTER.auth,
        "How brokers prove who they are: secret, by knowing it; tls, by a verified certificate whose subject is among "
        "principals, which needs tls.client_ca.",
        '"tls"',
    )
    principals: tuple[str, ...] = option(
        (),
        "Subjects of certificates that are brokers: all their attributes, in the order of the certificate. A comma in "
        "a value is written `\\,`, in TOML best within single quotes: `'O=Acme\\, Inc., CN=broker-1'`. Also `uid "
        "1000`, who owns the other end of a Unix socket. For auth tls. In the environment separated by semicolons.",
        '["organizationName=Acme, commonName=broker-1"]',
        form="subject",
    )
    peers: tuple[PeerUrl, ...] = option(
        (),
        "Brokers to dial: URLs as listeners have them; dns+tcp://NAME:PORT and dns+tls://NAME:PORT, all addresses that "
        "a name has; srv+tcp://_SERVICE._tcp.NAME and srv+tls://…, all that its SRV records say. One that is reached "
        "is enough to learn of the others.",
        '["dns+tls://brokers.example:7000", "tcp://10.0.0.5:7000"]',
        form="dial",
    )
    mesh: bool = option(
        CLUSTER.is_mesh,
        "Whether brokers that this one has learned of are dialled too, so that each request passes two brokers at "
        "most. Off where the links of peers are the shape that is wanted.",
        "false",
    )
    advertise: tuple[Listen, ...] = option(
        (),
        "Where other brokers reach this one; they dial the first. Empty: its listeners, with the name of this machine "
        "in place of 0.0.0.0 and [::].",
        '["tls://broker-1.example:7000"]',
        form="URL",
    )
    client_urls: tuple[Listen, ...] = option(
        (),
        "Where clients reach this broker: told to those that another broker sends away. Empty: as advertise does.",
        '["wss://broker-1.example:443/rsocket"]',
        form="URL",
    )
    cost: int = option(
        CLUSTER.link_cost,
        "Of each link of this broker. Requests take the way that costs least, and ten leave room below and above.",
        "100",
        "cost",
        within=(1, 65_535),
    )
    locality: Locality = option(
        CORE.locality,
        "Who answers when routes here and at other brokers match: local, those here as long as there are any; even, "
        "all alike. A way over another broker costs time and work. The workers of one machine count as one broker.",
        '"even"',
    )
    hello_s: float = option(
        CLUSTER.hello_s,
        "Between signs of life on a link.",
        "0.5",
        "seconds",
        within=(0.01, 60),
    )
    silent_s: float = option(
        CLUSTER.silent_s,
        "A broker that says nothing for so long is lost, and its routes with it. Three hellos, so that one that a "
        "network has lost costs nothing.",
        "10.0",
        "seconds",
        within=(0.02, 600),
    )
    digest_s: float = option(
        CLUSTER.digest_s,
        "Between comparisons of what two brokers know of all routes; what differs is sent again.",
        "5.0",
        "seconds",
        within=(0.01, 600),
    )
    redial_max_s: float = option(
        CLUSTER.redial_max_s,
        "Between attempts to reach a broker, at most: the first come sooner. Short, because a broker that is back "
        "should be complete within two seconds.",
        "30.0",
        "seconds",
        within=(0.01, 3600),
    )
    max_brokers: int = option(
        CLUSTER.max_brokers,
        "Brokers that may be known, this one included; a link to one more is refused with over-limit.",
        "16",
        "brokers",
        within=(1, 65_536),
    )
    max_links: int = option(
        CLUSTER.max_links,
        "Links of this broker; one more is refused with over-limit. Each carries signs of life and every change, and "
        "all must fit one BROKER_INFO.",
        "16",
        "links",
        within=(1, 80),
    )
    max_routes: int = option(
        CLUSTER.max_routes,
        "Routes of other brokers that are known, those lately removed included; more are ignored.",
        "1000000",
        "routes",
        within=(1, 10_000_000),
    )
    ca: str = option(
        "",
        "Roots, PEM, by one of which the certificate of a dialled broker must be signed. Empty: those of the system.",
        '"/etc/rsocket-broker/brokers.pem"',
        form="file",
    )


@dataclass(frozen=True)
class AnnotationOptions:
    """Router annotations: what brokers write on requests that pass them, and by which a circle is seen."""

    from_clients: FromClients = option(
        CORE.annotations_from_clients,
        "What becomes of a request whose client sends annotations: reject, it is refused; strip, they are removed; "
        "accept, they count as a broker's, for debugging.",
        '"strip"',
    )
    to_clients: ToClients = option(
        CORE.annotations_to_clients,
        "Whether the service that is asked sees the annotations: strip, it does not; keep, it does, for debugging.",
        '"keep"',
    )
    max_hops: int = option(
        CORE.max_hops,
        "Brokers that a request may pass; with one more it is refused. 0: as many as are known, since none may be "
        "passed twice.",
        "8",
        "brokers",
        within=(0, 255),
    )
    require: bool = option(
        CORE.require_annotations,
        "Whether another broker must speak annotations and each request on a link carry them. Off, a circle of brokers "
        "that do not know them is not seen.",
        "false",
    )
    version: int = option(
        CLUSTER.version,
        "Of the annotations that this broker speaks; 0: none.",
        "0",
        "version",
        within=(0, 1),
    )
