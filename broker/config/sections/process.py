"""The options of the process: sections [broker], [server], [tls], [admin] and [log]. See `broker.config.options`."""

# ruff: noqa: RUF009 -- option() makes a dataclasses.field, which is what a default may be made by

from dataclasses import dataclass
from typing import Final, Literal

from broker.config.option import CORE, MAX_NAME_BYTES, option
from broker.config.sections.cluster import Locality
from broker.config.urls import Listen

MAX_WORKERS: Final = 256  # each is linked to each

Changes = Literal["local", "all", "off"]
TlsVersion = Literal["1.2", "1.3"]
LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["text", "json"]


@dataclass(frozen=True)
class BrokerOptions:
    """Who this broker is."""

    name: str = option(
        "broker",
        "What people call this broker: in the REST API, in logs and in events; in a cluster also in traces, where each "
        'needs a name of its own. "broker" is none: in traces it is broker- and the first 8 digits of the id.',
        '"eu-1"',
        within=(1, MAX_NAME_BYTES),
    )
    id: str = option(
        "",
        "Id of this broker in frames and events. Empty: a new random one at each start, which suits a broker whose "
        "events nobody joins across restarts.",
        '"6f1c7a52-5d1e-4f0b-9a55-0f6f0a3f0c11"',
        form="uuid",
    )


@dataclass(frozen=True)
class ServerOptions:
    """Where peers come in, and how the process ends."""

    listen: tuple[Listen, ...] = option(
        (Listen("tcp", "127.0.0.1", 7000), Listen("ws", "127.0.0.1", 7001)),
        "Where peers connect: tcp, tls, ws, wss with host and port (0: any free one), unix with an absolute path. "
        "Only this machine by default, because a broker without TLS asks nobody who they are.",
        '["tls://0.0.0.0:7000", "unix:///run/rsocket-broker.sock"]',
        flag="--listen",
        form="URL",
    )
    origins: tuple[str, ...] = option(
        (),
        "Web pages that may open a WebSocket here beside those from the same host and port: where they are from, as "
        "browsers say it. Any other page could ask and answer in the name of whoever looks at it. A program that is no "
        "browser says no origin, and may.",
        '["https://shop.example", "http://localhost:3000"]',
        form="origin",
    )
    names: tuple[str, ...] = option(
        (),
        "Names by which clients on WebSocket, other brokers that dial ws or wss, and users of the REST API reach this "
        "broker, beside the machine's own and those in listen, admin.listen, cluster.advertise and "
        "cluster.client_urls; of a container or a service, too. Addresses and localhost are always taken; any other "
        "name could be that of a stranger's page, made to lead here, and gets 421.",
        '["broker.shop.example"]',
        form="name",
    )
    workers: int = option(
        1,
        "Processes that accept on the same ports and are brokers of one cluster inside this machine: one core carries "
        "one of them. 0: one for each core that may be used. Limits hold for each of them.",
        "0",
        "processes",
        within=(0, MAX_WORKERS),
        flag="--workers",
    )
    worker_locality: Locality = option(
        "even",
        "Who answers when routes at several workers match: even, all alike; local, those at the caller's worker as "
        "long as there are any. To which worker a route came is chance, so with local some may get nothing; but where "
        "each service has connections to all workers, no request takes the way over another one.",
        '"local"',
    )
    stop_grace_s: float = option(
        10.0,
        "How long requests in flight may take to end after SIGTERM or SIGINT; new ones are refused meanwhile, but for "
        "half of that time at most not those of clients that are about to move to another broker. "
        "Below the 30 s after which most supervisors kill.",
        "25.0",
        "seconds",
        within=(0, 3600),
    )
    drain_grace_s: float = option(
        CORE.drain_grace_s,
        "How long requests in flight on a connection that is drained may take to end, from the moment when it is its "
        "turn, unless whoever drains says otherwise. As long as those of a broker that stops.",
        "60.0",
        "seconds",
        within=(0, 3600),
    )
    drain_spread_s: float = option(
        CORE.drain_spread_s,
        "The turns of the connections of one drain are spread over this time, unless whoever drains says otherwise: "
        "clients that all come back in one moment are a flood.",
        "120.0",
        "seconds",
        within=(0, 3600),
    )


@dataclass(frozen=True)
class TlsOptions:
    """Certificates: of the tls and wss listeners, and of the links to other brokers."""

    certificate: str = option(
        "",
        "The broker's certificate and those between it and the root, PEM. Required by tls and wss listeners; shown to "
        "brokers that are dialled, too.",
        '"/etc/rsocket-broker/broker.pem"',
        form="file",
    )
    key: str = option(
        "",
        "The certificate's private key, PEM, without a password. Required by tls and wss listeners.",
        '"/etc/rsocket-broker/broker.key"',
        form="file",
    )
    client_ca: str = option(
        "",
        "Roots, PEM. When set, a client must show a certificate that one of them signed.",
        '"/etc/rsocket-broker/clients.pem"',
        form="file",
    )
    min_version: TlsVersion = option("1.2", "The oldest TLS that is spoken; 1.0 and 1.1 are broken.", '"1.3"')


@dataclass(frozen=True)
class AdminOptions:
    """REST API and metrics."""

    listen: Listen | None = option(
        Listen("http", "127.0.0.1", 7070),
        "Where the REST API and the metrics listen; off switches them off. Only this machine by default, because they "
        "ask nobody who they are and name every route and peer.",
        '"off"',
        flag="--admin",
        form="HOST:PORT",
    )
    changes: Changes = option(
        "local",
        "Who may drain, redirect and close connections through the REST API: local, who asks from this machine; all, "
        "whoever reaches the listener; off, nobody. A listener that others reach for its metrics is no way in.",
        '"off"',
    )


@dataclass(frozen=True)
class LogOptions:
    """What the process says on standard error."""

    level: LogLevel = option(
        "info",
        "The least important lines that are written. info has one line when a peer comes and one when it goes, "
        "none per request.",
        '"warning"',
    )
    format: LogFormat = option("text", "text for people, json (one object a line) for collectors.", '"json"')
